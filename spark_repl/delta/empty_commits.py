"""Empty commits: what a power failure may leave of a table's newest versions.

The name of a commit is on the disk then, and none of its bytes: Delta's readers stop at it. No cut
shows what it held, and the relay log brings that again, as nothing goes that an unsynced commit
stands for (``durable``). So it is removed, where nobody may be writing it, at a start, by the owner
of the target; one that a successor has written meanwhile is put back (``removing``).
"""

from __future__ import annotations

import logging
import os
import time

from ..errors import TargetError, reset_table
from ..runtime.object_store import is_remote
from .checkpoint import is_damaged, last
from .log_checkpoints import newest_and_names
from .log_replay import COMMIT, commit_path
from .removing import Remover, put_back

log = logging.getLogger(__name__)

_LOST_MAX = 8
"""commits whose names a power failure may have taken before the first one that it has left"""
_YOUNG_S = 60
"""a writer that makes a file before it writes to it has written by then"""


def remove_empty_commits(folder: str, shown: int, remover: Remover | None = None) -> list[int]:
    """Removes the newest commits of a table, from the last one back, as far as they are files of 0
    bytes; returns their versions. ``shown``: the newest version that a cut names, -1 where none.
    Raises TargetError for one that a cut or a checkpoint stands on, and for one so young that
    somebody may be writing it; FencedError."""
    logged = os.path.join(folder, "_delta_log")
    if is_remote(folder) or not os.path.isdir(logged):
        return []
    put_back(logged, is_damaged)
    if _ends_well(folder, shown):
        return []
    checkpoint, listed = newest_and_names(folder)
    versions = sorted((int(name[:20]) for name in listed if COMMIT.fullmatch(name)), reverse=True)
    needed = max(shown, checkpoint.version if checkpoint else -1)
    removed = []
    for version in versions:
        path = commit_path(folder, version)
        if os.path.getsize(path):
            break
        _check(path, version, needed)
        if not _remove(folder, version, remover or Remover()):
            break
        removed.append(version)
        log.warning(
            "%s was empty, as power failures leave files, and no cut shows it: removed", path
        )
    return removed


def _ends_well(folder: str, shown: int) -> bool:
    """Whether the newest commit is no empty file, as far as that is told without listing the log,
    which takes the longer the more is kept: from a version that a cut names, or a checkpoint, one
    is looked for after the other. Of names that lie close to each other the first may be gone."""
    version, newest = max(shown, last(folder)), None
    while os.path.exists(path := commit_path(folder, version)):
        version, newest = version + 1, path
    if newest is None or not os.path.getsize(newest):
        return False
    behind = range(version + 1, version + 1 + _LOST_MAX)
    return not any(os.path.exists(commit_path(folder, one)) for one in behind)


def _check(path: str, version: int, needed: int) -> None:
    if version <= needed:
        raise TargetError(
            f"version {version} of the table's log is an empty file, and a cut or a checkpoint"
            " stands on it",
            file=path,
            hint=f"bring it back from a backup, or {reset_table()}",
        )
    if time.time() - os.path.getmtime(path) < _YOUNG_S:
        raise TargetError(
            f"version {version} of the table's log is an empty file, less than {_YOUNG_S} s old:"
            " somebody may be writing it",
            file=path,
            hint=f"start again in {_YOUNG_S} seconds; a power failure's remains are removed then",
        )


def _remove(folder: str, version: int, remover: Remover) -> bool:
    """Remove the checksums first, Delta's and Hadoop's: whoever is cut off here finds the commit
    again. Return whether the commit is gone."""
    name = f"{version:020d}"
    others = (f"{name}.crc", f".{name}.crc.crc", f".{name}.json.crc")
    there = [os.path.join(folder, "_delta_log", other) for other in others]
    remover.files(filter(os.path.lexists, there))
    return remover.useless(commit_path(folder, version), is_damaged)
