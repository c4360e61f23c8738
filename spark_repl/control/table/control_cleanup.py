"""Control cleanup: the control table's checkpoints, and the commits and files that they make
needless."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Protocol

from deltalake.exceptions import DeltaError

from ...delta.log.log_cleanup import remove_commits
from ...delta.store import storage
from ...delta.store.delta_rs import NO_HOOK, delta_rs

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from ...delta.log.durable import Durable
    from ...delta.store.remover import Remover

logger = logging.getLogger(__name__)

_CHECKPOINT_EVERY = 64
_OPENED_S = 300  # no reader takes so long to open the table
_WRITTEN_H = 1
"""hours for which a file stays that no version names any more, or not yet. A commit that takes
longer is made on a version before the pruning, and is refused."""


class Barrier(Protocol):
    """Syncs a target before files are removed from it (``records/durability_barrier``)."""

    @property
    def durable(self) -> Durable: ...

    def __call__(self, *, checkpoint: bool = False) -> None: ...


def checkpoint_if_due(table: DeltaTable) -> None:
    """Write a checkpoint after each ``_CHECKPOINT_EVERY`` versions."""
    if table.version() % _CHECKPOINT_EVERY == 0:
        try:
            table.create_checkpoint()
        except (DeltaError, OSError) as error:  # a checkpoint only makes reading quicker
            logger.warning("no checkpoint of the control table: %s", error)


def clean_up(
    table: DeltaTable, path: str, barrier: Barrier, remover: Remover, began: float
) -> None:
    """Remove commits and files that the newest version does not need, after ``barrier`` has made
    that version durable. Also remove files that the log does not name: their commit failed, or was
    removed. ``began``: the time (``time.time``) at which the commit of that version began. No later
    version names a file that was written before it. Raise OSError, TargetError and FencedError."""
    with delta_rs("tidy up the control table", path):
        table.create_checkpoint()
        needless = _needless(table, path, began - 3600 * _WRITTEN_H)
        barrier(checkpoint=True)
        table.load_as_version(table.version())  # the handle refers to commits that are removed now
        # Another process may read an earlier version: first its log, then its files.
        remove_commits(path, barrier.durable, before=began - _OPENED_S, remover=remover)
        remover.files(needless)


def _needless(table: DeltaTable, path: str, before: float) -> list[str]:
    """Return the files that no version since ``table`` needs and that were written ``before`` a
    time. VACUUM names some by the clock at its run; killed writers left the others."""
    names = table.vacuum(
        _WRITTEN_H, dry_run=True, enforce_retention_duration=False, full=True,
        post_commithook_properties=NO_HOOK,
    )  # fmt: skip
    times = storage.listed(path)
    names += [name for name in times if storage.UNFINISHED.fullmatch(name)]
    old = []
    for name in (name for name in names if name in times):
        file = os.path.join(path, name)
        at = times[name]
        if (storage.modified(file) if at is None else at) < before:
            old.append(file)
    return old
