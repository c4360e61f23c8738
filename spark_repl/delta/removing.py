"""Remover: the one way to remove anything below a target.

Invariant: a file goes after what stays without it is durable, and while this process owns the
target. The owner is asked for immediately before each removal, since the process may have slept
since it chose the file. A sleep between that question and the system call cannot be excluded, so
what is removed has a name that no successor gives again; a file of Delta's log, whose name has to
be given again, is renamed aside and linked back if a successor has written it.

Exempt are a process's own new files (``discard``), the working state, and the relay log.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..crash_points import reach
from ..runtime.object_store import is_remote
from .storage import names, remove_folder, remove_if_there

log = logging.getLogger(__name__)

ASIDE = "_aside"
"""folder beside files of Delta's log that are renamed aside; no reader of Delta looks into it"""

IsUseless = Callable[[str], bool]


class Remover:
    """Removes files below one target.

    ``check_owner`` raises FencedError unless this process owns the target. The default asks nobody:
    for folders that no applier owns, and for a control table that cannot be opened.
    """

    def __init__(self, check_owner: Callable[[], object] = bool) -> None:
        self._check_owner = check_owner

    def files(self, paths: Iterable[str], settle: Callable[[], object] = bool) -> int:
        """Remove the files that were chosen, once ``settle`` has made durable what stays. Return
        how many were chosen. Raise OSError, FencedError; what is gone already is no error."""
        chosen = list(paths)
        if chosen:
            settle()
        for path in chosen:
            self.check()
            remove_if_there(path)
        return len(chosen)

    def folder(self, path: str, settle: Callable[[], object]) -> None:
        """Remove a folder with all that is in it, once ``settle`` has made durable what stays. On
        an object store its names are removed in batches, behind one question. Raise OSError,
        FencedError."""
        settle()
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
            remove_if_there(path)  # the table was moved to another place
        _remove_empty(path)

    def useless(self, path: str, is_useless: IsUseless) -> bool:
        """Remove a local file of Delta's log if ``is_useless`` holds of it: at its own place, and
        again where it was renamed aside, which is what is removed. Return whether it is gone. Raise
        OSError, FencedError."""
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
        """Raise FencedError unless this process owns the target: before a removal by Delta's own
        VACUUM, which chooses and removes in one call."""
        reach("before_removal")
        self._check_owner()
        reach("removal")


def put_back(folder: str, is_useless: IsUseless) -> None:
    """Finish what a process that was ended between two steps of ``Remover.useless`` has left of the
    local ``folder``: link back a file with content, remove one without. Raise OSError."""
    aside = os.path.join(folder, ASIDE)
    if is_remote(folder) or not os.path.isdir(aside):
        return
    for name in names(aside):
        _decide(os.path.join(aside, name), os.path.join(folder, name.partition(".")[2]), is_useless)
    _remove_empty(aside)


def _decide(moved: str, path: str, is_useless: IsUseless) -> None:
    """Remove the file that was ``moved`` from ``path``, or link it back. Whoever comes second, a
    start or the process that woke, finds nothing to do."""
    with suppress(FileNotFoundError):
        if not is_useless(moved) and not _is_linked(moved, path):
            log.warning("%s had been written by another applier, and stays as %s", path, moved)
            return
        os.remove(moved)


def _is_linked(moved: str, path: str) -> bool:
    """Give a file its name back. Return False if another file has that name by now."""
    try:
        os.link(moved, path)
    except FileExistsError:
        return os.path.samefile(moved, path)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        if os.path.exists(path):
            return False
        os.rename(moved, path)
    log.warning("%s was written meanwhile, and is put back", path)
    return True


def _remove_empty(folder: str) -> None:
    """Remove a folder unless somebody has put something into it."""
    with suppress(OSError):
        os.rmdir(folder)
