"""Clean-up of a table's log: removes commits that are no longer needed, so that a log does not grow
with age.

What stays: everything from the last checkpoint before the oldest young commit on, and each promised
version, as a checkpoint of its own. Delta's own clean-up keeps all or nothing of a stretch of time.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING

from ...errors import TargetError
from ...runtime.wall_clock import JUMP_S
from ..store.remover import Remover
from ..store.storage import UNFINISHED, listed, modified
from . import checkpoint_writer, log_state
from .checkpoint_schedule import is_damaged, last, useless
from .log_checkpoints import SIDECARS, grouped, read_hint, version_of

if TYPE_CHECKING:
    from .durable import Durable
    from .log_checkpoints import Checkpoint

PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
"""property of a table after DROP FEATURE: earlier versions must be removed together, or stay"""
_APART = 500
_OPENED_S = 3600
"""seconds for which a reader that has opened the table may need the files that it found"""
_PART = re.compile(rf"{UNFINISHED.pattern}|.+#\d+|_commit_.+\.json\.tmp")
"""temporary files that Hadoop or delta-rs renames to a commit"""
_OF_HADOOP = re.compile(r"\.(.+)\.crc")
"""a checksum that Hadoop writes beside a local file"""
_COMPACTED = re.compile(r"\d{20}\.(\d{20})\.compacted\.json")
_DEAD_S = 24 * 3600
_COMMIT, _CHECKSUM, _CHECKPOINT = "json", "crc", "checkpoint.parquet"
_DIGITS = 20


class _Log:
    """Files of a table's log.

    ``versions``: those of commits and checksums, by kind, ascending; ``useless``: checkpoints of
    one file that a power failure damaged, and that no version needs. The time of a file is read
    only if it is needed: that takes ten times as long as listing its name.
    """

    def __init__(self, folder: str) -> None:
        self.folder, self._path = folder, os.path.join(folder, "_delta_log")
        self._times: dict[str, float | None] = {}
        with suppress(FileNotFoundError):  # before the checkpoints that name them
            sidecars = listed(os.path.join(self._path, SIDECARS))
            self._times = {f"{SIDECARS}/{name}": at for name, at in sidecars.items()}
        in_log = listed(self._path)
        self._times |= in_log
        self.versions: dict[str, list[int]] = {_COMMIT: [], _CHECKSUM: []}
        self._checkpoint_names: dict[int, list[str]] = {}
        for name in sorted(in_log):
            number, kind = name[:_DIGITS], name[_DIGITS + 1 :]
            if kind in self.versions and len(number) == _DIGITS and number.isdigit():
                self.versions[kind].append(int(number))
            elif (version := version_of(name)) is not None:
                self._checkpoint_names.setdefault(version, []).append(name)
        hint = read_hint(folder)
        self._complete = grouped(self._path, in_log)
        self._whole = [checkpoint for checkpoint in self._complete if checkpoint.is_whole(hint)]
        self.whole = sorted({checkpoint.version for checkpoint in self._whole})
        damaged = {c.version for c in self._complete if c not in self._whole and _is_one_file(c)}
        self.useless = useless({*self.versions[_COMMIT]}, self.whole, damaged)

    def base(self, upto: int) -> int:
        """Return the newest version up to ``upto`` that has a whole checkpoint, 0 if none has.
        Sidecars are checked whatever the checkpoint's name: after the clean-up nothing else has
        their content."""
        for checkpoint in self._whole:
            with suppress(TargetError):  # it is damaged otherwise
                if checkpoint.version <= upto and checkpoint.has_sidecars():
                    return checkpoint.version
        return 0

    def path(self, version: int, kind: str) -> str:
        return os.path.join(self._path, _name(version, kind))

    def checkpoint_versions(self) -> list[int]:
        """Return the versions that have checkpoint files, whole or not, ascending."""
        return sorted(self._checkpoint_names)

    def checkpoint_paths(self, version: int) -> list[str]:
        """Return the paths of all files of a version's checkpoints, without sidecars."""
        return [os.path.join(self._path, name) for name in self._checkpoint_names[version]]

    def compacted(self, base: int, before: float) -> list[str]:
        """Return the paths of compactions of commits before ``base`` that were written before a
        time, in seconds."""
        matches = filter(None, map(_COMPACTED.fullmatch, self._times))
        names = [match[0] for match in matches if int(match[1]) < base]
        return self._older_paths(names, before)

    def parts(self, before: float) -> list[str]:
        """Return the paths of temporary files that were last written before a time, in seconds, and
        of Hadoop's checksums of files that are gone."""
        names = [name for name in self._times if _PART.fullmatch(name) or self._lacks_file(name)]
        return self._older_paths(names, before)

    def sidecars(self, gone: Collection[int], before: float) -> list[str]:
        """Return the paths of sidecars that only checkpoints of the versions ``gone`` name, and
        that were written before a time, in seconds.

        A writer writes sidecars before the manifest, so a young sidecar may be needed. Return an
        empty list if a manifest can't be read. Raise OSError.
        """
        below = [name for name in self._times if name.startswith(f"{SIDECARS}/")]
        if not (below := [name for name in below if self._at(name) < before]):
            return []
        needed = set[str]()
        try:
            for checkpoint in self._complete:
                if checkpoint.version not in gone and len(checkpoint.paths) == 1:
                    needed.update(map(os.path.basename, checkpoint.sidecars()))
        except (FileNotFoundError, TargetError):
            return []
        paths = [os.path.join(self._path, name) for name in below]
        return [path for path in paths if _of(os.path.basename(path)) not in needed]

    def is_older(self, version: int, than: float) -> bool:
        """Return whether a version's checkpoint was written before a time, in seconds. Raise
        OSError."""
        return all(self._at(name) < than for name in self._checkpoint_names[version])

    def _older_paths(self, names: list[str], before: float) -> list[str]:
        return [os.path.join(self._path, name) for name in names if self._at(name) < before]

    def _lacks_file(self, name: str) -> bool:
        match = _OF_HADOOP.fullmatch(name)
        return bool(match) and _of(name) not in self._times

    def older(self, kind: str, than: float) -> list[int]:
        """Return the versions of a kind up to the first that was not written before a time, in
        seconds. Commits are written in their order, so a time from a clock that was ahead counts as
        that of its neighbours."""
        ahead, times = time.time() + JUMP_S, dict[int, float]()

        def is_old(version: int) -> bool:
            at = times[version] = self._at(_name(version, kind))
            return at < than or at > ahead

        versions = list(takewhile(is_old, self.versions[kind]))
        while versions and times[versions[-1]] > ahead:
            versions.pop()
        return versions

    def _at(self, name: str) -> float:
        """Return the time at which a file was written; infinity for a file that is gone meanwhile,
        like a commit's temporary file."""
        at = self._times[name]
        try:
            return modified(os.path.join(self._path, name)) if at is None else at
        except FileNotFoundError:
            return math.inf


def _is_one_file(checkpoint: Checkpoint) -> bool:
    name = _name(checkpoint.version, _CHECKPOINT)
    return os.path.basename(checkpoint.paths[0]) == name


def _of(name: str) -> str:
    """Return the name of the file that one of Hadoop's checksums covers; any other name
    unchanged."""
    match = _OF_HADOOP.fullmatch(name)
    return match[1] if match else name


def _name(version: int, kind: str) -> str:
    return f"{version:0{_DIGITS}d}.{kind}"


def remove_commits(
    folder: str,
    durable: Durable,
    *,
    before: float,
    keep: Collection[int] = (),
    begin: int | None = None,
    protected: int = 0,
    remover: Remover | None = None,
) -> int:
    """Remove old commits, checksums and checkpoints of a table's log; return the number of commits.

    Commits written before ``before`` (seconds, as ``time.time``) are removed. Commits that younger
    versions need, commits from ``begin`` on, and versions to ``keep`` stay; the latter get their
    own checkpoints. Commits are removed after the remaining files are ``durable``. Versions before
    ``protected`` are either all removed together, or all stay (``checkpointProtection``). Raise
    OSError, TargetError for a log that does not reach back, and FencedError. If an error leaves
    files, the next clean-up removes them.
    """
    log, remover = _Log(folder), remover or Remover()
    commits = log.versions[_COMMIT]
    if not commits:
        return 0
    for version in log.useless:
        remover.useless(log.path(version, _CHECKPOINT), is_damaged)
    young = commits[len(log.older(_COMMIT, before)) :]
    needed = min([*young[:1], commits[-1], *([] if begin is None else [begin])])
    base = log.base(needed)
    old = [version for version in commits if version < base]
    promised = set(keep).intersection(old)
    if min([base, *promised]) < protected:
        return 0
    for version in sorted(promised.difference(log.whole)):
        _write_checkpoint(folder, version)
    if last(folder) < base:  # another writer wrote an older hint
        _write_checkpoint(folder, None)
    gone, checkpoints = sorted(set(old) - promised), _needless(log, base, promised)
    if gone or checkpoints:
        durable.sync_checkpoint(folder)
    for paths in _by_kind(log, base, gone, checkpoints):
        remover.files(paths)
    return len(gone)


def _by_kind(
    log: _Log, base: int, gone: Sequence[int], checkpoints: Sequence[int]
) -> list[list[str]]:
    """Return the files to remove with the commits ``gone`` and ``checkpoints``, a list for each
    kind. An object store removes the files of a list in any order, and a kill after a list must
    leave each promised version readable."""
    now = time.time()
    return [
        [log.path(version, _COMMIT) for version in gone],  # before the checkpoints
        [log.path(version, _CHECKSUM) for version in log.older(_CHECKSUM, now - _OPENED_S)],
        [path for version in checkpoints for path in log.checkpoint_paths(version)],
        log.compacted(base, now - _OPENED_S),
        log.sidecars(checkpoints, now - _DEAD_S),  # after the manifests that name them
        log.parts(now - _DEAD_S),
    ]


def _write_checkpoint(folder: str, version: int | None) -> None:
    state = log_state.load(folder, version)
    if state is not None:
        checkpoint_writer.write(folder, state)


def _needless(log: _Log, base: int, promised: Collection[int]) -> list[int]:
    """Return the versions of checkpoints that are not needed, ascending.

    Before ``base`` these are all but those of promised versions. After it, they are checkpoints so
    close to the one before that a reader has few commits to read without them. The checkpoint that
    ``_last_checkpoint`` names always stays: after a kill it may be an older one.
    """
    named = last(log.folder)
    needless = [
        version
        for version in log.checkpoint_versions()
        if version < base and version not in promised and version != named
    ]
    last_kept, newest = base, max(log.whole, default=0)
    opened_since = time.time() - _OPENED_S
    for version in log.whole:
        if version - last_kept >= _APART or version in (newest, named):
            last_kept = version
        elif version > base and log.is_older(version, opened_since):
            needless.append(version)
    return sorted(needless)
