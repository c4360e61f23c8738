"""Checkpoints of a table's log, off the commit path.

Inside a commit Delta needs 1.5 to 13 s for one (a Spark job that reconstructs the state); delta-rs
needs 30 ms and no Spark. So tables have an interval that Delta's own never reaches, and one is
written here from time to time. Where delta-rs doesn't know a table's features, Delta writes it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from ..errors import TargetError
from ..runtime.object_store import is_remote
from .delta_table import opened
from .log_replay import commit_path
from .storage import exists, has_bytes, names, open_input, remove_if_there

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from .durable import Durable
    from .table_log import Snapshot, TableLog

log = logging.getLogger(__name__)

EVERY = 50
NEVER = "1000000000"
"""``delta.checkpointInterval`` of our tables: no commit of theirs writes a checkpoint."""


def write_if_due(delta: TableLog, snapshot: Snapshot, durable: Durable) -> bool:
    """Writes a checkpoint of the newest version when the last one lies ``EVERY`` commits back.
    Delta, which cleans a log with it, does so once it is ``durable``. Raises OSError."""
    if snapshot.version - last(snapshot.folder) < EVERY:
        return False
    try:
        with opened(snapshot.folder) as table:
            table.create_checkpoint()
    except (DeltaError, OSError, TargetError) as error:
        log.info("%s: delta-rs writes no checkpoint (%s), Delta does", snapshot.folder, error)
        delta.checkpoint(snapshot)
        durable.sync_checkpoint(snapshot.folder)
        delta.clean_log(snapshot)
    return True


def last(folder: str) -> int:
    """The version of the last checkpoint; 0 when there is none yet."""
    try:
        with open_input(os.path.join(folder, "_delta_log", "_last_checkpoint")) as file:
            return int(json.loads(file.read())["version"])
    except (FileNotFoundError, ValueError):  # not there, or empty since the power failed
        return 0


def forget_lost(folder: str) -> bool:
    """Removes what names the last checkpoint where that is not there, or has no bytes: the power
    failed before it was on the disk. delta-rs opens no such table; without the hint it looks for
    another one, as Delta does, and all commits since are there. False where there is nothing to
    remove, or this account may not. Raises OSError."""
    if is_remote(folder) or not (version := last(folder)):
        return False
    log = os.path.join(folder, "_delta_log")
    name = f"{version:020d}.checkpoint."
    if any(one.startswith(name) and has_bytes(os.path.join(log, one)) for one in names(log)):
        return False
    with suppress(PermissionError):
        remove_if_there(os.path.join(log, "_last_checkpoint"))
        return True
    return False


def past_lost(folder: str, open_table: Callable[[], DeltaTable]) -> DeltaTable:
    """What ``open_table`` gives of the table at ``folder``, whatever the power has taken of its
    checkpoints. Raises as that does, and OSError."""
    try:
        return open_table()
    except DeltaError:
        if not forget_lost(folder):
            raise
        return open_table()


def is_newest(folder: str, version: int) -> bool:
    """Whether a version that somebody has read is still the newest one; -1: none was read. Takes
    two looks at most, where to open the table lists its log and reads it: 5 ms, and more with its
    length. Commits are removed behind a checkpoint alone, which is looked for last. Raises
    OSError."""
    return version >= 0 and not exists(commit_path(folder, version + 1)) and last(folder) <= version
