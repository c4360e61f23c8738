"""Every cut that is promised, read whole, and compared with the source's own history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read

from .source_history import Row, SourceHistory
from .table_files import live, missing


class CutCheck:
    """``figures``: cuts read; torn: cuts that are no state of the source; rows lost and doubled (or
    wrong) over all cuts; unreadable: files that are gone though a cut needs them; exempt: tables of
    cuts whose files another writer's VACUUM removed, as it may.

    ``vacuums`` are of foreigner.py. One that ran while a table went from version ``before`` to
    ``after`` may take what one of those no longer holds; what they all hold must be there.
    """

    def __init__(
        self, layout: Layout, history: SourceHistory, vacuums: Sequence[Mapping[str, Any]]
    ) -> None:
        self.layout, self.history, self.vacuums = layout, history, vacuums
        self.figures: Counter[str] = Counter(
            {"cuts_checked": 0, "torn": 0, "lost": 0, "doubled": 0, "unreadable": 0, "exempt": 0}
        )
        self.problems: list[str] = []
        self._last: dict[str, tuple[int, list[Row]]] = {}  # path -> version, its rows

    def check(self, cuts: Sequence[Cut]) -> None:
        """In the order of the log. Of the newest one nothing is exempt."""
        for cut in cuts:
            self.figures["cuts_checked"] += 1
            whole = self.history.move_to(cut.gtid_executed)
            if not whole:
                self._problem(cut, "the GTID set is no prefix of the source's log")
            for name, at in cut.tables.items():
                have = self._rows(cut, at, newest=cut is cuts[-1])
                whole &= have is None or self._same(cut, name, have)
            self.figures["torn"] += not whole

    def _same(self, cut: Cut, name: str, have: list[Row]) -> bool:
        """Of a table without rows in the log, none."""
        want = list(self.history.rows.get(name, {}).values())
        missed, much = Counter(want) - Counter(have), Counter(have) - Counter(want)
        if missed or much:
            self.figures["lost"] += missed.total()
            self.figures["doubled"] += much.total()
            self._problem(cut, f"{name} lacks {[*missed][:3]}, has {[*much][:3]}")
        return not (missed or much)

    def _rows(self, cut: Cut, at: TableVersion, *, newest: bool) -> list[Row] | None:
        """None where files are gone."""
        version, rows = self._last.get(at.path, (-1, []))
        if version == at.version:
            return rows
        folder = self.layout.table(at.path)
        if gone := missing(folder, at.version):
            taken = set() if newest else self._taken(folder, at.version, gone)
            self.figures["exempt"] += gone == taken
            self.figures["unreadable"] += len(gone - taken)
            if gone - taken:
                self._problem(cut, f"{at.path} at {at.version}: gone {sorted(gone - taken)}")
            return None
        rows = [tuple(row.values()) for row in read(folder, at.version).to_pylist()]
        self._last[at.path] = at.version, rows
        return rows

    def _taken(self, folder: str, version: int, gone: set[str]) -> set[str]:
        """Of the files that are gone those that some VACUUM was free to take."""
        taken: set[str] = set()
        for one in self.vacuums:
            if one["folder"] == folder:
                for later in range(max(version + 1, one["before"]), one["after"] + 1):
                    taken |= gone - live(folder, later)
        return taken

    def _problem(self, cut: Cut, text: str) -> None:
        self.problems.append(f"{cut.gtid_executed} ({cut.at}): {text}")
