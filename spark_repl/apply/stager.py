"""Stager: has a group read from the relay log and decoded by the workers, nothing visible yet."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Iterable

import numpy as np

from ..config import Config
from ..control.copies import CatchUp
from ..control.owner import succeed
from ..ddl.lower_names import fold
from ..decode.cascades import Cascades, unknown_refusal
from ..decode.stage import Staged, stage
from ..gtid import GtidSet
from ..relay.log import RelayLog
from ..runtime.workers import Workers
from ..write.tracking import Tracking
from .plan import Group, Mask, share_out, stage_tasks

# Below this many bytes the work takes less time than starting a Spark job for it.
HERE_BYTES = 1 << 19
_SHARD_BYTES = 8 << 20


class Stager:
    """Staged groups lie below the owner's staging folder, each in its own; tiny ones nowhere.

    ``tables``: how many tables the last group changed; with fewer than workers the keys of a table
    are cut into shards.
    """

    def __init__(self, config: Config, tracking: Tracking, workers: Workers) -> None:
        self.config, self.tracking, self.workers = config, tracking, workers
        self.tables, self.seconds = 1, 0.0
        self._unannounced: set[str] = set()  # tables that are made from their TABLE_MAPs
        self._numbers = itertools.count(1)
        self.staging = tracking.layout.staging(tracking.control.epoch)
        self.clean()
        succeed(self.staging, inherit=False)

    def share_out(self, group: Group) -> None:
        """Says which worker has which transaction: one has all of a tiny group."""
        count = 1 if _size(group) <= HERE_BYTES else self.workers.count
        group.worker = share_out(group.records, group.wave, count)

    def stage(
        self, group: Group, relay: RelayLog, base: int, catch_up: CatchUp, executed: GtidSet
    ) -> list[Staged]:
        """Reads the group, as it is shared out, from its first position to its last. Raises
        LogError, DecodeError, OSError. ``catch_up``: what tables have from a first copy."""
        size, count = _size(group), self.workers.count
        here = size <= HERE_BYTES
        folder = None if here else self._folder(group)
        shards = count if size > _SHARD_BYTES and self.tables < count else 1
        held = [*self.tracking.ahead.items(), *catch_up.held(executed).items()]
        skip = self._skip(group, held)
        group.cascades = self.cascades()
        group.already = int(np.count_nonzero(np.any(list(skip.values()), axis=0))) if skip else 0
        tasks = stage_tasks(
            relay,
            base,
            group.records,
            group.worker,
            skip,
            group.xa.commits,
            shards=shards,
            folder=folder,
            idempotent=group.idempotent,
            cascades=group.cascades,
            forms=self.tracking.options.forms,
            # What a log with binlog_row_metadata=MINIMAL doesn't say itself.
            known={t.name: t.definition for t in list(self.tracking.tables.values())},
        )
        began = time.perf_counter()
        found = self.workers.run(stage, tasks, here=here)
        self.seconds += time.perf_counter() - began
        return found

    def cascades(self) -> Cascades:
        """What is known of foreign keys now."""
        return Cascades.of(self.tracking.foreign_keys(), self.config.source.without_cascades)

    def check_cascades(self, group: Group, staged: Iterable[Staged]) -> None:
        """Groups are asked about in the order of the log. Raises DecodeError for the first change
        of a referenced table, when the foreign keys of a table are not known."""
        referred = dict[str, int]()
        for part in staged:
            for name, at in part.referred.items():
                referred[name] = min(at, referred.get(name, at))
            self._unannounced |= part.definitions.keys() - self.tracking.tables.keys()
        if not referred:
            return
        known = {fold(name): keys for name, keys in self.tracking.foreign_keys().items()}
        names = self._unannounced.union(group.cascades.unknown)
        if unknown := sorted(name for name in names if known.get(fold(name)) is None):
            name, at = min(referred.items(), key=lambda found: found[1])
            raise unknown_refusal(name, at, unknown)

    def learn(self, staged: Iterable[Staged]) -> None:
        """How many tables a group had: the next one is likely to have as many."""
        self.tables = max(1, len({name for part in staged for name in part.changes}))

    def _folder(self, group: Group) -> str:
        self.drop(group)  # of an attempt that failed
        # Retries stage in a thread of their own: one step gives one number to one group.
        name = f"group-{next(self._numbers)}"
        group.folder = os.path.join(self.staging, name)
        os.makedirs(group.folder, exist_ok=True)
        return group.folder

    def _skip(self, group: Group, held: Iterable[tuple[str, GtidSet]]) -> dict[str, Mask]:
        """Which transactions each table has already (invariant 3): only after a crash are any."""
        records, found = group.records, dict[str, Mask]()
        for table in list(self.tracking.tables.values()):
            if table.position > group.start:
                mask = records["end"] <= table.position
                if mask.any():
                    found[table.name] = mask
        for name, gtids in held:
            mask = gtids.contains_arrays(records["uuid"], records["gno"], records["tag"])
            if mask.any():
                found[name] = mask | found.get(name, mask)
        return found

    def drop(self, group: Group) -> None:
        """Removes what was staged of a group."""
        if group.folder is not None:
            shutil.rmtree(group.folder, ignore_errors=True)

    def clean(self) -> None:
        """Removes what this owner has staged of any group."""
        shutil.rmtree(self.staging, ignore_errors=True)


def _size(group: Group) -> int:
    return int(group.records["length"].sum())
