"""When checkpoints of a table's log are written, and which are of no use.

Inside a commit Delta needs 1.5 to 13 s for one (a Spark job that reconstructs the state). So tables
have an interval that Delta's own never reaches, and ``checkpoint_writer`` writes one from time to
time, off the commit path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from ..runtime.object_store import is_remote
from . import checkpoint_writer
from .log_checkpoints import hinted_version
from .log_replay import checkpoint_path, commit_path
from .removing import Remover, put_back
from .storage import is_file, is_whole, names

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from .snapshot import Snapshot

EVERY = 50
_COMMIT, _CHECKPOINT = re.compile(r"\d{20}\.json"), re.compile(r"\d{20}\.checkpoint\.parquet")
NEVER = "1000000000"
"""``delta.checkpointInterval`` of our tables: no commit of theirs writes a checkpoint."""


def write_if_due(snapshot: Snapshot) -> bool:
    """Write a checkpoint of a version when the last one lies ``EVERY`` commits back.

    Nothing is synced here. Of a new table the control table's row must be on the disk first, as
    ``control.settle`` ensures. The commits stay until ``log_cleanup`` has synced the checkpoint and
    removes those that nothing promised needs. Raises OSError, and TargetError if the log does not
    reach back.
    """
    if snapshot.version - last(snapshot.folder) < EVERY:
        return False
    checkpoint_writer.write(snapshot.folder, snapshot.state)
    return True


def last(folder: str) -> int:
    """Return the version of the last checkpoint; 0 when there is none yet."""
    return max(0, hinted_version(folder))


def forget_lost(folder: str, remover: Remover | None = None) -> bool:
    """Removes what is left of checkpoints that were not on the disk when the power failed, where
    it is ``useless``, and what names the last one where that is not there, or not whole. delta-rs
    opens no such table; without both it looks for another checkpoint, as Delta does, and all
    commits since are there. False where there is nothing to remove, or this account may not.
    Without a ``remover`` nobody is asked whether this process owns the target: of the control
    table, which nobody can open then. Raises OSError, FencedError."""
    if is_remote(folder):
        return False
    log = os.path.join(folder, "_delta_log")
    with suppress(PermissionError):
        put_back(log, is_damaged)
    if _stands(folder):
        return False
    there, version = set(names(log)), last(folder)
    commits = {int(name[:20]) for name in there if _COMMIT.fullmatch(name)}
    checkpoints = {int(name[:20]) for name in there if _CHECKPOINT.fullmatch(name)}
    whole = {one for one in checkpoints if is_whole(checkpoint_path(folder, one))}
    lost = [checkpoint_path(folder, one) for one in useless(commits, whole, checkpoints - whole)]
    name, hints = f"{version:020d}.checkpoint.", list[str]()
    if version and not any(
        one.startswith(name) and is_whole(os.path.join(log, one)) for one in there
    ):
        hints.append(os.path.join(log, "_last_checkpoint"))
    remover = remover or Remover()
    with suppress(PermissionError):
        for path in lost:
            remover.useless(path, is_damaged)
        remover.files(hints)  # last: whoever is cut off here looks for the others again
        return bool(lost or hints)
    return False


def is_damaged(path: str) -> bool:
    """Whether a local file is what a power failure leaves of a commit or a checkpoint."""
    return not is_whole(path)


def _stands(folder: str) -> bool:
    """Whether the checkpoint that the hint names is whole, and so is each behind it, as far as that
    is told without listing the log, which takes the longer the more is kept: from there on one
    commit is looked for after the other."""
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
    """The versions of ``damaged`` checkpoints that may go: every commit since the last ``whole``
    one before is there. Where one is not, the table would be an older one without it, and nobody
    would know."""
    bases = {one: max((v for v in whole if v < one), default=-1) for one in damaged}
    return sorted(one for one, base in bases.items() if commits.issuperset(range(base + 1, one)))


def past_lost(folder: str, open_table: Callable[[], DeltaTable]) -> DeltaTable:
    """What ``open_table`` gives of the table at ``folder``, whatever the power has taken of its
    checkpoints. Raises as that does, and OSError."""
    try:
        return open_table()
    except DeltaError:
        if not forget_lost(folder):
            raise
        return open_table()


def ends_with(folder: str, version: int) -> bool:
    """Return whether a log of ours ends with a version: it has a commit of it, and none of the
    next. Commits go in their order, and the newest one never. Raise OSError."""
    return not is_file(commit_path(folder, version + 1)) and is_file(commit_path(folder, version))


def is_newest(folder: str, version: int) -> bool:
    """Whether a version that somebody has read is still the newest one; -1: none was read. Takes
    two looks at most, where to open the table lists its log and reads it: 5 ms, and more with its
    length. Commits are removed behind a checkpoint alone, which is looked for last. Raises
    OSError."""
    return (
        version >= 0 and not is_file(commit_path(folder, version + 1)) and last(folder) <= version
    )
