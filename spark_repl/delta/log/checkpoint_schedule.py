"""Checkpoints of a table's log: when they are written, and which of them are useless.

Inside a commit Delta needs 1.5 to 13 s for a checkpoint (a Spark job that reconstructs the state).
So tables have an interval that Delta's own never reaches, and ``checkpoint_writer`` writes one from
time to time, off the commit path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ...runtime.target_uri import is_remote
from ..store.remover import Remover, put_back
from ..store.storage import is_file, is_whole, names
from . import checkpoint_writer, version_checksum
from .add_actions import live_files
from .log_checkpoints import hinted_version
from .log_replay import checkpoint_path, commit_path

if TYPE_CHECKING:
    from .table_snapshot import Snapshot

EVERY = 50
_REMOTE_EVERY = 10
"""commits between two searches for the last checkpoint, each a request on an object store"""
_COMMIT, _CHECKPOINT = re.compile(r"\d{20}\.json"), re.compile(r"\d{20}\.checkpoint\.parquet")
NEVER = "1000000000"
"""``delta.checkpointInterval`` of our tables, so that none of their commits writes a checkpoint"""


def write_if_due(snapshot: Snapshot) -> bool:
    """Write a checkpoint of a version if the last one is at least ``EVERY`` commits old. Also write
    the version's checksum if its commit has written none.

    Nothing is synced here. The control table's row of a new table must already be on the disk, as
    ``durability_barrier`` ensures. The commits stay until ``log_cleanup`` has synced the checkpoint
    and removes commits that no promise needs. Raise OSError, and TargetError if the log does not
    reach back.
    """
    if is_remote(snapshot.folder) and snapshot.version % _REMOTE_EVERY:
        return False
    if snapshot.version - last(snapshot.folder) < EVERY:
        return False
    folder, state = snapshot.folder, snapshot.state
    if not version_checksum.belongs_to_each(folder, state):
        totals = live_files(folder, state.version).totals()
        version_checksum.write(folder, replace(state, totals=totals), state.txn_id)
    checkpoint_writer.write(folder, state)
    return True


def last(folder: str) -> int:
    """Return the version of the last checkpoint; 0 if there is none yet."""
    return max(0, hinted_version(folder))


def forget_lost(folder: str, remover: Remover) -> bool:
    """Remove ``useless`` checkpoints that a power failure damaged, and a hint that names a missing
    or damaged checkpoint. Return False if there is nothing to remove, or this account may not
    remove it.

    delta-rs does not open a table with such a checkpoint or hint. Without both it looks for another
    checkpoint, as Delta does, and all commits since that one exist. Raise OSError or FencedError.
    """
    if is_remote(folder):
        return False
    log = os.path.join(folder, "_delta_log")
    with suppress(PermissionError):
        put_back(log, is_damaged)
    if _hint_is_sound(folder):
        return False
    existing, version = set(names(log)), last(folder)
    commits = {int(name[:20]) for name in existing if _COMMIT.fullmatch(name)}
    checkpoints = {int(name[:20]) for name in existing if _CHECKPOINT.fullmatch(name)}
    whole = {number for number in checkpoints if is_whole(checkpoint_path(folder, number))}
    numbers = useless(commits, whole, checkpoints - whole)
    useless_paths = [checkpoint_path(folder, number) for number in numbers]
    name, hints = f"{version:020d}.checkpoint.", list[str]()
    if version and not any(
        file_name.startswith(name) and is_whole(os.path.join(log, file_name))
        for file_name in existing
    ):
        hints.append(os.path.join(log, "_last_checkpoint"))
    with suppress(PermissionError):
        for path in useless_paths:
            remover.useless(path, is_damaged)
        remover.files(hints)  # last: a start after a kill here then looks for the others again
        return bool(useless_paths or hints)
    return False


def is_damaged(path: str) -> bool:
    """Return whether a local file has the form in which a power failure leaves a commit or a
    checkpoint."""
    return not is_whole(path)


def _hint_is_sound(folder: str) -> bool:
    """Return whether the checkpoint that the hint names is whole, and so is each later one that is
    found.

    The log is not listed: a listing takes longer the more files the log has. From the hinted
    version on, one commit is looked for after the other.
    """
    version = last(folder)
    if not version or not is_whole(checkpoint_path(folder, version)):
        return False
    while is_file(commit_path(folder, version)):
        version += 1
        path = checkpoint_path(folder, version)
        if is_file(path) and not is_whole(path):
            return False
    return True


def useless(commits: set[int], whole: Collection[int], damaged: Collection[int]) -> list[int]:
    """Return the versions of ``damaged`` checkpoints that may be removed.

    These are the versions for which every commit since the previous ``whole`` checkpoint exists.
    If one were missing, readers without the checkpoint would silently see an older state of the
    table.
    """
    bases = {version: max((v for v in whole if v < version), default=-1) for version in damaged}
    return sorted(
        version for version, base in bases.items() if commits.issuperset(range(base + 1, version))
    )


def ends_with(folder: str, version: int) -> bool:
    """Return whether a log written by spark_repl ends with a version: its commit exists, and no
    later one does. Commits are removed in their order, and the newest one never. Raise OSError."""
    return not is_file(commit_path(folder, version + 1)) and is_file(commit_path(folder, version))


def is_newest(folder: str, version: int) -> bool:
    """Return whether a version that was read is still the newest one; False for -1.

    This checks at most two files, whereas opening the table lists and reads its log (5 ms, and more
    if it is long). Commits are removed only after a checkpoint, so the checkpoint is checked last.
    Raise OSError.
    """
    return (
        version >= 0 and not is_file(commit_path(folder, version + 1)) and last(folder) <= version
    )
