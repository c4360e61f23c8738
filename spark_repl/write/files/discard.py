"""Discard: the only place that removes files which were made for a commit.

Invariant: a file is removed only if no version of the table names it, now or later. An attempt to
commit can land on one version only, the next after the version that it was planned on
(``shared_commits.ALONE``). While that version is not in the log, the attempt may still land, even
after an error. The call may have timed out, the process may be gone, or a store may still work on
the request. The files then stay for VACUUM.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence

from ...delta.log.log_replay import Action, read_commit
from ...delta.store.storage import remove_if_there
from ...errors import TargetError

logger = logging.getLogger(__name__)


def discard(folder: str, paths: Iterable[str], *, tried_behind: int | None) -> list[str]:
    """Remove files of the table at ``folder`` (relative paths) that no version can name any more,
    and return those that were removed. ``tried_behind``: the version on which a commit with these
    files was planned, None if no commit was tried.

    Do not raise: files that can't be checked or removed are left to VACUUM.
    """
    paths = list(paths)
    try:
        if tried_behind is None:
            return _remove(folder, paths)
        # Once the next version is in the log, the attempt has either landed as it or never will.
        decided = read_commit(folder, tried_behind + 1)
        if decided is not None:
            named = _named(decided)
            return _remove(folder, [path for path in paths if path not in named])
        logger.warning(
            "%s: version %d may still land with %d files of this process: they are left to"
            " VACUUM", folder, tried_behind + 1, len(paths),
        )  # fmt: skip
    except (OSError, TargetError, ValueError) as error:
        logger.warning("%s: %d files are left to VACUUM: %s", folder, len(paths), error)
    return []


def _remove(folder: str, paths: Sequence[str]) -> list[str]:
    for path in paths:
        remove_if_there(os.path.join(folder, path))  # a storage that failed may have lost it
    return list(paths)


def _named(actions: Iterable[Action]) -> set[str]:
    return {a[kind]["path"] for a in actions for kind in ("add", "cdc") if kind in a}
