"""Durable: a table's files are on the disk, with the folders that name them, before anything goes
that they stand for.

Neither Delta nor delta-rs syncs a commit. When power fails the newest versions of a table may be
gone; the relay log then brings them again, if it is still there. So whoever removes a part of it,
the bytes of an XA branch, or what a checkpoint replaces, has the tables synced first. An object
store keeps what it has taken: there nothing is done.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..runtime.private_files import make_folder, opener
from ..runtime.threads import Pool
from .checkpoint import is_newest, last
from .deletion_vector import path_of
from .log_replay import Action, commit_path, read_commit
from .storage import data_file

_AT_ONCE = 8  # files: a journal takes several in one turn
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.|/_sidecars/")
_LAST = "_last_checkpoint"
_FORMAT = 1
"""the number of a note's format"""

_Identity = tuple[int, int, int]


@dataclass(frozen=True)
class _Upto:
    """The newest version that is durable, and the identity of its file."""

    version: int
    file: _Identity


class Durable:
    """What has been synced of the tables below ``root``, by this process or, as it is noted below
    ``notes``, by one before. Safe from any thread.

    A sync that failed fails for good: the system says once that it has lost what was written, and
    takes it for written from then on.
    """

    def __init__(self, root: str, notes: str = "") -> None:
        self._root, self._notes = root, notes
        self._upto: dict[str, _Upto] = {}  # by folder
        self._failed: OSError | None = None
        self._lock = threading.Lock()

    def newest(self, folder: str) -> int:
        """The newest version of the table at ``folder``; -1 where none is known."""
        if not _is_here(folder):
            return -1
        known = self._known(folder)
        if known is not None:
            version = known.version
            while os.path.exists(commit_path(folder, version + 1)):
                version += 1
            # Else those behind it were removed; so may they be where no checkpoint is told of,
            # as what names the last one may be lost since the power failed.
            if last(folder) and is_newest(folder, version):
                return version
        return max((version for version, _ in _commits(folder)), default=-1)

    def sync(self, folder: str, upto: int | None = None) -> None:
        """Makes a table durable: what its versions up to ``upto`` (None: the newest) name, then
        these, then the folders above. Where nothing is noted it takes all files there are. Raises
        OSError."""
        if not _is_here(folder):
            return
        with self._for_good():
            known = self._known(folder)
            upto = self.newest(folder) if upto is None else upto
            file = _identity(folder, upto)  # of one that takes its place nothing is said
            new = range(known.version + 1, upto + 1) if known else range(0)
            named = _named(folder, new) if known else None
            if named is None:
                self._sync_all(folder, upto)
            elif new:
                _sync_versions(folder, new, named)
            else:
                return
            if file is not None:
                self._upto[folder] = _Upto(upto, file)
                self._note(folder)

    def sync_checkpoint(self, folder: str) -> None:
        """Makes a table durable, and its checkpoints, which may be all that stays of old commits.
        Raises OSError."""
        self.sync(folder)
        with self._for_good():
            log = _log(folder)
            checkpoints = [path for path in _files(log) if _CHECKPOINT.search(path)]
            _sync_files(checkpoints)
            _sync_folders({log, *map(os.path.dirname, checkpoints)})
            _sync_files([os.path.join(log, _LAST)])  # which names one of them
            _sync_folders([log])

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

    def _known(self, folder: str) -> _Upto | None:
        """None: another table may lie there now."""
        known = self._upto.get(folder) or self._noted(folder)
        return known if known and _identity(folder, known.version) == known.file else None

    def _note(self, folder: str) -> None:
        """For the next process; without it, that one syncs what this one has."""
        if self._notes:
            path, known = self._note_of(folder), self._upto[folder]
            with suppress(OSError):
                make_folder(os.path.dirname(path))
                with open(path, "w", encoding="ascii", opener=opener) as file:
                    json.dump([_FORMAT, known.version, *known.file], file)

    def _noted(self, folder: str) -> _Upto | None:
        """What a process before has noted; None: nothing that can be read."""
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

    def _sync_all(self, folder: str, upto: int) -> None:
        log = _log(folder)
        named = [path for path in _files(folder) if not path.startswith(log + os.sep)]
        _sync_files(named)
        _sync_folders(_folders(named, folder))
        _sync_files(path for version, path in _commits(folder) if version <= upto)
        _sync_folders([log])
        sync_above(folder, self._root)


def sync_above(folder: str, root: str) -> None:
    """Has every folder from the one that names ``folder`` up to the one that names ``root`` on the
    disk. Raises OSError."""
    above, last = [], os.path.dirname(os.path.abspath(root))
    while folder != last and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        above.append(folder)
    _sync_folders(above)


def _sync_versions(folder: str, versions: Iterable[int], named: Sequence[str]) -> None:
    """``named``: the files that the versions name as new."""
    _sync_files(named)
    _sync_folders(_folders(named, folder))
    _sync_files(commit_path(folder, version) for version in versions)
    _sync_folders([_log(folder)])


def _named(folder: str, versions: Iterable[int]) -> list[str] | None:
    """The files that commits name as new. None where one of them is gone: it doesn't say that."""
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
    """The table's folder, and those between it and the files: of partitions, and of vectors."""
    folders = {folder}
    for path in paths:
        inner = os.path.dirname(path)
        while len(inner) > len(folder):
            folders.add(inner)
            inner = os.path.dirname(inner)
    return folders


def _sync_files(paths: Iterable[str]) -> None:
    each = list(set(paths))
    count = min(_AT_ONCE, len(each))
    if count < 2:  # so most lists are, of thousands of tables: no threads for them
        _sync_some(each)
        return
    with Pool(count) as pool:
        list(pool.map(_sync_some, (each[number::count] for number in range(count))))


def _sync_some(paths: Iterable[str]) -> None:
    for path in paths:
        _sync(path)


def _sync_folders(folders: Iterable[str]) -> None:
    _sync_files(folders)


def _sync(path: str) -> None:
    """What is gone is not asked for: a file that no version needs was removed meanwhile."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_here(folder: str) -> bool:
    """Whether a table lies there, on this machine: of an object store there is no such folder."""
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
    """All files below a folder, as far as they are there."""
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
