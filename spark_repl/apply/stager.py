"""Stager: has a group read from the relay log and decoded by the workers, nothing visible yet."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..control.owner import succeed
from ..ddl.lower_names import fold
from ..decode.cascades import Cascades, unknown_refusal
from ..schedule.group import Group, StagedGroup
from ..schedule.planner import shared_out
from ..schedule.tasks import Mask, stage_tasks

if TYPE_CHECKING:
    from ..config import Config
    from ..control.copies import CatchUp
    from ..decode.staged import Staged, StageTask
    from ..gtid import GtidSet
    from ..runtime.workers import Workers
    from ..write.tracking import Tracking
    from .applied_log import AppliedLog

_SHARD_BYTES = 8 << 20


class Stager:
    """Staged groups lie below the owner's staging folder, each in its own; tiny ones nowhere.
    ``stage`` is a worker's part, ``catch_up`` what tables have from a first copy, ``seconds`` what
    reading has taken.

    The keys of a table are cut into shards where the last group changed fewer tables than there
    are workers.
    """

    def __init__(
        self,
        config: Config,
        log: AppliedLog,
        tracking: Tracking,
        workers: Workers,
        stage: Callable[[StageTask], Staged],
        catch_up: CatchUp,
    ) -> None:
        self._log, self._tracking, self._workers, self._stage = log, tracking, workers, stage
        self.catch_up, self._without_cascades = catch_up, config.source.without_cascades
        self.seconds = 0.0
        self._tables = 1  # how many the last group changed
        self._unannounced: set[str] = set()  # tables that are made from their TABLE_MAPs
        self._numbers = itertools.count(1)
        self._folder = tracking.layout.staging(tracking.control.epoch)
        self.clean()
        succeed(self._folder, inherit=False)

    def ready(self, group: Group) -> Group:
        """The group shared out, one worker has all of a tiny one, and with what is known of foreign
        keys now."""
        known = self._tracking.foreign_keys()
        small = self._workers.is_small(log_bytes=group.length)
        return replace(
            shared_out(group, 1 if small else self._workers.count),
            cascades=Cascades.of(known, self._without_cascades),
        )

    def stage(self, group: Group) -> StagedGroup:
        """Reads the group, as it is shared out, from its first position to its last. Raises
        LogError, DecodeError, OSError: nothing is left of it then."""
        here = self._workers.is_small(log_bytes=group.length)
        folder = None if here else self._new_folder()
        skip = self._skip(group)
        already = int(np.count_nonzero(np.any(list(skip.values()), axis=0))) if skip else 0
        split = group.length > _SHARD_BYTES and self._tables < self._workers.count
        tasks = stage_tasks(
            self._log.relay,
            self._log.base,
            group,
            skip,
            shards=self._workers.count if split else 1,
            folder=folder,
            idempotent=group.idempotent,
            cascades=group.cascades,
            forms=self._tracking.options.forms,
            # What a log with binlog_row_metadata=MINIMAL doesn't say itself.
            known=self._tracking.logged_definitions(),
        )
        began = time.perf_counter()
        try:
            parts = self._workers.run(self._stage, tasks, here=here)
        except Exception:
            _remove(folder)
            raise
        self.seconds += time.perf_counter() - began
        return StagedGroup(group, parts, folder, already)

    def check_cascades(self, staged: StagedGroup) -> None:
        """Groups are asked about in the order of the log. Raises DecodeError for the first change
        of a referenced table, when the foreign keys of a table are not known."""
        referred = dict[str, int]()
        for part in staged.by_worker:
            for name, at in part.referred.items():
                referred[name] = min(at, referred.get(name, at))
            self._unannounced |= part.definitions.keys() - self._tracking.tables.keys()
        if not referred:
            return
        known = {fold(name): keys for name, keys in self._tracking.foreign_keys().items()}
        names = self._unannounced.union(staged.group.cascades.unknown)
        if unknown := sorted(name for name in names if known.get(fold(name)) is None):
            name, at = min(referred.items(), key=lambda item: item[1])
            raise unknown_refusal(name, at, unknown)

    def learn(self, staged: StagedGroup) -> None:
        """How many tables a group had: the next one is likely to have as many."""
        self._tables = max(1, len({name for part in staged.by_worker for name in part.changes}))

    def _new_folder(self) -> str:
        # Retries stage in a thread of their own: one step gives one number to one group.
        folder = os.path.join(self._folder, f"group-{next(self._numbers)}")
        os.makedirs(folder, exist_ok=True)
        return folder

    def _skip(self, group: Group) -> dict[str, Mask]:
        """Which transactions each table has already (invariant 3): only after a crash are any."""
        records, masks = group.records, dict[str, Mask]()
        for table in list(self._tracking.tables.values()):
            if table.position > group.start:
                mask = records["end"] <= table.position
                if mask.any():
                    masks[table.name] = mask
        for name, gtids in self._held(group.executed):
            mask = gtids.contains_arrays(records["uuid"], records["gno"], records["tag"])
            if mask.any():
                masks[name] = mask | masks.get(name, mask)
        return masks

    def _held(self, executed: GtidSet) -> Iterable[tuple[str, GtidSet]]:
        """What tables hold by GTID, of another log or from a copy."""
        return [*self._tracking.ahead().items(), *self.catch_up.held(executed).items()]

    @property
    def task_retries(self) -> int:
        return self._workers.task_retries

    @staticmethod
    def drop(staged: StagedGroup) -> None:
        """Removes what was staged of a group."""
        _remove(staged.folder)

    def clean(self) -> None:
        """Removes what this owner has staged of any group."""
        _remove(self._folder)


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
