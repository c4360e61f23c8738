"""ControlRows: what the control table holds, read without Spark, by any process.

The first read reads all rows and keeps them. A later one reads only the appended rows, if no commit
did anything else.

To read all rows takes seconds with thousands of cuts; an appended commit is one small file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ...delta.log.checkpoint_schedule import is_newest, past_lost
from ...delta.log.log_replay import read_commit
from ...delta.store import storage
from ...delta.store.delta_rs import delta_rs
from ...delta.store.storage import data_file, read
from ...errors import TargetError
from ...runtime.threads import Pool
from .control_snapshot import ControlSnapshot, Row
from .earlier_cuts import has_earlier
from .layout import Layout
from .owner import Owner
from .row_formats import KNOWN_FORMAT, SCHEMA, known_fields, with_all_columns

if TYPE_CHECKING:
    from typing import Self

    from .cut import Cut

_READ = "read the control table"
_HINT = "give the folder that apply or run was given as its target"


class ControlRows:
    """Reads the control table. Thread-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._options = storage.options(path)
        self._read = ControlSnapshot()

    @classmethod
    def existing(cls, target: str) -> Self:
        """Return the control table of a target that an applier has worked on. Raise TargetError for
        any other folder."""
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
        """Return all rows of one kind, oldest first; none if there is no control table yet. Raise
        OSError, which may be transient, TargetError, and FormatError if a later version has written
        a row whose format is unknown."""
        return self.snapshot().rows(kind)

    def snapshot(self) -> ControlSnapshot:
        """Return all rows of the newest version. A start reads every kind, and each row may be a
        file. Raise as ``rows``."""
        snapshot = self._read
        with delta_rs(_READ, self.path):
            if is_newest(self.path, snapshot.version):
                return snapshot
            newer = rows_since(self.path, snapshot.version)
        if newer is not None:
            snapshot = snapshot.with_newer(*newer)
        else:
            try:
                table = self._open()
            except TableNotFoundError:
                return ControlSnapshot()
            snapshot = ControlSnapshot.of(
                table.version(), self._rows_of(table), KNOWN_FORMAT, self.path
            )
        if snapshot.version > self._read.version:  # else another thread has read more meanwhile
            self._read = snapshot
        return snapshot

    def _rows_of(self, table: DeltaTable) -> pa.Table:
        """Return the table's rows. The files are read here and not by delta-rs, whose file system
        is a Python object: if a thread of Arrow releases it after the interpreter has ended, the
        process aborts."""
        with delta_rs(_READ, self.path):
            paths = pa.table(table.get_add_actions())["path"].to_pylist()
            return rows_of(self.path, paths)

    def owner(self) -> tuple[int, Owner] | None:
        rows = self.rows("owner")
        newest = max(rows, key=lambda row: (row["epoch"], row["at"]), default=None)
        return (newest["epoch"], _owner(newest)) if newest else None

    def cuts(self) -> list[Cut]:
        """Return all cuts by their positions, of two at one position the later one last: an XA
        branch was ended by an operator. To read one after the other, use those of ``snapshot``: all
        of them may be gigabytes. Raise as ``rows``."""
        return list(self.snapshot().all_cuts())

    def last_cut(self) -> Cut | None:
        """Return the newest cut; None: there is none. Raise as ``rows``."""
        snapshot = self.snapshot()
        return snapshot.cut_of(row) if (row := snapshot.last_cut()) else None

    def cut_count(self) -> int:
        return self.snapshot().cut_count


def _owner(row: Row) -> Owner:
    return Owner(**known_fields(Owner, json.loads(row["detail"])))


_AT_ONCE = 8
"""files that are read at once, each in one request to storage"""
_APPENDS = {"add", "commitInfo", "txn"}
_MOST = 200
"""commits; to read more takes as long as to read all rows, which are mostly in one file"""


def rows_since(folder: str, version: int) -> tuple[int, pa.Table] | None:
    """Return the newest version, and the rows appended since ``version``. Return None if other
    changes were made, if the commits can't show that, or if an earlier version wrote a cut. Raise
    OSError."""
    if version < 0:
        return None
    files, newest = list[str](), version
    try:
        while (actions := read_commit(folder, newest + 1)) is not None:
            appends = all(_APPENDS.issuperset(action) for action in actions)
            if not (actions and appends) or newest - version == _MOST:
                return None
            files += [action["add"]["path"] for action in actions if "add" in action]
            newest += 1
        # Otherwise commits were removed after a newer checkpoint was written.
        if newest == version or not is_newest(folder, newest):
            return None
        rows = rows_of(folder, files)
        return None if has_earlier(rows) else (newest, rows)
    except (FileNotFoundError, TargetError, ValueError, pa.ArrowInvalid):
        return None


def rows_of(folder: str, paths: Sequence[str]) -> pa.Table:
    """Return the rows of data files of the control table. Raise OSError, and ArrowInvalid or
    ValueError for a file that is not Parquet."""
    count = min(_AT_ONCE, len(paths))
    if count < 2:
        tables = [_read(folder, path) for path in paths]
    else:
        with Pool(count) as pool:
            tables = list(pool.map(lambda path: _read(folder, path), paths))
    return pa.concat_tables([SCHEMA.empty_table(), *tables])


def _read(folder: str, path: str) -> pa.Table:
    """Read a file, mostly of a few kilobytes, in one request."""
    content = pa.BufferReader(read(data_file(folder, path)))
    return with_all_columns(pq.read_table(content, use_threads=False)).cast(SCHEMA)
