"""Commit of rows: the results of the write tasks become one Delta commit per table, with data and
position."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap

from ...delta.files import deletion_vector
from ...delta.files.new_file import date_ahead
from ...delta.files.statistics import loosened, row_count
from ...errors import ConcurrentChangeError, TargetError

if TYPE_CHECKING:
    from ...delta.log.log_replay import Action
    from ...delta.log.stamp import Stamp
    from ..tables.table import Table
    from ..tables.table_commits import TableCommits
    from .write_task import Written

    TablePart = tuple[Table, Sequence[Written]]


def marked_rows(written: Sequence[Written]) -> dict[str, BitMap]:
    """Return the removed rows of each data file, over all shards of a table."""
    marks: dict[str, BitMap] = {}
    for part in written:
        for path, data in part.all_marks():
            rows = BitMap.deserialize(data)
            marks[path] = marks[path] | rows if path in marks else rows
    return marks


def row_actions(commits: TableCommits, table: Table, written: Sequence[Written]) -> list[Action]:
    """Return the ``add``, ``remove`` and ``cdc`` actions of one table's commit. Write its deletion
    vectors.

    Raise TargetError if a row to mark was already marked, because the plan then doesn't fit the
    table.
    """
    now_ms = commits.time.now_ms()
    gone = [path for part in written for path in part.gone]
    actions: list[Action] = [{"remove": removed(commits.action(table, p), now_ms)} for p in gone]
    remaining: list[tuple[Action, BitMap]] = []
    for path, rows in marked_rows(written).items():
        if path in gone:  # its live rows are in a new file
            continue
        old = commits.action(table, path)
        try:
            dead = deletion_vector.joined(table.folder, old, rows)
        except TargetError as error:
            raise error.at(table=table.name) from error
        actions.append({"remove": removed(old, now_ms)})
        if len(dead) < row_count(table.folder, old):
            remaining.append((old, dead))
    dead_rows = [rows for _, rows in remaining]
    vectors = deletion_vector.write(table.folder, dead_rows, commits.inline_vector_bytes)
    for (old, _), vector in zip(remaining, vectors, strict=True):
        stats = loosened(table.folder, old)
        fresh = {**old, "deletionVector": vector, "stats": stats, "dataChange": True}
        actions.append({"add": fresh})
    actions += [{"add": add} for part in written for add in part.adds]
    actions += [{"cdc": changes} for part in written for changes in part.changes]
    return actions


def removed(old: Action, now_ms: int, *, data_change: bool = True) -> dict[str, Any]:
    """Return the ``remove`` action of a live file. ``now_ms``: time of the removal, in
    milliseconds."""
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
    """Raise ConcurrentChangeError if a new file no longer exists, because another writer's VACUUM
    removed it."""
    for path in paths:
        try:
            date_ahead(os.path.join(table.folder, path))
        except FileNotFoundError as error:
            raise ConcurrentChangeError(f"{path} is gone", file=table.folder) from error


def commit_rows(commits: TableCommits, parts: Sequence[TablePart], stamp: Stamp) -> int:
    """Commit a table's part of a group, or the parts of all shards of one Delta table, as one Delta
    commit. Return its version. After any error the commit may exist; ``TableCommits.resolve``
    determines whether it does.

    Raise ConcurrentChangeError if another writer committed in between, or its VACUUM removed new
    files.
    """
    actions: list[Action] = []
    for table, written in parts:
        check_files(table, [path for part in written for path in part.files])
        actions += row_actions(commits, table, written)
    table = parts[0][0]
    table.delta.pending = stamp.position
    version = commits.commit_actions(table, actions, stamp)
    commits.record_commit(table, actions, stamp.position, version)
    return version
