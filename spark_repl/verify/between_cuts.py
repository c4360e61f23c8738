"""Two cuts of a target compared with each other, without the source: rows that only one of them
has.

A data file that both cuts have, with the same deletion vector, is not read: files never change. Of
a table without a key all files are read, to count how often each cut has a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..config.renaming import whole_of
from ..errors import TargetError
from ..runtime.retry import first_line
from .cut_files import CutDefinitions, files_of
from .differences import Differing, describe
from .digest_sums import differing, sums
from .target_files import FileSet, digest_files, lacking
from .work_folder import TablePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..control.table.control import Control
    from ..control.table.cut import Cut, TableVersion
    from ..control.table.layout import Layout
    from ..delta.files.digests import Digests
    from ..delta.log.table_log import TableLog
    from ..tables.target_table import TargetTable
    from .digest_sums import Keys
    from .work_folder import WorkFolder

_WORDS = {"missing": "gone", "extra": "new", "source": "first", "target": "second"}
"""words for a source and a target -> words for two cuts"""


@dataclass
class FoundBetween:
    """The result of a comparison of two cuts. ``tables``: table -> its counts: ``rows`` of the
    second cut, ``ranges`` (data files that were read, because only one cut has them in this state),
    and differing keys. ``by_kind``: table -> number of its keys that are gone, new, different, or
    have another count."""

    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)
    not_compared: dict[str, str] = field(default_factory=dict)
    differences: list[dict[str, Any]] = field(default_factory=list)


class Between:
    """A comparison of two cuts. ``run`` gives tasks to workers, in at most ``connections``
    lists."""

    def __init__(
        self,
        layout: Layout,
        control: Control,
        log: TableLog,
        run: Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]],
        connections: int,
    ) -> None:
        self._layout, self._log, self._run, self._connections = layout, log, run, connections
        self._definitions = CutDefinitions(control, layout, log)

    def compare(
        self, left: Cut, right: Cut, only: Sequence[str], work: WorkFolder, most: int
    ) -> FoundBetween:
        """Compare all tables of both cuts, or only those in ``only``; describe at most ``most``
        rows. Raise TargetError if a table of a cut no longer exists."""
        comparison = FoundBetween()
        table_names = sorted({*left.tables, *right.tables})
        names = [name for name in table_names if not only or {name, whole_of(name)} & {*only}]
        for name in names:
            self._table(name, left, right, comparison, work, most - len(comparison.differences))
        for name in only:
            if name not in {*names, *map(whole_of, names)}:
                comparison.not_compared[name] = "neither cut has it"
        return comparison

    def _table(
        self,
        name: str,
        left: Cut,
        right: Cut,
        comparison: FoundBetween,
        work: WorkFolder,
        most: int,
    ) -> None:
        sides = [self._side(cut, cut.tables.get(name)) for cut in (left, right)]
        reason = _reason(sides)
        if reason:
            comparison.not_compared[name] = reason
            return
        (old, definition), (new, _) = (side for side in sides if side)
        try:
            self._rows(name, (old, new), definition, comparison, work, most)
        except Exception as error:
            if lacking(error, {"first": old, "second": new}) is None:
                raise
            comparison.not_compared[name] = f"a data file is gone: {first_line(error)}"

    def _rows(
        self,
        name: str,
        both: tuple[FileSet, FileSet],
        definition: TargetTable,
        comparison: FoundBetween,
        work: WorkFolder,
        most: int,
    ) -> None:
        old, new = both
        folder, _ = work.of(definition, TablePlan())
        compared = _Pair(
            definition, folder, *(_apart(old, new) if definition.primary_key else (old, new))
        )
        tasks = compared.tasks()
        shares = [tasks[first :: self._connections] for first in range(self._connections)]
        self._run(digest_files, [share for share in shares if share])
        unlike = compared.differing()
        comparison.tables[name] = {
            "rows": sum(map(new.rows_of, new.files.values())),
            "ranges": len(tasks),
            "differing": len(unlike.keys),
        }
        if len(unlike.keys):
            kinds = unlike.by_kind(definition).items()
            comparison.by_kind[name] = {_WORDS.get(kind, kind): count for kind, count in kinds}
        comparison.differences += [
            {_WORDS.get(name, name): value for name, value in row.items()}
            | {"kind": _WORDS.get(row["kind"], row["kind"])}
            for row in compared.describe(unlike.take(np.arange(len(unlike.keys))[: max(most, 0)]))
        ]
        work.forget(name)

    def _side(self, cut: Cut, at: TableVersion | None) -> tuple[FileSet, TargetTable] | None:
        if at is None:
            return None
        files = files_of(self._log, self._layout.table(at.path), at.version)
        definition = self._definitions.of(cut, at)
        if definition is None:
            raise TargetError(
                "the table's properties no longer have its definition", file=files.folder,
                hint="copy the table again if another writer replaced it: spark-repl snapshot"
                " --config F --table DB.T",
            )  # fmt: skip
        return files.of_shard(definition), definition


def _reason(sides: Sequence[tuple[FileSet, TargetTable] | None]) -> str:
    """Return why a table can't be compared; "" if it can."""
    old, new = sides
    if old is None or new is None:
        return "the second cut alone has it" if old is None else "the first cut alone has it"
    keys = [[d.columns[i].name for i in d.primary_key] for _, d in (old, new)]
    for files, definition in (old, new):
        if not files.columns.fits(definition.arrow_schema()):
            return f"its columns are not as its definition has them: {files.columns.describe()}"
    before, after = (files.columns.describe() for files, _ in (old, new))
    if before != after or keys[0] != keys[1]:
        return f"the cuts have other columns, or another key: {before}, then {after}"
    return ""


def _apart(old: FileSet, new: FileSet) -> tuple[FileSet, FileSet]:
    """Return both file sets without the files that are identical in both."""
    same = {
        path
        for path, add in new.files.items()
        if old.folder == new.folder
        and old.schema_string == new.schema_string
        and path in old.files
        and old.files[path].get("deletionVector") == add.get("deletionVector")
    }
    return old.without(same), new.without(same)


@dataclass(frozen=True)
class _Pair:
    """The parts of a table's two versions that differ. ``work``: the folder of digests."""

    definition: TargetTable
    work: str
    old: FileSet
    new: FileSet

    @property
    def key(self) -> tuple[int, ...]:
        return self.definition.primary_key

    def tasks(self) -> list[Any]:
        schema = self.definition.arrow_schema()
        both = [
            task
            for files in (self.old, self.new)
            for task in files.tasks(self.work, schema, self.key)
        ]
        return list({task.out: task for task in both}.values())

    def differing(self) -> Differing:
        keys = differing(self._sorted(), self.new.live(self.work, self.key))
        return Differing(keys, self._rows_of(self.old, keys), self._rows_of(self.new, keys))

    def _rows_of(self, files: FileSet, keys: Keys) -> npt.NDArray[np.int64]:
        """Return how many live rows each key has."""
        count = np.zeros(len(keys), np.int64)
        for _, digested, alive in files.live(self.work, self.key) if len(keys) else ():
            rows = alive[np.isin(digested[0][alive], keys)]
            count += sums(keys, digested[0][rows], digested[1][rows]).count
        return count

    def _sorted(self) -> list[Digests]:
        live = [digested[:, alive] for _, digested, alive in self.old.live(self.work, self.key)]
        return [np.ascontiguousarray(part[:, np.argsort(part[0])]) for part in live]

    def describe(self, unlike: Differing) -> list[dict[str, Any]]:
        if not len(unlike.keys):
            return []
        schema, both = self.definition.arrow_schema(), (self.old, self.new)
        rows = [files.rows_with(self.work, unlike.keys, self.key, schema) for files in both]
        return describe(self.definition, unlike, *rows)


def totals(comparison: FoundBetween) -> dict[str, int]:
    """Return the sums of the counts over all tables."""
    names = ("rows", "ranges", "differing")
    return {name: sum(counts[name] for counts in comparison.tables.values()) for name in names}
