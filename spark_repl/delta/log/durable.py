"""Durable: syncs a table's files, and the folders that name them, before anything that they replace
is removed.

Neither Delta nor delta-rs syncs a commit. After a power failure the newest versions of a table may
be gone; the applier then writes them again from the relay log, if that still exists. So a caller
that removes a part of the relay log, the bytes of an XA branch, or commits that a checkpoint
replaces, has the tables synced first. An object store keeps what it has accepted: nothing is done
for it.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ...runtime.private_files import make_private_folder, private_opener
from ...runtime.threads import map_at_once
from ..files.deletion_vector import path_of
from ..store.storage import data_file
from .checkpoint_schedule import is_newest, last
from .log_replay import Action, commit_path, read_commit

_AT_ONCE, _TABLES_AT_ONCE = 8, 100
"""files synced at a time, as a journal commits several together; tables whose files are listed at a
time"""
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.|/_sidecars/")
_LAST = "_last_checkpoint"
_FORMAT = 1
"""the number of a note's format"""

_Identity = tuple[int, int, int]


@dataclass(frozen=True)
class _Upto:
    """The newest durable version, and the identity of its file."""

    version: int
    file: _Identity


@dataclass(frozen=True)
class _Unsynced:
    """The unsynced files of a table up to version ``upto``: data files (``named``), ``commits``,
    and the folders ``above`` the table. ``file``: the identity of the last commit."""

    folder: str
    upto: int
    file: _Identity | None
    named: Sequence[str]
    commits: Sequence[str]
    above: Sequence[str]


class Durable:
    """A record of the synced versions of the tables below ``root``: synced by this process, or by
    an earlier one that wrote a note below ``notes``. Safe from any thread.

    A failed sync fails permanently: the operating system reports only once that it has lost written
    data, and then treats the data as written.
    """

    def __init__(self, root: str, notes: str = "") -> None:
        self._root, self._notes = root, notes
        self._upto: dict[str, _Upto] = {}  # by folder
        self._failed: OSError | None = None
        self._lock = threading.Lock()

    def newest(self, folder: str) -> int:
        """Return the newest version of the table at ``folder``; -1 if none is known."""
        return self._newest(folder, self._synced(folder)) if _is_here(folder) else -1

    def _newest(self, folder: str, synced: _Upto | None) -> int:
        if synced is not None:
            version = synced.version
            while os.path.exists(commit_path(folder, version + 1)):
                version += 1
            # Otherwise later commits may follow removed ones. After a note, that is also possible
            # without a known checkpoint: a power failure may have destroyed the hint.
            own = synced is self._upto.get(folder)
            if (own or last(folder)) and is_newest(folder, version):
                return version
        return max((version for version, _ in _commits(folder)), default=-1)

    def has_synced(self, folder: str) -> bool:
        """Return whether some version of the table is known to be durable, which all versions on an
        object store are."""
        return not _is_here(folder) or self._synced(folder) is not None

    def sync(self, folder: str, upto: int | None = None) -> None:
        """Make a table durable: the files that its versions up to ``upto`` (None: the newest) name,
        then these versions, then the folders above. Sync all existing files if nothing is noted.
        Raise OSError."""
        with self._for_good():
            self._sync([self._unsynced(folder, upto)])

    def sync_tables(self, folders: Iterable[str]) -> None:
        """Make tables durable, as ``sync`` does, up to their newest versions. Of many tables, each
        folder above them is synced once. Raise OSError."""
        each = list(dict.fromkeys(folders))
        for first in range(0, len(each), _TABLES_AT_ONCE):
            with self._for_good():
                some = each[first : first + _TABLES_AT_ONCE]
                self._sync([self._unsynced(folder, None) for folder in some])

    def _unsynced(self, folder: str, upto: int | None) -> _Unsynced | None:
        """Return the unsynced files of a table, or None if all files are synced."""
        if not _is_here(folder):
            return None
        synced = self._synced(folder)
        upto = self._newest(folder, synced) if upto is None else upto
        file = _identity(folder, upto)  # read before the sync: a replacement is not synced
        if synced is not None:
            new = range(synced.version + 1, upto + 1)
            named = _named(folder, new)
            if named is not None and not new:
                self._upto[folder] = synced  # an earlier process may have noted it
                return None
            if named is not None:
                commits = [commit_path(folder, version) for version in new]
                return _Unsynced(folder, upto, file, named, commits, ())
        inside = _log(folder) + os.sep
        named = [path for path in _files(folder) if not path.startswith(inside)]
        commits = [path for version, path in _commits(folder) if version <= upto]
        return _Unsynced(folder, upto, file, named, commits, _above(folder, self._root))

    def _sync(self, tables: Iterable[_Unsynced | None]) -> None:
        unsynced = [table for table in tables if table is not None]
        _sync_files(path for table in unsynced for path in table.named)
        _sync_files(path for table in unsynced for path in _folders(table.named, table.folder))
        _sync_files(path for table in unsynced for path in table.commits)
        _sync_files(_log(table.folder) for table in unsynced)
        _sync_files(path for table in unsynced for path in table.above)
        for table in unsynced:
            if table.file is not None:
                self._upto[table.folder] = _Upto(table.upto, table.file)
                self._note(table.folder)

    def sync_checkpoint(self, folder: str) -> None:
        """Make a table durable, and its checkpoints, which may be all that remains of old commits.
        Raise OSError."""
        self.sync(folder)
        with self._for_good():
            log = _log(folder)
            checkpoints = [path for path in _files(log) if _CHECKPOINT.search(path)]
            _sync_files(checkpoints)
            _sync_files([log, *map(os.path.dirname, checkpoints)])
            _sync_files([os.path.join(log, _LAST)])  # which names one of them
            _sync_files([log])

    @contextmanager
    def _for_good(self) -> Iterator[None]:
        with self._lock:
            if self._failed is not None:
                raise self._failed
            try:
                yield
            except OSError as error:
                self._failed = error
                raise

    def _synced(self, folder: str) -> _Upto | None:
        """None: another table may lie there now."""
        synced = self._upto.get(folder) or self._noted(folder)
        return synced if synced and _identity(folder, synced.version) == synced.file else None

    def _note(self, folder: str) -> None:
        """Note the synced version for the next process; without the note, that process syncs it
        again."""
        if self._notes:
            path, synced = self._note_of(folder), self._upto[folder]
            with suppress(OSError):
                make_private_folder(os.path.dirname(path))
                with open(path, "w", encoding="ascii", opener=private_opener) as file:
                    file.write(json.dumps([_FORMAT, synced.version, *synced.file]))

    def _noted(self, folder: str) -> _Upto | None:
        """Return what an earlier process has noted; None if there is no readable note."""
        if not self._notes:
            return None
        with suppress(OSError, TypeError, ValueError):
            with open(self._note_of(folder), encoding="ascii") as file:
                number, version, device, node, at = json.load(file)
            if number == _FORMAT:
                return _Upto(version, (device, node, at))
        return None

    def _note_of(self, folder: str) -> str:
        return os.path.join(self._notes, os.path.relpath(folder, self._root))


def _above(folder: str, root: str) -> list[str]:
    """Return every folder from the parent of ``folder`` up to the parent of ``root``."""
    above, last = [], os.path.dirname(os.path.abspath(root))
    while folder != last and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        above.append(folder)
    return above


def sync_above(folder: str, root: str) -> None:
    """Sync every folder from the parent of ``folder`` up to the parent of ``root``. Raise
    OSError."""
    _sync_files(_above(folder, root))


def _named(folder: str, versions: Iterable[int]) -> list[str] | None:
    """Return the files that commits name as new. Return None if a commit no longer exists, as its
    files are unknown."""
    named: list[str] = []
    for version in versions:
        actions = read_commit(folder, version)
        if actions is None:
            return None
        for action in actions:
            for kind in {"add", "cdc"} & action.keys():
                named += _files_of(folder, action[kind])
    return named


def _files_of(folder: str, fields: Action) -> Iterator[str]:
    yield data_file(folder, fields["path"])
    vector = fields.get("deletionVector")
    if vector and (path := path_of(folder, vector)):
        yield path


def _folders(paths: Iterable[str], folder: str) -> set[str]:
    """Return the table's folder, and those between it and the files: of partitions and vectors."""
    folders = {folder}
    for path in paths:
        inner = os.path.dirname(path)
        while len(inner) > len(folder):
            folders.add(inner)
            inner = os.path.dirname(inner)
    return folders


def _sync_files(paths: Iterable[str]) -> None:
    """Sync files or folders, in any order."""
    each = list(set(paths))
    count = min(_AT_ONCE, len(each))
    map_at_once(_sync_some, [each[number::count] for number in range(count)], count)


def _sync_some(paths: Iterable[str]) -> None:
    for path in paths:
        _sync(path)


def _sync(path: str) -> None:
    """Sync a file. Ignore a missing one: a file that no version needs was removed meanwhile."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_here(folder: str) -> bool:
    """Return whether a table exists on this machine; False for a table on an object store."""
    return os.path.isdir(_log(folder))


def _log(folder: str) -> str:
    return os.path.join(folder, "_delta_log")


def _identity(folder: str, version: int) -> _Identity | None:
    try:
        stat = os.stat(commit_path(folder, version))
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns


def _commits(folder: str) -> list[tuple[int, str]]:
    names = os.listdir(_log(folder))
    matches = filter(None, map(_COMMIT.fullmatch, names))
    return [(int(match[1]), os.path.join(_log(folder), match[0])) for match in matches]


def _files(folder: str) -> list[str]:
    """Return all existing files below a folder."""
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
