"""A process that appends rows to a table that others append to: ``WAY FOLDER NAME COUNT``.

``ours``: through TableLog, each append bearing the next position of the application NAME, planned
anew where another writer was first. ``delta-rs``: through its own writer. Prints the rows' ids.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from spark_repl.delta.files.delta_columns import Columns, write_file
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.delta.store import storage
from spark_repl.errors import ConcurrentChangeError


def append_ours(folder: str, name: str, number: int) -> None:
    """Append a row as the applier does; an unknown outcome is looked up by the position."""
    log, position = TableLog(), number + 1
    planned = _newest(log, folder)
    columns = Columns.of(planned.schema_string)
    rows = pa.table({"id": [number], "who": [name]})
    (add,) = [write_file(folder, columns, part, values) for values, part in columns.split(rows)]
    while log.last_txn(planned, name) != position:
        with suppress(ConcurrentChangeError, OSError):  # it may have landed: the newest one tells
            log.commit(planned, [{"add": add}], Stamp(name, position, "{}"))
        planned = _newest(log, folder)


def _newest(log: TableLog, folder: str) -> Snapshot:
    while True:
        try:
            snapshot = log.snapshot(folder)
        except OSError:
            continue
        assert snapshot is not None
        return snapshot


def append_delta_rs(folder: str, name: str, number: int) -> None:
    rows = pa.table({"id": [number], "who": [name]})
    while True:
        try:
            write_deltalake(folder, rows, mode="append", storage_options=storage.options(folder))
        except CommitFailedError:
            continue
        return


if __name__ == "__main__":
    way, where, who, count = sys.argv[1:]
    append = {"ours": append_ours, "delta-rs": append_delta_rs}[way]
    for at in range(int(count)):
        append(where, who, at)
    print(json.dumps(list(range(int(count)))))
