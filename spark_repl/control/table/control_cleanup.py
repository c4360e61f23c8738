"""Tidying: the control table's checkpoints, and what they leave of its log and its files."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Protocol

from deltalake.exceptions import DeltaError

from ...delta import storage
from ...delta.delta_rs import NO_HOOK, delta_rs
from ...delta.log_cleanup import remove_commits

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from ...delta.durable import Durable
    from ...delta.removing import Remover

log = logging.getLogger(__name__)

_CHECKPOINT_EVERY = 64
_OPENED_S = 300  # nobody takes so long to open the table
_WRITTEN_H = 1
"""hours that a file stays when no version names it any more, or yet. A commit that takes longer is
made on a version before the pruning's, and refused."""


class Barrier(Protocol):
    """Syncs a target before files are removed from it (``records/durability_barrier``)."""

    @property
    def durable(self) -> Durable: ...

    def __call__(self, *, checkpoint: bool = False) -> None: ...


def checkpoint_if_due(table: DeltaTable) -> None:
    """A checkpoint, behind so many versions."""
    if table.version() % _CHECKPOINT_EVERY == 0:
        try:
            table.create_checkpoint()
        except (DeltaError, OSError) as error:  # it only makes reading quicker
            log.warning("no checkpoint of the control table: %s", error)


def tidy(table: DeltaTable, path: str, barrier: Barrier, remover: Remover, began: float) -> None:
    """Removes commits and files that the newest version does without, when that is durable; also
    files that the log does not know, as their commit failed, or knows no more. ``began``: when the
    commit of that version was begun, as ``time.time``: no later version names a file that was
    written before, whoever commits it. Raises OSError, TargetError and FencedError."""
    with delta_rs("tidy up the control table", path):
        table.create_checkpoint()
        needless = _needless(table, path, began - 3600 * _WRITTEN_H)
        barrier(checkpoint=True)
        table.load_as_version(table.version())  # it stands on what is removed now
        # Somebody may be reading a version before, its log at first, then its files.
        remove_commits(path, barrier.durable, before=began - _OPENED_S, remover=remover)
        remover.files(needless)


def _needless(table: DeltaTable, path: str, before: float) -> list[str]:
    """The files that no version since ``table`` needs and that were written ``before`` a time: of
    those that VACUUM names, as it goes by the clock that it finds when it runs, and of those that
    killed writers left."""
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
