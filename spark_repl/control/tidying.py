"""Tidying: the control table's checkpoints, and what they leave of its log and its files."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from ..delta.delta_rs import NO_HOOK, delta_rs
from ..delta.log_cleanup import remove_commits

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from .settle import Settle

log = logging.getLogger(__name__)

_CHECKPOINT_EVERY = 64
_OPENED_S = 300  # nobody takes so long to open the table
_WRITTEN_H = 1
"""hours that a file stays when no version names it any more, or yet: a commit that takes longer is
made on a version before the pruning's, and refused"""


def checkpoint_if_due(table: DeltaTable) -> None:
    """A checkpoint, behind so many versions."""
    if table.version() % _CHECKPOINT_EVERY == 0:
        try:
            table.create_checkpoint()
        except (DeltaError, OSError) as error:  # it only makes reading quicker
            log.warning("no checkpoint of the control table: %s", error)


def tidy(table: DeltaTable, path: str, settle: Settle) -> None:
    """Removes commits and files that the newest version does without, when that is durable; also
    files that the log does not know, as their commit failed, or knows no more. Raises OSError and
    TargetError."""
    with delta_rs("tidy up the control table", path):
        table.create_checkpoint()
        settle(checkpoint=True)
        table.load_as_version(table.version())  # it stands on what is removed now
        # Somebody may be reading a version before, its log at first, then its files.
        remove_commits(path, settle.durable, before=time.time() - _OPENED_S)
        table.vacuum(
            _WRITTEN_H, dry_run=False, enforce_retention_duration=False, full=True,
            post_commithook_properties=NO_HOOK,
        )  # fmt: skip
