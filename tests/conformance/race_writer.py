"""A process that appends rows to a table that others append to: ``WAY FOLDER NAME COUNT``.

``ours``: through TableLog, as the applier does it: each append has the next position of the
application NAME, and is planned again if another writer was first. ``delta-rs``: through its own
writer. Prints the number of rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from spark_repl.delta.files.delta_columns import Columns, write_file
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.delta.store import storage
from spark_repl.errors import ConcurrentChangeError


class OurWriter:
    """Appends by a snapshot that it carries on commit by commit."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder, self.name, self.log = folder, name, TableLog()
        self.planned: Snapshot | None = None

    def append(self, number: int) -> None:
        """Append a row. Look an unknown outcome up by the position."""
        position = number + 1
        planned = self.newest()
        columns = Columns.of(planned.schema_string)
        rows = pa.table({"id": [number], "who": [self.name]})
        parts = columns.split(rows)
        (add,) = [write_file(self.folder, columns, part, values) for values, part in parts]
        while self.log.last_txn(planned, self.name) != position:
            with suppress(ConcurrentChangeError, OSError):  # the newest version shows whether
                self.log.commit(planned, [{"add": add}], Stamp(self.name, position, "{}"))
            planned = self.newest()

    def newest(self) -> Snapshot:
        while True:
            with suppress(OSError):
                if self.planned is None:
                    self.planned = self.log.snapshot(self.folder)
                assert self.planned is not None
                while not self.log.is_newest(self.planned):
                    self.planned = self.log.advance(self.planned, self.planned.version + 1)
                return self.planned


def append_delta_rs(folder: str, name: str, number: int) -> None:
    rows = pa.table({"id": [number], "who": [name]})
    while True:
        with suppress(CommitFailedError):
            write_deltalake(folder, rows, mode="append", storage_options=storage.options(folder))
            return


def appends(way: str, folder: str, name: str) -> Callable[[int], None]:
    return (
        OurWriter(folder, name).append if way == "ours" else partial(append_delta_rs, folder, name)
    )


if __name__ == "__main__":
    append = appends(*sys.argv[1:4])
    for number in range(int(sys.argv[4])):
        append(number)
    print(sys.argv[4])
