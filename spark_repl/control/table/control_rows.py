"""ControlRows: what the control table holds, read without Spark, by anybody.

All rows are read at once, and kept; then what has been appended since, where nothing else was done.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ...delta import storage
from ...delta.checkpoint import is_newest, past_lost
from ...delta.delta_rs import delta_rs
from ...errors import TargetError
from .control_snapshot import HeldRows, Row
from .incremental_read import rows_of, rows_since
from .layout import Layout
from .owner import Owner
from .row_formats import KNOWN_FORMAT, known_fields

if TYPE_CHECKING:
    from typing import Self

    from .cut import Cut

_READ = "read the control table"
_HINT = "give the folder that apply or run was given as its target"


class ControlRows:
    """Safe to call from several threads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._options = storage.options(path)
        self._read = HeldRows()

    @classmethod
    def existing(cls, target: str) -> Self:
        """The control table of a target that an applier has worked on. Raises TargetError for any
        other folder."""
        control = cls(Layout(target).control)
        if not control.exists():
            raise TargetError(
                "nothing has been applied to this target yet", file=target, hint=_HINT
            )
        return control

    def exists(self) -> bool:
        with delta_rs(_READ, self.path):
            return DeltaTable.is_deltatable(self.path, storage_options=self._options)

    def _open(self) -> DeltaTable:
        with delta_rs(_READ, self.path):
            return past_lost(
                self.path, lambda: DeltaTable(self.path, storage_options=self._options)
            )

    def rows(self, kind: str) -> list[Row]:
        """All rows of one kind, oldest first. Empty when there is no control table yet. Raises
        OSError, which may pass, TargetError, and FormatError when any row was written by a version
        whose rows this one doesn't know."""
        return self.held().rows(kind)

    def held(self) -> HeldRows:
        """All rows of the newest version; a start asks for every kind, and each row is a file.
        Raises as ``rows``."""
        held = self._read
        with delta_rs(_READ, self.path):
            if is_newest(self.path, held.version):
                return held
            newer = rows_since(self.path, held.version)
        if newer is not None:
            held = held.with_newer(*newer)
        else:
            try:
                table = self._open()
            except TableNotFoundError:
                return HeldRows()
            held = HeldRows.of(table.version(), self._rows_of(table), KNOWN_FORMAT, self.path)
        if held.version > self._read.version:  # else another thread knows more by now
            self._read = held
        return held

    def _rows_of(self, table: DeltaTable) -> pa.Table:
        """The table's rows. Its files are read here: delta-rs' file system is a Python object, and
        a thread of Arrow's that lets it go when the interpreter has ended aborts the process."""
        with delta_rs(_READ, self.path):
            paths = pa.table(table.get_add_actions())["path"].to_pylist()
            return rows_of(self.path, paths)

    def owner(self) -> tuple[int, Owner] | None:
        rows = self.rows("owner")
        newest = max(rows, key=lambda row: (row["epoch"], row["at"]), default=None)
        return (newest["epoch"], _owner(newest)) if newest else None

    def cuts(self) -> list[Cut]:
        """All cuts by their positions, of two at one the later one last: an XA branch was ended by
        hand. Who needs one after the other takes those of ``held``: all of them may be gigabytes.
        Raises as ``rows``."""
        return list(self.held().all_cuts())

    def last_cut(self) -> Cut | None:
        """The newest cut; None: there is none. Raises as ``rows``."""
        held = self.held()
        return held.cut_of(row) if (row := held.last_cut()) else None

    def cut_count(self) -> int:
        return self.held().cut_count


def _owner(row: Row) -> Owner:
    return Owner(**known_fields(Owner, json.loads(row["detail"])))
