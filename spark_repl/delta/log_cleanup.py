"""Clean-up of a table's log: commits that nothing needs any more, so that a log does not grow with
age.

What stays: everything from the last checkpoint on before the oldest commit that is young enough;
and each version that somebody was promised, as a checkpoint of its own. Delta's own clean-up keeps
all or nothing of a stretch of time.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Collection
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from ..runtime.object_store import is_remote
from ..runtime.wall_clock import JUMP_S
from . import checkpoint_writer, log_state
from .checkpoint import is_damaged, last, useless
from .log_replay import checkpoint_path
from .removing import Remover
from .storage import is_whole, listed, modified

if TYPE_CHECKING:
    from .durable import Durable

PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
"""property of a table that a feature was taken off: a version that reads none of those before"""
_APART = 500
_OPENED_S = 3600
"""a reader that has opened the table needs what it has found there no longer than that"""
_PART = re.compile(r"\..+\.tmp(\.crc)?|.+#\d+|_commit_.+\.json\.tmp")
"""what a commit of Hadoop's or delta-rs' is written to first"""
_DEAD_S = 24 * 3600
_COMMIT, _CHECKSUM, _CHECKPOINT = "json", "crc", "checkpoint.parquet"
_KINDS = (_COMMIT, _CHECKSUM, _CHECKPOINT)
_DIGITS = 20


class _Log:
    """What lies in a table's log: versions by kind (commits, checksums, and checkpoints of one
    file), ascending; ``useless`` ones of checkpoints that the power has taken, on which nothing
    stands; and names of parts. When a file was written is asked of few: it takes ten
    times as long as to read its name."""

    def __init__(self, folder: str) -> None:
        self.folder, self._path = folder, os.path.join(folder, "_delta_log")
        self._times = listed(self._path)
        numbers: dict[str, list[int]] = {kind: [] for kind in _KINDS}
        for name in self._times:
            number, kind = name[:_DIGITS], name[_DIGITS + 1 :]
            if kind in numbers and len(number) == _DIGITS and number.isdigit():
                numbers[kind].append(int(number))
        there = set(numbers[_CHECKPOINT])
        remote = is_remote(folder)  # an object is whole, and a request for each takes its time
        whole = {v for v in there if remote or is_whole(checkpoint_path(folder, v))}
        self.useless = useless(set(numbers[_COMMIT]), whole, there - whole)
        numbers[_CHECKPOINT] = list(whole)
        self.versions = {kind: sorted(versions) for kind, versions in numbers.items()}

    def path(self, version: int, kind: str) -> str:
        return os.path.join(self._path, _name(version, kind))

    def parts(self, before: float) -> list[str]:
        """Where parts lie that were last written to before a time, in seconds."""
        names = [name for name in self._times if _PART.fullmatch(name)]
        return [os.path.join(self._path, name) for name in names if self._at(name) < before]

    def is_older(self, version: int, kind: str, than: float) -> bool:
        """Whether a file was written before a time, in seconds. Raises OSError."""
        return self._at(_name(version, kind)) < than

    def older(self, kind: str, than: float) -> list[int]:
        """The versions of a kind up to the first one that was not written before a time: they are
        written in their order, so that one from a clock that was ahead is as old as those around
        it."""
        ahead, times = time.time() + JUMP_S, dict[int, float]()

        def is_old(version: int) -> bool:
            at = times[version] = self._at(_name(version, kind))
            return at < than or at > ahead

        versions = list(takewhile(is_old, self.versions[kind]))
        while versions and times[versions[-1]] > ahead:
            versions.pop()
        return versions

    def _at(self, name: str) -> float:
        """When a file was written; one that is gone meanwhile, as a commit's part is, counts as
        young."""
        at = self._times[name]
        try:
            return modified(os.path.join(self._path, name)) if at is None else at
        except FileNotFoundError:
            return math.inf


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
    """Removes commits that were written before a time (in seconds, as ``time.time``), but for those
    that younger versions stand on, those from ``begin`` on, and versions to ``keep``, which get
    checkpoints of their own; when what stays is ``durable``. Versions before ``protected`` go all
    at once, or stay (``checkpointProtection``). Returns how many. Raises OSError, TargetError for a
    log that does not reach back, and FencedError: what is left then is removed the next time.
    """
    log, remover = _Log(folder), remover or Remover()
    commits, all_checkpoints = log.versions[_COMMIT], log.versions[_CHECKPOINT]
    if not commits:
        return 0
    for version in log.useless:
        remover.useless(log.path(version, _CHECKPOINT), is_damaged)
    young = commits[len(log.older(_COMMIT, before)) :]
    needed = min([*young[:1], commits[-1], *([] if begin is None else [begin])])
    base = max((v for v in all_checkpoints if v <= needed), default=0)
    old = [version for version in commits if version < base]
    promised = set(keep).intersection(old)
    if min([base, *promised]) < protected:
        return 0
    for version in sorted(promised.difference(all_checkpoints)):
        _write_checkpoint(folder, version)
    if last(folder) < base:  # by an older hint of others
        _write_checkpoint(folder, None)
    gone, checkpoints = sorted(set(old) - promised), _needless(log, base, promised)
    now = time.time()
    # Checkpoints behind commits: whoever is cut off here finds each promised version whole.
    paths = [
        *(log.path(version, _COMMIT) for version in gone),
        *(log.path(version, _CHECKSUM) for version in log.older(_CHECKSUM, now - _OPENED_S)),
        *(log.path(version, _CHECKPOINT) for version in checkpoints),
        *log.parts(now - _DEAD_S),
    ]
    syncs = partial(durable.sync_checkpoint, folder) if gone or checkpoints else bool
    remover.files(paths, syncs)
    return len(gone)


def _write_checkpoint(folder: str, version: int | None) -> None:
    state = log_state.load(folder, version)
    if state is not None:
        checkpoint_writer.write(folder, state)


def _needless(log: _Log, base: int, promised: Collection[int]) -> list[int]:
    """Checkpoints before ``base`` but for promised versions', and of those behind it what lies so
    close to the one before that a reader has few commits to go through without it; never that which
    ``_last_checkpoint`` names: where somebody was cut off it may be an older one."""
    named, checkpoints = last(log.folder), log.versions[_CHECKPOINT]
    needless = [
        version
        for version in checkpoints
        if version < base and version not in promised and version != named
    ]
    kept, newest = base, max(checkpoints, default=0)
    opened_since = time.time() - _OPENED_S
    for version in checkpoints:
        if version - kept >= _APART or version in (newest, named):
            kept = version
        elif version > base and log.is_older(version, _CHECKPOINT, opened_since):
            needless.append(version)
    return sorted(needless)
