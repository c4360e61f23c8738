"""A version of a table as its log names it, without Spark's reconstruction of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..delta.columns import Columns
from ..errors import TargetError
from .target_files import FileSet

if TYPE_CHECKING:
    from ..delta.snapshot import Snapshot
    from ..delta.table_log import TableLog


def files_of(log: TableLog, folder: str, version: int) -> FileSet:
    """The live files of one version. Raises TargetError when there is none."""
    snapshot = snapshot_of(log, folder, version)
    columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
    return FileSet(folder, version, snapshot.schema_string, columns, log.files(snapshot))


def snapshot_of(log: TableLog, folder: str, version: int) -> Snapshot:
    """One version. Raises TargetError when there is none."""
    snapshot = log.snapshot(folder, version)
    if snapshot is None:
        raise TargetError(
            "the cut names a table that is not there", file=folder,
            hint="copy the table again, if somebody removed it: spark-repl snapshot --config F"
            " --table DB.T",
        )  # fmt: skip
    return snapshot
