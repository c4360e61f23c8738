"""Remover: the only code that removes files below a target.

Invariant: a file is removed only after what remains without it is durable, and while this process
owns the target. The ownership is checked immediately before each removal, since the process may
have slept since it chose the file. On an object store one check covers a request for up to a
thousand objects. A sleep between that check and the system call cannot be excluded. So a removed
file has a name that no successor uses again. Names in Delta's log have to be used again: such a
file is renamed aside, and linked back if a successor has written it.

Exempt are a process's own new files (``discard``), the working state, and the relay log.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby

from ...crash_points import reach
from ...runtime.local_store import give_free_name
from ...runtime.target_uri import is_remote
from .storage import names, remove_folder, remove_if_there, remove_objects

logger = logging.getLogger(__name__)

ASIDE = "_aside"
"""folder in Delta's log of files that are renamed aside; Delta's readers ignore it"""
_AT_ONCE = 1_000
"""objects that are removed after one check; S3 takes no more in one request"""

IsUseless = Callable[[str], bool]


class Remover:
    """Removes files below one target.

    ``check_owner`` raises FencedError unless this process owns the target. The default checks
    nothing; it is for folders that no applier owns, and for a control table that cannot be opened.
    """

    def __init__(self, check_owner: Callable[[], object] = bool) -> None:
        self._check_owner = check_owner

    def files(self, paths: Iterable[str], make_durable: Callable[[], object] = bool) -> int:
        """Remove the chosen files, after ``make_durable`` has made the remaining files durable.
        Return how many were chosen. A file that no longer exists is not an error. Raise OSError or
        FencedError.

        Local files are removed in their order. An object store removes them in batches: the batches
        are in order, the objects of a batch are not.
        """
        chosen = list(paths)
        if chosen:
            make_durable()
        for remote, group in groupby(chosen, is_remote):
            objects = list(group)
            for start in range(0, len(objects), _AT_ONCE if remote else 1):
                self.check()
                if remote:
                    remove_objects(objects[start : start + _AT_ONCE])
                else:
                    remove_if_there(objects[start])
        return len(chosen)

    def folder(self, path: str, make_durable: Callable[[], object]) -> None:
        """Remove a folder with all its content, after ``make_durable`` has made the remaining files
        durable. On an object store, remove the objects in batches, after one check. Raise OSError
        or FencedError."""
        make_durable()
        if is_remote(path):
            self.check()
            remove_folder(path)
            return
        for folder, folders, files in os.walk(path, topdown=False):
            for name in files:
                self.check()
                remove_if_there(os.path.join(folder, name))
            for each in (os.path.join(folder, name) for name in folders):
                if os.path.islink(each):
                    self.check()
                    remove_if_there(each)
                _remove_empty(each)
        self.check()
        if os.path.islink(path) and not (os.path.exists(path) and names(path)):
            remove_if_there(path)  # a link to a table that was moved elsewhere
        _remove_empty(path)

    def useless(self, path: str, is_useless: IsUseless) -> bool:
        """Remove a local file of Delta's log if ``is_useless`` returns True for it; return whether
        it was removed.

        ``is_useless`` is called with the file's own path, and again, after the rename, with the
        file that is then removed. Raise OSError or FencedError.
        """
        self.check()
        aside = os.path.join(os.path.dirname(path), ASIDE)
        if not os.path.exists(path) or not is_useless(path):
            return not os.path.exists(path)
        os.makedirs(aside, exist_ok=True)
        moved = os.path.join(aside, f"{uuid.uuid4().hex}.{os.path.basename(path)}")
        try:
            os.rename(path, moved)
        except FileNotFoundError:
            return True
        reach("set_aside")
        _decide(moved, path, is_useless)
        _remove_empty(aside)
        return not os.path.exists(path)

    def check(self) -> None:
        """Raise FencedError unless this process owns the target. Called before Delta's own VACUUM,
        which chooses and removes files in one call."""
        reach("before_removal")
        self._check_owner()
        reach("removal")


def put_back(folder: str, is_useless: IsUseless) -> None:
    """Finish the work of a process that ended between two steps of ``Remover.useless`` in the local
    ``folder``: link a file with content back, remove a file without. Raise OSError."""
    aside = os.path.join(folder, ASIDE)
    if is_remote(folder) or not os.path.isdir(aside):
        return
    for name in names(aside):
        _decide(os.path.join(aside, name), os.path.join(folder, name.partition(".")[2]), is_useless)
    _remove_empty(aside)


def _decide(moved: str, path: str, is_useless: IsUseless) -> None:
    """Remove the file that was ``moved`` from ``path``, or link it back. A second caller, a start
    or the process that woke, finds nothing to do."""
    with suppress(FileNotFoundError):
        if not is_useless(moved) and not _is_linked(moved, path):
            logger.warning("%s had been written by another applier, and stays as %s", path, moved)
            return
        os.remove(moved)


def _is_linked(moved: str, path: str) -> bool:
    """Give a file its name back. Return False if another file has that name by now."""
    try:
        give_free_name(moved, path)
    except FileExistsError:
        return os.path.samefile(moved, path)
    logger.warning("%s was written meanwhile, and is put back", path)
    return True


def _remove_empty(folder: str) -> None:
    """Remove a folder unless it contains something."""
    with suppress(OSError):
        os.rmdir(folder)
