"""Coordinator: transactions in, committed groups and cuts out, in the source's commit order.

The two phases of WL#3970 here: a group is *staged* (decoded and folded by the workers, nothing
visible), then written and committed table by table, then its cut is published. While one group
commits, the next is being staged; a group's first commit waits for the cut of the one before.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
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
    """``last``: the index, in its batch, of the transaction behind the group."""

    records: Records
    wave: np.ndarray
    last: int
    staged: Future[list[Staged]] | None = None
    already: int = 0
    folder: str | None = None

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
        wave, barrier = self._waves(records)
        group = self._group(records, wave, barrier, 0)
        while group is not None:
            if self.stopping:
                return
            self._begin(group)
            self._learn(group)
            ahead = self._group(records, wave, barrier, group.last)
            if ahead is not None:
                self._begin(ahead)
            self._finish(group)
            group = ahead

    def _waves(self, records: Records) -> tuple[np.ndarray, Mask]:
        """(wave of each transaction, which are barriers)."""
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
        return wave, barrier

    def _group(
        self, records: Records, wave: np.ndarray, barrier: Mask, first: int
    ) -> _Group | None:
        """The group that begins with transaction ``first``; None behind the last one."""
        if first == len(records):
            return None
        apply = self.config.apply
        limits = GroupLimits(
            apply.group_max_transactions, apply.group_max_rows, apply.group_max_bytes
        )
        most = slice(first, first + apply.group_max_transactions + 1)
        sizes = records["uncompressed"][most]
        last = first + int(groups(barrier[most], sizes, self._estimate.rows(sizes), limits)[1])
        return _Group(records[first:last], wave[first:last], last)

    def _learn(self, group: _Group) -> None:
        """Corrects the estimate before the next group is cut, by what this one was found to hold.
        It costs no time: one group is staged at a time."""
        if group.staged is None:
            return
        began = time.perf_counter()
        failed = group.staged.exception() is not None
        self._wait_seconds += time.perf_counter() - began
        if failed:
            return  # raised in its turn, by _finish
        changes = sum(sum(part.changes.values()) for part in group.staged.result())
        self._estimate = self._estimate.observe(int(group.records["uncompressed"].sum()), changes)

    def _begin(self, group: _Group) -> None:
        if group.records["kind"][0] in WITH_ROWS + WITHOUT_ROWS and group.staged is None:
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
            idempotent=self.config.apply.exec_mode == "idempotent",
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
        return found

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
            staged = group.staged.result()
            reach("staged")
            self._write(group, staged)
        except (RowFault, DecodeError, LogError) as fault:
            self._prefix(group, fault)
            raise
        if group.folder is not None:
            shutil.rmtree(group.folder, ignore_errors=True)
        self._publish(group, self._cut(group))

    def _write(self, group: _Group, staged: list[Staged]) -> None:
        cut = self._cut(group)
        for attempt in range(self.config.apply.transaction_retries + 1):
            try:
                changes = self._writer.write(staged, group.start, cut)
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
        part = _Group(group.records[keep], group.wave[keep], group.last)
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
        if all(table.position <= cut.position for table in tables.values()):
            versions = {name: table.version() for name, table in sorted(tables.items())}
            counts = {"transactions": len(group.records), "waves": len(np.unique(group.wave))}
            reach("before_cut")
            self.tracking.control.publish(
                Cut(cut.position, cut.gtid_executed, cut.log_id, cut.source, versions, None, counts)
            )
            reach("after_cut")
            counted.cuts += 1
        self.on_group(counted, cut.position)

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
