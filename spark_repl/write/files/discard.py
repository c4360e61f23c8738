"""Discard: the one place that removes files which were made for a commit.

Invariant: a file goes only when no version of the table names it, now or later. An attempt to
commit can land on one version alone, the one behind its plan (``table_log.ALONE``). While that
version is not in the log the attempt may still land, whatever its caller was told (the call timed
out, the JVM is gone, a store works on the request): then the files stay, for VACUUM.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence

from ...delta.log_replay import Action, read_commit
from ...delta.storage import remove_if_there
from ...errors import TargetError

log = logging.getLogger(__name__)


def discard(folder: str, paths: Iterable[str], *, tried_behind: int | None) -> list[str]:
    """Removes files of the table at ``folder`` (relative paths) that nothing can name any more;
    returns those it has removed. ``tried_behind``: the version that a commit with these files was
    tried behind; None: none was tried.

    Raises nothing: whatever can't be looked at or removed is left to VACUUM.
    """
    paths = list(paths)
    try:
        if tried_behind is None:
            return _remove(folder, paths)
        decided = read_commit(folder, tried_behind + 1)
        if decided is not None:
            named = _named(decided)
            return _remove(folder, [path for path in paths if path not in named])
        log.warning(
            "%s: whether version %d comes with %d files of ours is not known: they are left to"
            " VACUUM", folder, tried_behind + 1, len(paths),
        )  # fmt: skip
    except (OSError, TargetError, ValueError) as error:
        log.warning("%s: %d files are left to VACUUM: %s", folder, len(paths), error)
    return []


def _remove(folder: str, paths: Sequence[str]) -> list[str]:
    for path in paths:
        remove_if_there(os.path.join(folder, path))  # gone with the storage that failed, perhaps
    return list(paths)


def _named(actions: Iterable[Action]) -> set[str]:
    return {a[kind]["path"] for a in actions for kind in ("add", "cdc") if kind in a}
