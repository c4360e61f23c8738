"""ControlRows: what the control table holds, read without Spark, by any process.

The first read reads all rows and keeps them. A later one reads only the appended rows, if no commit
did anything else.

To read all rows takes seconds with thousands of cuts; an appended commit is one small file.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...delta.log.checkpoint_schedule import is_newest
from ...delta.log.log_replay import read_commit
from ...delta.log.log_state import newest_version
from ...delta.store import storage
from ...delta.store.storage import data_file, one_line, read
from ...errors import TargetError
from ...runtime.threads import map_at_once
from .control_log import HINT, ControlLog
from .control_snapshot import ControlSnapshot, Row
from .earlier_cuts import has_earlier
from .layout import Layout
from .owner import Owner
from .row_formats import KNOWN_FORMAT, SCHEMA, known_fields, with_all_columns

if TYPE_CHECKING:
    from typing import Self

    from .cut import Cut

NOT_APPLIED = (
    "start the applier (spark-repl run --config F, or apply), or give the folder of the applier's"
    " target"
)
"""hint about a target without a cut"""


class _Looks(threading.local):
    """This thread's last look for newer rows in ``ControlRows.one_look``: the version that it has
    found; -2: none counts."""

    are_few, version = False, -2

    def note(self, version: int) -> None:
        if self.are_few:
            self.version = version

    def forget(self) -> None:
        self.version = -2


class ControlRows:
    """Reads the control table. Thread-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._read = ControlSnapshot()
        self._looks, self._log = _Looks(), cast("ControlLog | None", None)

    @classmethod
    def existing(cls, target: str) -> Self:
        """Return the control table of a target that an applier has worked on. Raise TargetError for
        any other folder."""
        control = cls(Layout(target).control)
        if not control.exists():
            raise TargetError(
                "nothing has been applied to this target yet", file=target, hint=NOT_APPLIED
            )
        return control

    def exists(self) -> bool:
        """Return whether there is a control table. Raise OSError, and TargetError if its log is
        damaged."""
        return newest_version(self.path) >= 0

    def table_id(self) -> str:
        """Return the id that the control table got when it was created; "" if there is none yet.
        Raise OSError, and TargetError if its log is damaged."""
        log = self._read_log()
        return log.table_id if log is not None else ""

    def _open(self) -> ControlLog:
        """Return the newest version of the log. Raise OSError, and TargetError if there is no
        control table, or its log is damaged."""
        if (log := self._read_log()) is None:
            raise TargetError("the control table is gone", file=self.path, hint=HINT)
        return log

    def _read_log(self) -> ControlLog | None:
        """Return the newest version of the log; None if there is no control table. Raise OSError,
        and TargetError if the log is damaged."""
        with storage.named(self.path):
            return ControlLog.newest(self.path)

    def rows(self, kind: str) -> list[Row]:
        """Return all rows of one kind, oldest first; none if there is no control table yet. Raise
        OSError, which may be transient, TargetError, and FormatError if a later version has written
        a row whose format is unknown."""
        return self.snapshot().rows(kind)

    def snapshot(self) -> ControlSnapshot:
        """Return all rows of the newest version, because a start needs rows of every kind, and each
        row may be a file. Raise as ``rows``."""
        snapshot = self._read
        if snapshot.version == self._looks.version:
            return snapshot
        with storage.named(self.path):
            if is_newest(self.path, snapshot.version):
                self._looks.note(snapshot.version)
                return snapshot
            newer = rows_since(self.path, snapshot.version)
            if newer is not None and _is_sequel(snapshot, newer[1]):
                snapshot = snapshot.with_newer(*newer)
            elif (log := self._read_log()) is not None:
                snapshot, self._log = self._snapshot_of(log), log
            else:
                return ControlSnapshot()
        if snapshot.version > self._read.version:  # else another thread has read more meanwhile
            self._read = snapshot
        self._looks.note(snapshot.version)
        return snapshot

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Return a context in which this thread looks for newer rows only once, and again after
        each of its own commits and each ``check_owner``. A look takes two requests on an object
        store."""
        outer, self._looks.are_few = self._looks.are_few, True
        try:
            yield
        finally:
            self._looks.are_few = outer
            if not outer:
                self._looks.forget()

    def _newest_log(self) -> ControlLog | None:
        """Return as ``_read_log`` does, without reading the log again if ``snapshot`` has read the
        newest version."""
        if self._log is not None and is_newest(self.path, self._log.version):
            return self._log
        return self._read_log()

    def _snapshot_of(self, log: ControlLog) -> ControlSnapshot:
        return ControlSnapshot.of(log.version, self._rows_of(log), KNOWN_FORMAT, self.path)

    def _rows_of(self, log: ControlLog) -> pa.Table:
        """Return the table's rows. Files that this process has appended since the last pruning are
        not read again. Raise OSError and TargetError."""
        with storage.named(self.path):
            try:
                read = rows_of(self.path, [path for path in log.files if path not in log.appended])
                return pa.concat_tables([read, *map(_complete, log.appended.values())])
            except (FileNotFoundError, pa.ArrowInvalid) as error:  # a power failure leaves both
                problem = (
                    f"a file of the control table is missing or damaged: {one_line(str(error))}"
                )
                raise TargetError(problem, file=self.path, hint=HINT) from error

    def owner(self) -> tuple[int, Owner] | None:
        rows = self.rows("owner")
        newest = max(rows, key=lambda row: (row["epoch"], row["at"]), default=None)
        return (newest["epoch"], _owner(newest)) if newest else None

    def cuts(self) -> list[Cut]:
        """Return all cuts by their positions. If two have the same position, because an operator
        ended an XA branch, the later one is last. To read cuts one after the other, use those of
        ``snapshot``: all of them may be gigabytes. Raise as ``rows``."""
        return list(self.snapshot().all_cuts())

    def last_cut(self) -> Cut | None:
        """Return the newest cut; None if there is none. Raise as ``rows``."""
        snapshot = self.snapshot()
        return snapshot.cut_of(row) if (row := snapshot.last_cut()) else None

    def cut_count(self) -> int:
        return self.snapshot().cut_count


def _owner(row: Row) -> Owner:
    return Owner(**known_fields(Owner, json.loads(row["detail"])))


def _is_sequel(snapshot: ControlSnapshot, rows: pa.Table) -> bool:
    """Return whether rows that were read commit by commit follow a snapshot: each is of an owner
    whose claim is known. Otherwise commits are missing in between. A former owner that slept may
    have written a commit of its own in the place of one that was removed (``control_log``)."""
    claims = rows.filter(pc.equal(rows.column("kind"), "owner")).column("epoch").to_pylist()
    known = {0, *claims, *(row["epoch"] for row in snapshot.rows("owner"))}
    return known.issuperset(rows.column("epoch").unique().to_pylist())


_AT_ONCE = 8
"""files that are read at once, each in one request to storage"""
_APPENDS = {"add", "commitInfo", "txn"}
_MOST = 200
"""commits; to read more takes as long as to read all rows, which are mostly in one file"""


def rows_since(folder: str, version: int) -> tuple[int, pa.Table] | None:
    """Return the newest version, and the rows appended since ``version``. Return None if other
    changes were made, if the commits can't show this, or if an earlier version wrote a cut. Raise
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
    tables = map_at_once(lambda path: _read(folder, path), paths, _AT_ONCE)
    return pa.concat_tables([SCHEMA.empty_table(), *tables])


def _read(folder: str, path: str) -> pa.Table:
    """Read a file, mostly of a few kilobytes, in one request."""
    content = pa.BufferReader(read(data_file(folder, path)))
    # ``read_table`` takes five times as long for so small a file.
    return _complete(pq.ParquetFile(content).read(use_threads=False))


def _complete(rows: pa.Table) -> pa.Table:
    return rows if rows.schema.equals(SCHEMA) else with_all_columns(rows).cast(SCHEMA)
