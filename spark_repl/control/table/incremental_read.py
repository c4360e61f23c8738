"""Incremental read: the rows that were appended to the control table since a version.

To read all rows takes seconds with thousands of cuts. An appended commit is one small file.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ...delta.log.checkpoint_schedule import is_newest
from ...delta.log.log_replay import read_commit
from ...delta.store.storage import data_file, read
from ...errors import TargetError
from ...runtime.threads import Pool
from .row_formats import SCHEMA

_AT_ONCE = 8
"""files that are read at once, each in one request to storage"""
_APPENDS = {"add", "commitInfo", "txn"}
_MOST = 200
"""commits; to read more takes as long as to read all rows, which are mostly in one file"""


def rows_since(folder: str, version: int) -> tuple[int, pa.Table] | None:
    """Return the newest version, and the rows appended since ``version``. Return None if other
    changes were made, or if the commits can't show that. Raise OSError."""
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
        return newest, rows_of(folder, files)
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
    return pq.read_table(content, columns=SCHEMA.names, use_threads=False).cast(SCHEMA)
