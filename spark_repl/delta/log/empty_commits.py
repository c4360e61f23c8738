"""Empty commits: what a power failure may leave of a table's newest versions.

The commit's name is on the disk then, but none of its bytes: Delta's readers fail at it. No cut
shows its content, and the relay log provides it again, because nothing that an unsynced commit
replaces is removed (``durable``). So the owner of the target removes it at a start, if no writer
may still be writing it. A commit that a successor has written meanwhile is put back
(``store.remover``).
"""

from __future__ import annotations

import logging
import os
import time

from ...errors import TargetError, reset_table
from ...runtime.target_uri import is_remote
from ..store.remover import Remover, put_back
from .checkpoint_schedule import is_damaged, last
from .log_checkpoints import newest_and_names
from .log_replay import COMMIT, commit_path

logger = logging.getLogger(__name__)

_LOST_MAX = 8
"""number of commits whose names a power failure may have lost before the first name that it left"""
_YOUNG_S = 60
"""seconds after which a writer that created a file has written to it"""


def remove_empty_commits(
    folder: str, cut_version: int, remover: Remover | None = None
) -> list[int]:
    """Remove the newest commits of a table, starting with the last one, while they are files of 0
    bytes; return their versions. ``cut_version``: the newest version that a cut names, or -1.

    Raise TargetError for a commit that a cut or a checkpoint needs, and for one so recent that a
    writer may still be writing it. Raise FencedError.
    """
    logged = os.path.join(folder, "_delta_log")
    if is_remote(folder) or not os.path.isdir(logged):
        return []
    put_back(logged, is_damaged)
    if _ends_well(folder, cut_version):
        return []
    checkpoint, listed = newest_and_names(folder)
    versions = sorted((int(name[:20]) for name in listed if COMMIT.fullmatch(name)), reverse=True)
    needed = max(cut_version, checkpoint.version if checkpoint else -1)
    removed = []
    for version in versions:
        path = commit_path(folder, version)
        if os.path.getsize(path):
            break
        _check(path, version, needed)
        if not _remove(folder, version, remover or Remover()):
            break
        removed.append(version)
        logger.warning(
            "%s was empty, as power failures leave files, and no cut shows it: removed", path
        )
    return removed


def _ends_well(folder: str, cut_version: int) -> bool:
    """Return whether the newest commit is not an empty file.

    The log is not listed: a listing takes longer the more files the log has. From a version that a
    cut or a checkpoint names, one commit is looked for after the other. After a power failure the
    first of several new names may be missing.
    """
    version, newest = max(cut_version, last(folder)), None
    while os.path.exists(path := commit_path(folder, version)):
        version, newest = version + 1, path
    if newest is None or not os.path.getsize(newest):
        return False
    later = range(version + 1, version + 1 + _LOST_MAX)
    return not any(os.path.exists(commit_path(folder, number)) for number in later)


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
            " another process may be writing it",
            file=path,
            hint=f"start again in {_YOUNG_S} seconds; a power failure's remains are removed then",
        )


def _remove(folder: str, version: int, remover: Remover) -> bool:
    """Remove the checksums first, Delta's and Hadoop's: a start after a kill here then finds the
    commit again. Return whether the commit no longer exists."""
    name = f"{version:020d}"
    checksums = (f"{name}.crc", f".{name}.crc.crc", f".{name}.json.crc")
    paths = [os.path.join(folder, "_delta_log", other) for other in checksums]
    remover.files(filter(os.path.lexists, paths))
    return remover.useless(commit_path(folder, version), is_damaged)
