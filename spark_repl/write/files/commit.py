"""Commit: what the write tasks returned becomes one Delta commit per table, data and position."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap

from ...delta import deletion_vector
from ...delta.new_file import date_ahead
from ...delta.statistics import loosened, row_count
from ...errors import ConcurrentChangeError, TargetError

if TYPE_CHECKING:
    from ...delta.log_replay import Action
    from ...delta.stamp import Stamp
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits
    from .write_task import Written

    TablePart = tuple[Table, Sequence[Written]]


def marked_rows(written: Sequence[Written]) -> dict[str, BitMap]:
    """The rows of each data file that go, over all shards of a table."""
    marks: dict[str, BitMap] = {}
    for part in written:
        for path, data in part.marks.items():
            rows = BitMap.deserialize(data)
            marks[path] = marks[path] | rows if path in marks else rows
    return marks


def actions_of(commits: TableCommits, table: Table, written: Sequence[Written]) -> list[Action]:
    """The ``add``, ``remove`` and ``cdc`` actions of one table's commit; writes its deletion
    vectors.

    Raises TargetError when a marked row was marked already: the plan didn't fit the table.
    """
    now_ms = commits.time.now_ms()
    gone = [path for part in written for path in part.gone]
    actions: list[Action] = [{"remove": removed(commits.action(table, p), now_ms)} for p in gone]
    kept: list[tuple[Action, BitMap]] = []
    for path, rows in marked_rows(written).items():
        if path in gone:  # written anew without them
            continue
        old = commits.action(table, path)
        try:
            dead = deletion_vector.joined(table.folder, old, rows)
        except TargetError as error:
            raise error.at(table=table.name) from error
        actions.append({"remove": removed(old, now_ms)})
        if len(dead) < row_count(table.folder, old):
            kept.append((old, dead))
    vectors = deletion_vector.write(table.folder, [rows for _, rows in kept]) if kept else []
    for (old, _), vector in zip(kept, vectors, strict=True):
        stats = loosened(table.folder, old)
        fresh = {**old, "deletionVector": vector, "stats": stats, "dataChange": True}
        actions.append({"add": fresh})
    actions += [{"add": add} for part in written for add in part.adds]
    actions += [{"cdc": changes} for part in written for changes in part.changes]
    return actions


def removed(old: Action, now_ms: int, *, data_change: bool = True) -> dict[str, Any]:
    """The ``remove`` action of a live file; ``now_ms``: milliseconds."""
    action = {
        "path": old["path"],
        "deletionTimestamp": now_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": old.get("partitionValues") or {},
        "size": old["size"],
    }
    if old.get("deletionVector"):
        action["deletionVector"] = old["deletionVector"]
    return action


def check_files(table: Table, paths: Sequence[str]) -> None:
    """Raises ConcurrentChangeError when a new file is gone, by somebody's VACUUM."""
    for path in paths:
        try:
            date_ahead(os.path.join(table.folder, path))
        except FileNotFoundError as error:
            raise ConcurrentChangeError(f"{path} is gone", file=table.folder) from error


def commit(commits: TableCommits, parts: Sequence[TablePart], stamp: Stamp) -> int:
    """One Delta commit with a table's part of a group, or those of all shards of one Delta table;
    returns its version. Whatever it raises, the commit may have landed: ``TableCommits.settle``
    tells.

    Raises ConcurrentChangeError when somebody's commit came in between, or their VACUUM took our
    files.
    """
    actions: list[Action] = []
    for table, written in parts:
        check_files(table, [path for part in written for path in part.files])
        actions += actions_of(commits, table, written)
    table = parts[0][0]
    table.delta.pending = stamp.position
    version = commits.commit(table, actions, stamp)
    commits.landed(table, actions, stamp.position, version)
    return version
