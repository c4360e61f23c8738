"""Clean-up of a table's log: commits that nothing needs any more, so that a log does not grow with
age.

What stays: everything from the last checkpoint on before the oldest commit that is young enough;
and each version that somebody was promised, as a checkpoint of its own. Delta's own clean-up keeps
all or nothing of a stretch of time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .checkpoint import last
from .delta_rs import delta_rs
from .delta_table import opened
from .storage import modified, remove_if_there

if TYPE_CHECKING:
    from .durable import Durable

_NAME = re.compile(r"(\d{20})\.(json|crc|checkpoint\.parquet)")
_APART = 500
_OPENED_S = 3600
"""a reader that has opened the table needs what it has found there no longer than that"""
_PART = re.compile(r"\..+\.tmp(\.crc)?|.+#\d+|_commit_.+\.json\.tmp")
"""what a commit of Hadoop's or delta-rs' is written to first"""
_DEAD_S = 24 * 3600
_KINDS = ("json", "crc", "checkpoint.parquet")


@dataclass(frozen=True)
class _Log:
    """Versions whose files are there, with the times at which they were written, in seconds:
    commits, checksums, and checkpoints of one file."""

    folder: str
    commits: dict[int, float]
    checksums: dict[int, float]
    checkpoints: dict[int, float]
    parts: dict[str, float]
    """by their names"""

    @classmethod
    def of(cls, folder: str) -> _Log:
        times: dict[str, dict[int, float]] = {kind: {} for kind in _KINDS}
        begun: dict[str, float] = {}
        for name, at in modified(os.path.join(folder, "_delta_log")).items():
            if parts := _NAME.fullmatch(name):
                times[parts[2]][int(parts[1])] = at
            elif _PART.fullmatch(name):
                begun[name] = at
        return cls(folder, times["json"], times["crc"], times["checkpoint.parquet"], begun)

    def path(self, version: int, kind: str) -> str:
        return os.path.join(self.folder, "_delta_log", f"{version:020d}.{kind}")


def remove_commits(
    folder: str,
    durable: Durable,
    *,
    before: float,
    keep: Collection[int] = (),
    begin: int | None = None,
) -> int:
    """Removes commits that were written before a time (in seconds, as ``time.time``), but for those
    that younger versions stand on, those from ``begin`` on, and versions to ``keep``, which get
    checkpoints of their own; when what stays is ``durable``. Returns how many. Raises what storage
    and delta-rs raise: what is left then is removed the next time."""
    log = _Log.of(folder)
    if not log.commits:
        return 0
    young = [version for version, at in log.commits.items() if at >= before]
    needed = min([*young, max(log.commits), *([] if begin is None else [begin])])
    base = max((v for v in log.checkpoints if v <= needed), default=0)
    old = [version for version in log.commits if version < base]
    promised = {version for version in keep if version < base and version in log.commits}
    for version in sorted(promised - log.checkpoints.keys()):
        with delta_rs("write a checkpoint", folder), opened(folder, version) as table:
            table.create_checkpoint()
    if last(folder) < base:  # the hint that delta-rs has just written, or somebody before
        with delta_rs("write a checkpoint", folder), opened(folder) as table:
            table.create_checkpoint()
    checkpoints = _needless(log, base, promised)
    if old or checkpoints:
        durable.sync_checkpoint(folder)
    # Checkpoints last: whoever is cut off here finds each promised version whole.
    for version in sorted(set(old) - promised):
        remove_if_there(log.path(version, "json"))
    now = time.time()
    for version in sorted(v for v, at in log.checksums.items() if at < now - _OPENED_S):
        remove_if_there(log.path(version, "crc"))
    for version in checkpoints:
        remove_if_there(log.path(version, "checkpoint.parquet"))
    for name in (name for name, at in log.parts.items() if at < now - _DEAD_S):
        remove_if_there(os.path.join(folder, "_delta_log", name))
    return len(old) - len(promised)


def _needless(log: _Log, base: int, promised: Collection[int]) -> list[int]:
    """Checkpoints before ``base`` but for promised versions', and of those behind it what lies so
    close to the one before that a reader has few commits to go through without it; never that which
    ``_last_checkpoint`` names: where somebody was cut off it may be an older one."""
    named = last(log.folder)
    needless = [
        version
        for version in log.checkpoints
        if version < base and version not in promised and version != named
    ]
    kept, newest = base, max(log.checkpoints, default=0)
    for version, at in sorted(log.checkpoints.items()):
        if version - kept >= _APART or version in (newest, named):
            kept = version
        elif version > base and at < time.time() - _OPENED_S:
            needless.append(version)
    return sorted(needless)
