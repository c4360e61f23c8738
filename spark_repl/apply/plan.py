"""Plan: where groups begin and end, which worker re-reads which spans, what a table already has."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from ..config import Apply
from ..control.history import History
from ..decode.cascades import Cascades
from ..decode.stage import Span, Staged, StageTask
from ..errors import SparkReplError
from ..gtid import GtidSet
from ..position import OFFSET_BITS, RelayPosition
from ..relay.index import RECORD, Kind, gtid_name
from ..relay.log import RelayLog
from ..schedule.branches import Branch, XaGroup
from ..schedule.waves import GroupLimits, RowEstimate, assign, first_group, waves

Records = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# Kinds whose row events are applied; ROLLBACK holds some that never happened.
WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE, Kind.XA_COMMIT)
XA_PARTS = (Kind.XA_PREPARE, Kind.XA_COMMIT, Kind.XA_ROLLBACK)
WITHOUT_ROWS = (Kind.EMPTY, Kind.ROLLBACK, Kind.XA_PREPARE, Kind.XA_ROLLBACK)


@dataclass
class Log:
    """The log that is applied, as it is known now: both are replaced when it has grown."""

    relay: RelayLog
    history: History

    @property
    def base(self) -> int:
        return self.history.base


@dataclass
class Group:
    """Transactions that are committed together. ``last``: the index, in its batch, of the one
    behind the group; ``slot``: its place in the commit order; ``folder``: its staged
    files; ``idempotent``: tables where missing rows and duplicate keys are no errors;
    ``executed``: all before the group; ``tables``: the only ones to be written (None: all);
    ``worker`` [n]: who has each transaction; ``cascades``: what was known of foreign keys."""

    records: Records
    wave: npt.NDArray[np.int32]
    last: int
    slot: int = -1
    staged: Future[list[Staged]] | None = None
    already: int = 0
    folder: str | None = None
    xa: XaGroup = field(default_factory=XaGroup)
    idempotent: Container[str] = frozenset()
    executed: GtidSet = field(default_factory=GtidSet)
    tables: frozenset[str] | None = None
    worker: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    cascades: Cascades = field(default_factory=Cascades)
    writing: Event = field(default_factory=Event)
    """set when its files begin to be written, or never will be"""

    def __post_init__(self) -> None:
        if not len(self.worker):
            self.worker = np.zeros(len(self.records), np.int32)

    @property
    def shares(self) -> dict[int, str]:
        """Worker -> the last transaction that it has."""
        workers, behind = np.unique(self.worker[::-1], return_index=True)
        last = len(self.worker) - 1 - behind
        return {int(k): gtid_name(self.records[i]) for k, i in zip(workers, last, strict=True)}

    @property
    def start(self) -> int:
        return int(self.records["position"][0])

    @property
    def end(self) -> int:
        return int(self.records["end"][-1])

    @property
    def with_rows(self) -> bool:
        return bool(self.records["kind"][0] in WITH_ROWS + WITHOUT_ROWS)

    @property
    def gtids(self) -> GtidSet:
        found = self.records
        return GtidSet.from_arrays(found["uuid"], found["gno"], found["tag"])


@dataclass(frozen=True)
class Batch:
    """Records [n] with their waves [n]; ``barrier`` [n]: applied alone, in a group of their own."""

    records: Records
    wave: npt.NDArray[np.int32]
    barrier: Mask
    warnings: list[str]


def branch_group(branch: Branch, position: int, end: int, xa: XaGroup) -> Group:
    """A group of one XA COMMIT that is in no log, behind everything up to ``position``."""
    record = np.zeros(1, RECORD)
    record["kind"], record["position"], record["end"] = Kind.XA_COMMIT, position, end
    record["length"], record["uncompressed"] = branch.size, branch.uncompressed
    record["commit_time"] = branch.prepared_at
    return Group(record, np.zeros(1, np.int32), 0, xa=xa)


class Planner:
    """Cuts batches into groups, bounded by what the groups before were found to hold."""

    def __init__(self, apply: Apply) -> None:
        self._limits = GroupLimits(
            apply.group_max_transactions, apply.group_max_rows, apply.group_max_bytes
        )
        self._estimate = RowEstimate()

    def batch(self, records: Records) -> Batch:
        barrier = ~np.isin(records["kind"], WITH_ROWS + WITHOUT_ROWS)
        wave, found = waves(
            records["position"] >> OFFSET_BITS,
            records["last_committed"],
            records["sequence_number"],
            barrier,
        )
        warnings = [
            f"{text} [position {RelayPosition.unpack(int(records['position'][at]))}]"
            for at, text in found
        ]
        return Batch(records, wave, barrier, warnings)

    def group(self, batch: Batch, first: int) -> Group | None:
        """The group that begins with transaction ``first``; None behind the last one."""
        if first == len(batch.records):
            return None
        most = slice(first, first + 2 * self._limits.transactions)
        barrier, sizes = batch.barrier[most], batch.records["uncompressed"][most]
        rows = self._estimate.rows(sizes)
        last = first + first_group(barrier, sizes, rows, self._limits)
        return Group(batch.records[first:last], batch.wave[first:last], last)

    def observe(self, group: Group, changes: int) -> None:
        """Corrects the estimate by the row changes that a group was found to hold."""
        size = int(group.records["uncompressed"].sum())
        self._estimate = self._estimate.observe(size, changes)


def changed(staged: Iterable[Staged]) -> int:
    """Row changes."""
    return sum(sum(part.changes.values()) for part in staged)


def same_group(one: Group, other: Group) -> bool:
    """Whether staging ``one`` has staged ``other`` too."""
    return (
        len(one.records) == len(other.records)
        and one.records.tobytes() == other.records.tobytes()  # NumPy compares field by field
        and np.array_equal(one.wave, other.wave)
        and one.executed == other.executed
        and one.idempotent == other.idempotent
        and one.cascades == other.cascades
        and not other.xa.commits
    )


def count_before(records: Records, position: str | None) -> int:
    """How many records stand before the one that holds ``position`` (FILE:OFFSET)."""
    if position is None:
        return 0
    at = RelayPosition.parse(position).packed
    holds = (records["position"] <= at) & (at < records["end"])
    return int(np.argmax(holds))  # 0 as well when none does


def placed(error: SparkReplError, relay: RelayLog, base: int, record: Any) -> SparkReplError:
    """The error with the file, position and GTID of a record's transaction."""
    place = RelayPosition.unpack(int(record["position"]))
    return error.at(
        file=relay.file(place.file_no - base).path, position=place, gtid=gtid_name(record)
    )


def share_out(records: Records, wave: npt.NDArray[np.int32], workers: int) -> npt.NDArray[np.int32]:
    """int32[n]: the worker of each transaction; the first has those without rows."""
    found = np.zeros(len(records), np.int32)
    holds = np.isin(records["kind"], WITH_ROWS)
    found[holds] = assign(wave[holds], records["length"][holds], workers)
    return found


def stage_tasks(
    log: RelayLog,
    base: int,
    records: Records,
    worker: npt.NDArray[np.int32],
    skip: Mapping[str, Mask],
    commits: Mapping[int, Branch] = {},
    **options: Any,
) -> list[StageTask]:
    """One task per worker that has rows. ``records`` and ``worker`` [n], ``skip`` masks [n].
    ``commits``: the branch of each XA COMMIT, by its index."""
    holds = np.flatnonzero(np.isin(records["kind"], WITH_ROWS))
    records, worker = records[holds], worker[holds]
    skip = {table: mask[holds] for table, mask in skip.items()}
    branches = {i: commits[at] for i, at in enumerate(holds.tolist()) if at in commits}
    file_no = records["position"] >> OFFSET_BITS
    file_no[list(branches)] = -1 - np.array(list(branches), np.int64)  # each lies somewhere else
    tasks = []
    for number in np.unique(worker).tolist():
        mine = np.flatnonzero(worker == number)
        spans = tuple(
            _branch_span(branches[int(part[0])], records[part[0]])
            if file_no[part[0]] < 0
            else _span(log, base, records[part])
            for part in np.split(mine, np.flatnonzero(np.diff(file_no[mine])) + 1)
            if len(part)
        )
        if spans:
            done = {table: mask[mine] for table, mask in skip.items() if mask[mine].any()}
            tasks.append(StageTask(number, spans, skip=done, **options))
    return tasks


def _span(log: RelayLog, base: int, records: Records) -> Span:
    file_no = int(records["position"][0] >> OFFSET_BITS)
    return Span.of(log.file(file_no - base).path, file_no, records)


def _branch_span(branch: Branch, record: Any) -> Span:
    return Span(
        branch.path,
        branch.position >> OFFSET_BITS,
        np.array([branch.start], np.int64),
        np.array([branch.end], np.int64),
        np.array([branch.compressed]),
        branch.checksum,
        np.array([record["position"]], np.int64),
    )
