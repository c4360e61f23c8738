"""Stager: has the workers read and decode a group once, into files that no reader sees.

Staged groups are below the owner's staging folder (``staging_folder``); tiny ones stay in memory.
Executors that can't read the driver's disk get the log's bytes from stores (``remote_spans``). If a
worker can't read its part, an exception takes the part's place (``ReadAttempt``).

The pipeline calls it with each group, before the group is written. Raises DecodeError and LogError
with the place in the log. Design: docs/design/staging.md.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...decode.cascade_detection import Cascades, unknown_refusal
from ...decode.folding import EveryTable, SomeTables
from ...decode.known_tables import (
    AllTablesExcept,
    IgnoredTables,
    KnownTables,
    OnlyTable,
    TablePacker,
)
from ...decode.stage_task import SHARD_MAX_BYTES, StageTask
from ...delta.store import storage
from ...errors import SparkReplError
from ...relay.source_places import SourcePlace
from ...runtime.private_files import private_opener
from ...runtime.target_uri import is_remote
from ...runtime.workers import all_of
from ...schedule.group import StagedGroup
from ...schedule.planner import assign_workers
from ...schedule.tasks import Mask, stage_tasks
from ...tables.case_folding import fold
from ...tables.source_table import Unapplied
from ..applied.quarantine_changes import QuarantineChanges
from .remote_spans import RemoteSpans
from .staging_folder import StagingFolder, remove_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from ...config import Config
    from ...control.records.copies import CatchUp
    from ...decode.metadata_values import Commits
    from ...decode.stage_task import Staged
    from ...gtid import GtidSet
    from ...relay.span import Span
    from ...runtime.workers import Workers
    from ...schedule.group import Group
    from ...tables.source_table import Declared
    from ...tables.target_table import TargetTable
    from ...write.cascades.emulated_cascades import Cascaded, CascadeTask
    from ...write.tables.ahead_of_cut import TableProgress
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog

_SHARD_BYTES = 8 << 20
"""bytes of the log above which the keys of a group's tables may be cut into shards"""


@dataclass(frozen=True)
class ReadAttempt:
    """A group after every worker has tried once to read it: the
    ``outcomes`` of ``tasks``, in their order. ``folder``, ``already``: see ``StagedGroup``."""

    group: Group
    tasks: Sequence[StageTask]
    outcomes: Sequence[Staged | Exception]
    folder: str | None
    already: int

    @property
    def errors(self) -> list[Exception]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Exception)]

    @property
    def is_complete(self) -> bool:
        """Return whether every worker has read its part."""
        return not self.errors

    def staged_group(self) -> StagedGroup:
        """Return the group. Raise the first error, if there is one."""
        return self.with_parts(all_of(self.outcomes))

    def with_parts(self, parts: Sequence[Staged]) -> StagedGroup:
        """Return the group with these parts."""
        return StagedGroup(self.group, parts, self.folder, self.already)


class Stager:
    """Has workers read groups, one attempt for each group.

    ``stage`` and ``emulate`` are a worker's functions, ``catch_up`` is what tables have from a
    first copy, and ``seconds`` is how long reading took. The keys of a table are divided into
    shards if the last group changed fewer tables than there are workers.
    """

    def __init__(
        self,
        config: Config,
        applied: AppliedLog,
        tracking: Tracking,
        workers: Workers,
        stage: Callable[[StageTask], Staged],
        emulate: Callable[[CascadeTask], Cascaded],
        catch_up: CatchUp,
    ) -> None:
        self.tracking, self.workers, self.settings = tracking, workers, config.apply
        self.applied, self._stage, self.emulate = applied, stage, emulate
        self.catch_up, self._without_cascades = catch_up, config.ddl.without_cascades
        order = config.apply.preserve_commit_order
        self._emulated = config.ddl.cascades == "emulate" and order
        self.quarantining = QuarantineChanges(config.apply, tracking, applied, catch_up)
        self.seconds = 0.0
        self._tables = 1  # how many the last group changed
        self._unannounced: set[str] = set()  # tables that are made from their TABLE_MAPs
        self._packer = TablePacker()
        control, layout, self._filters = tracking.control, tracking.layout, tracking.filters
        self._layout, self._control = layout, control
        self.folder = StagingFolder(layout, control.epoch, workers.has_own_disks)
        self.folder.begin()

    @cached_property
    def remote(self) -> RemoteSpans | None:
        """Return the converter of spans for executors that can't read the driver's disk, or None if
        they can. Wait for the Spark session if this depends on its master."""
        if not self.workers.has_own_disks():
            return None
        layout, control_id = self._layout, self._control.table_id()
        return RemoteSpans(layout.xa_here, layout.xa, control_id, self.settings.task_log_bytes)

    def share_out(self, group: Group) -> Group:
        """Return the group divided among the workers, with the current foreign keys. One worker
        gets all of a tiny group."""
        foreign_keys = self.tracking.foreign_keys()
        small = self.workers.is_small(log_bytes=group.uncompressed)
        return replace(
            assign_workers(group, 1 if small else self.workers.count),
            cascades=Cascades.of(foreign_keys, self._without_cascades, emulated=self._emulated),
        )

    def idempotent(self, executed: GtidSet) -> Container[str]:
        """Return the tables in which missing rows and duplicate keys are not errors, after
        ``executed``."""
        copied = self.catch_up.tables(executed)
        strict = SomeTables.of(copied, self.tracking.without_history())
        return EveryTable(copied) if self.settings.exec_mode == "idempotent" else strict

    def read(self, group: Group, workers: Container[int] | None = None) -> ReadAttempt:
        """Have the group read once, as it is divided, from its first position to its last. If
        ``workers`` are given, read only their parts. A worker that fails returns its error instead
        of its part."""
        in_driver = self.workers.is_small(log_bytes=group.uncompressed)
        folder = None if in_driver else self.folder.name()
        skip = self._skip(group)
        already = int(np.count_nonzero(np.any(list(skip.values()), axis=0))) if skip else 0
        tasks = self._tasks(group, skip, self._shards(group.uncompressed), folder)
        tasks = [task for task in tasks if workers is None or task.worker in workers]
        return ReadAttempt(group, tuple(tasks), tuple(self._outcomes(tasks)), folder, already)

    def _shards(self, length: int) -> int:
        """Return the number of shards into which a group of ``length`` bytes divides the keys of
        each table. A larger transaction gets more shards, not larger ones."""
        split = length > _SHARD_BYTES and self._tables < self.workers.count
        return max(self.workers.count if split else 1, length // SHARD_MAX_BYTES)

    def read_again(self, task: StageTask) -> Staged:
        """Read the spans of a worker that has failed before, from start to end. Raise LogError,
        DecodeError and OSError."""
        (staged,) = all_of(self._outcomes([task]))
        return staged

    def _outcomes(self, tasks: Sequence[StageTask]) -> list[Staged | Exception]:
        folder = tasks[0].folder if tasks else None
        began = time.perf_counter()
        try:
            if folder is not None:
                storage.make_folder(folder)
        except OSError as error:
            return [error] * len(tasks)
        if folder is None or self.remote is None:
            outcomes = self.workers.outcomes(self._stage, tasks, here=folder is None)
        else:
            outcomes = self._outcomes_remote(self.remote, tasks)
        self.seconds += time.perf_counter() - began
        return outcomes

    def _outcomes_remote(
        self, remote: RemoteSpans, tasks: Sequence[StageTask]
    ) -> list[Staged | Exception]:
        """Run the tasks on executors that can't read the driver's disk. Run a task in this process
        if too many of its bytes are not archived yet."""
        outcomes: dict[int, Staged | Exception] = {}
        sent: dict[int, StageTask] = {}
        for number, task in enumerate(tasks):
            try:
                ready = remote.task(task)
            except (SparkReplError, OSError) as error:
                outcomes[number] = error
                continue
            if ready is not None:
                sent[number] = ready
            else:
                (outcomes[number],) = self.workers.outcomes(self._stage, [task], here=True)
        run = self.workers.outcomes(self._stage, list(sent.values()))
        outcomes.update(zip(sent, run, strict=True))
        return [outcomes[number] for number in range(len(tasks))]

    def _tasks(
        self, group: Group, skip: dict[str, Mask], shards: int, folder: str | None
    ) -> list[StageTask]:
        quarantined = self.tracking.quarantines()
        left_out = {**self.tracking.left_out(), **dict.fromkeys(quarantined, Unapplied.UNREAD)}
        ignored = IgnoredTables(frozenset(left_out), self._filters.now)
        definitions: dict[str, Declared] = {**self.tracking.logged_definitions(), **left_out}
        template = StageTask(
            0,
            (),
            shards,
            folder,
            idempotent=group.idempotent,
            cascades=group.cascades,
            forms=self.tracking.options.forms,
            # A log with binlog_row_metadata=MINIMAL lacks these.
            definitions=KnownTables(definitions, ignored, group.cascades.keys, self._packer),
            wider=self._wider(),
            leftover=self._leftover(),
            left_out=ignored,
            quarantined=frozenset(quarantined),
            rewrites=ignored.filters.rewrites,
            columns=self.tracking.column_rules,
        )
        return stage_tasks(self.applied.view.relay, self.applied.base, group, skip, template)

    def _wider(self) -> dict[str, TargetTable]:
        """Return the tables of which the target keeps more than the source has, as they are at this
        place of the log."""
        tables = list(self.tracking.tables.items())
        return {name: table.at_place for name, table in tables if table.keeps_more}

    def _leftover(self) -> frozenset[str]:
        """Return the tables with rows that the source has removed by TRUNCATE, at this place of the
        log."""
        tables = list(self.tracking.tables.items())
        return frozenset(name for name, table in tables if table.at_place.truncated)

    def local_copy(self, path: str) -> str:
        """Return the path from which workers read a file of the target: a local copy if the file is
        on an object store, unless workers read the log's bytes from the store."""
        if not is_remote(path) or self.remote is not None:
            return path
        copied = os.path.join(self.folder.make(), os.path.basename(path))
        with storage.open_input(path) as source, open(copied, "wb", opener=private_opener) as out:
            shutil.copyfileobj(source, out)
        return copied

    def stage_table(
        self, group: Group, name: str, spans: Sequence[Span], commits: Commits | None = None
    ) -> StagedGroup:
        """Stage only the changes that some transactions have for one table, as a separate group.
        ``commits``: the transactions' commits, which a quarantine does not keep. Raise LogError,
        DecodeError and OSError."""
        folder, definitions = self.folder.name(), self.tracking.logged_definitions()
        rewrites = self._filters.now.rewrites
        shares = np.array_split(np.arange(len(spans)), self.workers.count)
        tasks = [
            StageTask(
                number, tuple(spans[i] for i in share), self.workers.count, folder,
                idempotent=group.idempotent,
                forms=self.tracking.options.forms,
                definitions=OnlyTable(name, definitions.get(name), rewrites),
                wider=self._wider(),
                leftover=self._leftover(),
                left_out=AllTablesExcept(name),
                rewrites=rewrites,
                columns=self.tracking.column_rules,
                commits=commits,
            )
            for number, share in enumerate(shares) if len(share)
        ]  # fmt: skip
        try:
            return StagedGroup(group, all_of(self._outcomes(tasks)), folder)
        except BaseException:
            remove_staged(folder)
            raise

    def tasks_of_one_worker(self, group: Group) -> list[StageTask]:
        """Return the tasks of the group for one worker. For each table the tasks skip the changes
        that it already has."""
        return self._tasks(assign_workers(group, 1), self._skip(group), 1, None)

    def check_cascades(self, staged: StagedGroup) -> None:
        """Raise DecodeError for the first change of a referenced table if the foreign keys of a
        table are not known. Call it for groups in the order of the log."""
        referred = dict[str, int]()
        for part in staged.by_worker:
            for name, at in part.referred.items():
                referred[name] = min(at, referred.get(name, at))
            self._unannounced |= part.definitions.keys() - self.tracking.tables.keys()
        if not referred:
            return
        foreign_keys = {fold(name): keys for name, keys in self.tracking.foreign_keys().items()}
        names = self._unannounced.union(staged.group.cascades.unknown)
        if unknown := sorted(name for name in names if foreign_keys.get(fold(name)) is None):
            name, at = min(referred.items(), key=lambda item: item[1])
            raise unknown_refusal(name, at, unknown)

    def note_tables(self, staged: StagedGroup) -> None:
        """Record how many tables a group changed: the next one is likely to change as many."""
        self._tables = max(1, len({name for part in staged.by_worker for name in part.changes}))

    def _skip(self, group: Group) -> dict[str, Mask]:
        """Return which transactions each table already has (invariant 3). There are none except
        after a crash, from a copy, or from another log."""
        records, masks = group.records, dict[str, Mask]()
        for table in list(self.tracking.tables.values()):
            if table.position > group.start:
                mask = records["end"] <= table.position
                if mask.any():
                    masks[table.name] = mask
        for name, reached in self._reached(group.executed):
            if isinstance(reached, SourcePlace):
                mask = np.arange(len(records)) < self.applied.count_up_to(records, reached)
            else:
                mask = reached.contains_arrays(records["uuid"], records["gno"], records["tag"])
            if mask.any():
                masks[name] = mask | masks.get(name, mask)
        return masks

    def begins_within(self, reached: TableProgress, group: Group) -> bool:
        """Return whether a table whose position is ``reached`` has changes beyond the start of the
        group."""
        if isinstance(reached, SourcePlace):
            return bool(self.applied.count_up_to(group.records[:1], reached))
        return not reached.issubset(group.executed)

    def _reached(self, executed: GtidSet) -> Iterable[tuple[str, TableProgress]]:
        """Return what tables hold by GTID or place, from another log or from a copy."""
        return [*self.tracking.ahead().items(), *self.catch_up.held(executed).items()]


def drop_staged(staged: StagedGroup | ReadAttempt) -> None:
    """Remove the staged files of a group."""
    remove_staged(staged.folder)
