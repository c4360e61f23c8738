"""Coordinator: transactions in, committed groups and cuts out, in the source's commit order.

The two phases of WL#3970 here: a group is *staged* (decoded and folded by the workers, nothing
visible), then written and committed table by table, then its cut is published. While one group
commits, the next is being staged; a group's first commit waits for the cut of the one before.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from .apply.schedule import GroupLimits, RowEstimate, groups, waves
from .apply.stage import Staged, stage
from .config import Config
from .errors import DecodeError, LogError, SparkReplError, StatementError, TargetError
from .group import GroupWriter, RowFault
from .gtid import GtidSet
from .plan import WITH_ROWS, WITHOUT_ROWS, Mask, Records, stage_tasks
from .position import OFFSET_BITS, RelayPosition
from .relay.index import Kind, gtid_text
from .relay.log import RelayLog
from .sink.control import Cut
from .sink.copies import Copy
from .sink.crash_points import reach
from .sink.delta_log import ConcurrentChangeError
from .sink.history import History
from .sink.tracking import Tracking
from .statements import Statements
from .workers import Workers

log = logging.getLogger(__name__)

# Below this many bytes the work takes less time than starting a Spark job for it.
HERE_BYTES = 1 << 19
_SHARD_BYTES = 8 << 20
_PAUSE_MAX_S = 5


@dataclass
class Counters:
    """What this run has done. ``already``: transactions that some table had from before."""

    transactions: int = 0
    row_changes: int = 0
    groups: int = 0
    cuts: int = 0
    statements: int = 0
    retries: int = 0
    already: int = 0
    at_start: int = 0
    zero_dates: int = 0
    warnings: list[str] = field(default_factory=list)
    waves: int = 0


@dataclass
class _Group:
    records: Records
    wave: np.ndarray
    staged: Future[list[Staged]] | None = None
    already: int = 0
    folder: str | None = None
    idempotent: bool = False

    @property
    def start(self) -> int:
        return int(self.records["position"][0])

    @property
    def end(self) -> int:
        return int(self.records["end"][-1])


class Coordinator:
    """Applies transactions of one log to one target. Not thread-safe: one batch at a time."""

    def __init__(
        self,
        config: Config,
        relay: RelayLog,
        history: History,
        tracking: Tracking,
        workers: Workers,
        executed: GtidSet,
        position: int,
        on_group: Callable[[Counters, int], None] | None = None,
    ) -> None:
        self.config, self.relay, self.history, self.tracking = config, relay, history, tracking
        self.workers, self.executed, self.position = workers, executed, position
        self.counters = Counters()
        self.on_group = on_group or (lambda counters, end: None)
        self.stopping = False
        self.copy: Copy | None = None
        """a first copy whose tables are consistent only when the log is applied to its end"""
        self._estimate = RowEstimate()
        self._tables_last = 1
        self._lane = ThreadPoolExecutor(1, thread_name_prefix="stage")
        self._writer = GroupWriter(tracking, workers, config)
        self._statements = Statements(tracking, relay, history.base)
        self._number = 0
        self._stage_seconds = self._wait_seconds = 0.0
        shutil.rmtree(tracking.layout.staging, ignore_errors=True)

    def apply(self, records: Records) -> None:
        """Applies index records in log order; those that every table has already are passed over.

        Raises SparkReplError with the transaction's place when one can't be applied: everything
        before it has been committed then, nothing behind it.
        """
        records = records[records["end"] > self.position]
        if self.history.renewed and len(records):
            had = self.executed.contains_arrays(records["uuid"], records["gno"], records["tag"])
            records = records[~had]
        if not len(records):
            return
        planned = list(self._plan(records))
        for i, group in enumerate(planned):
            if self.stopping:
                return
            if group.staged is None:
                self._begin(group)
            ahead = planned[i + 1] if i + 1 < len(planned) else None
            if ahead is not None:
                self._begin(ahead)
            self._finish(group)

    def _plan(self, records: Records) -> Iterator[_Group]:
        barrier = ~np.isin(records["kind"], WITH_ROWS + WITHOUT_ROWS)
        wave, warnings = waves(
            records["position"] >> OFFSET_BITS,
            records["last_committed"],
            records["sequence_number"],
            barrier,
        )
        for at, text in warnings:
            place = RelayPosition.unpack(int(records["position"][at]))
            self.counters.warnings.append(f"{text} [position {place}]")
            log.warning("%s at %s", text, place)
        apply = self.config.apply
        limits = GroupLimits(
            apply.group_max_transactions, apply.group_max_rows, apply.group_max_bytes
        )
        rows = self._estimate.rows(records["uncompressed"])
        edges = groups(barrier, records["uncompressed"], rows, limits)
        for a, b in itertools.pairwise(edges):
            yield _Group(records[a:b], wave[a:b])

    def _begin(self, group: _Group) -> None:
        if group.records["kind"][0] in WITH_ROWS + WITHOUT_ROWS and group.staged is None:
            group.idempotent = self.config.apply.exec_mode == "idempotent" or self._catching_up
            group.staged = self._lane.submit(self._stage, group)

    def _stage(self, group: _Group) -> list[Staged]:
        size = int(group.records["length"].sum())
        here = size <= HERE_BYTES
        folder = None
        if not here:
            self._number += 1
            folder = os.path.join(self.tracking.layout.staging, f"group-{self._number}")
            os.makedirs(folder, exist_ok=True)
            group.folder = folder
        count = self.workers.count
        shards = count if size > _SHARD_BYTES and self._tables_last < count else 1
        skip = self._skip(group.records)
        group.already = int(np.count_nonzero(np.any(list(skip.values()), axis=0))) if skip else 0
        tasks = stage_tasks(
            self.relay,
            self.history.base,
            group.records,
            group.wave,
            1 if here else count,
            skip,
            shards=shards,
            folder=folder,
            idempotent=group.idempotent,
            zero_dates=self.config.target.zero_dates,
        )
        began = time.perf_counter()
        found = self.workers.run(stage, tasks, here=here)
        self._stage_seconds += time.perf_counter() - began
        return found

    def _skip(self, records: Records) -> dict[str, Mask]:
        """Which transactions each table has already (invariant 3): only after a crash are any."""
        found = {}
        for table in list(self.tracking.tables.values()):
            if table.position > int(records["position"][0]):
                mask = records["end"] <= table.position
                if mask.any():
                    found[table.name] = mask
        exact = self.copy.exact if self.copy and self._catching_up else {}
        for name, had in exact.items():
            mask = had.contains_arrays(records["uuid"], records["gno"], records["tag"])
            if mask.any():
                found[name] = mask | found.get(name, mask)
        return found

    @property
    def _catching_up(self) -> bool:
        until = self.copy.until if self.copy else None
        return until is not None and not until.issubset(self.executed)

    def _finish(self, group: _Group) -> None:
        kind = Kind(int(group.records["kind"][0]))
        try:
            if kind in WITH_ROWS + WITHOUT_ROWS:
                self._rows(group)
            else:
                self._statement(group, kind)
        except SparkReplError as error:
            raise self._place(error, group.records) from error

    def _statement(self, group: _Group, kind: Kind) -> None:
        cut = self._cut(group)
        self._statements.apply(group.records[0], kind, cut)
        self.counters.statements += 1
        self._publish(group, cut)

    def _rows(self, group: _Group) -> None:
        try:
            assert group.staged is not None
            began = time.perf_counter()
            staged = group.staged.result()
            self._wait_seconds += time.perf_counter() - began
            reach("staged")
            changes = self._write(group, staged)
        except (RowFault, DecodeError, LogError) as fault:
            self._prefix(group, fault)
            raise
        if group.folder is not None:
            shutil.rmtree(group.folder, ignore_errors=True)
        self._estimate = self._estimate.observe(int(group.records["uncompressed"].sum()), changes)
        self._publish(group, self._cut(group))

    def _write(self, group: _Group, staged: list[Staged]) -> int:
        cut = self._cut(group)
        for attempt in range(self.config.apply.transaction_retries + 1):
            try:
                changes = self._writer.write(staged, group.start, cut, idempotent=group.idempotent)
                break
            except ConcurrentChangeError as error:
                if attempt == self.config.apply.transaction_retries:
                    raise TargetError(
                        f"worker thread retried transaction {attempt} time(s) in vain, giving up."
                        " Consider raising the value of the transaction_retries variable."
                        f" Last: {error.message}"
                    ) from error
                self.counters.retries += 1
                time.sleep(min(attempt + 1, _PAUSE_MAX_S))
        self._tables_last = max(1, len(changes))
        self.counters.row_changes += sum(changes.values())
        self.counters.zero_dates += sum(part.zero_dates for part in staged)
        return sum(changes.values())

    def _prefix(self, group: _Group, fault: SparkReplError) -> None:
        """Lands what stands before the transaction that failed: the committed set is a prefix."""
        if fault.position is None:
            return
        failed = RelayPosition.parse(fault.position).packed
        before = group.records["position"] < failed
        inside = (group.records["position"] <= failed) & (failed < group.records["end"])
        if not inside.any() or not before.any() or not (before & ~inside).any():
            return
        keep = before & ~inside
        part = _Group(group.records[keep], group.wave[keep])
        self._begin(part)
        self._rows(part)

    def _cut(self, group: _Group) -> Cut:
        records = group.records
        gtids = GtidSet.from_arrays(records["uuid"], records["gno"], records["tag"])
        end = group.end
        file = self.relay.file((end >> OFFSET_BITS) - self.history.base).name
        source = {
            "server_uuid": self.relay.source_uuid,
            "file": file,
            "position": RelayPosition.unpack(end).offset,
            "commit_time": int(records["commit_time"][-1]),
        }
        executed = str(self.executed.union(gtids))
        return Cut(end, executed, self.history.log_id, source, {})

    def _publish(self, group: _Group, cut: Cut) -> None:
        self.executed, self.position = GtidSet.parse(cut.gtid_executed), cut.position
        counted = self.counters
        counted.transactions += len(group.records)
        counted.groups += 1
        counted.already += group.already
        counted.waves += len(np.unique(group.wave))
        tables = self.tracking.tables
        # After a crash a table may be ahead: until the others have caught up there is no cut.
        if not self._catching_up and all(t.position <= cut.position for t in tables.values()):
            versions = {name: table.version() for name, table in sorted(tables.items())}
            counts = {"transactions": len(group.records), "waves": len(np.unique(group.wave))}
            reach("before_cut")
            self.tracking.control.publish(
                Cut(cut.position, cut.gtid_executed, cut.log_id, cut.source, versions, None, counts)
            )
            reach("after_cut")
            counted.cuts += 1
        self.on_group(counted, cut.position)

    def publish_copy(self, position: int) -> None:
        """The first cut of a copy behind which nothing has to be applied: the source was idle."""
        if self._catching_up:
            return
        self.position = position
        versions = {name: table.version() for name, table in sorted(self.tracking.tables.items())}
        executed, log_id = str(self.executed), self.history.log_id
        self.tracking.control.publish(Cut(position, executed, log_id, {}, versions))

    def _place(self, error: SparkReplError, records: Records) -> SparkReplError:
        """Names the transaction: its GTID, file and position."""
        at = 0
        if error.position is not None:
            packed = RelayPosition.parse(error.position).packed
            at = max(0, int(np.searchsorted(records["position"], packed, "right")) - 1)
        place = RelayPosition.unpack(int(records["position"][at]))
        single = len(records) == 1 or error.position is not None
        if isinstance(error, (RowFault, DecodeError, LogError, StatementError)) and single:
            file = self.relay.file(place.file_no - self.history.base).path
            error.at(file=file, position=place, gtid=gtid_text(records[at])[0] or "ANONYMOUS")
        return error

    def phases(self) -> dict[str, float]:
        """Seconds: staging (beside the commits), waiting for it, writing files, committing."""
        found = {
            "stage_s": self._stage_seconds,
            "wait_s": self._wait_seconds,
            "write_s": self._writer.write_seconds,
            "commit_s": self._writer.commit_seconds,
        }
        return {name: round(value, 3) for name, value in found.items()}

    def close(self) -> None:
        self._lane.shutdown(wait=True, cancel_futures=True)
        shutil.rmtree(self.tracking.layout.staging, ignore_errors=True)
