"""Groups: transactions that are committed together, and what the workers staged of them.

Both values are frozen: a group that is retried, shortened or split by table is another object.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..decode.cascade_detection import Cascades
from ..gtid import GtidSet
from ..position import RelayPosition
from ..relay.record import RECORD, Kind, gtid_name
from ..relay.xa_branches import Branch, XaGroup

if TYPE_CHECKING:
    from ..decode.stage_task import Staged

Records = npt.NDArray[Any]
Workers = npt.NDArray[np.int32]

# Kinds whose row events are applied. ROLLBACK transactions hold row events that had no effect.
WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE, Kind.XA_COMMIT)
XA_PARTS = (Kind.XA_PREPARE, Kind.XA_COMMIT, Kind.XA_ROLLBACK)
WITHOUT_ROWS = (Kind.EMPTY, Kind.ROLLBACK, Kind.XA_PREPARE, Kind.XA_ROLLBACK)


# The fields of a record that planning and committing a group need, wide ones first.
_FIELDS = ("position", "end", "length", "uncompressed", "commit_time", "gno", "kind", "flags")
# Records of a block that fits into the processor's cache.
_BLOCK = 4096


def columns_of(records: Records) -> dict[str, npt.NDArray[Any]]:
    """Return fields of index records [n], each as an array [n] of its own.

    A record has 128 bytes, in a mapped file. Reading one field of all records takes as long as
    reading all of their bytes. So the fields are copied block by block. The arrays share one
    buffer, because NumPy asks for large pages only from 4 MiB on. With small pages, their first
    touch takes as long as the copy.
    """
    n, at = len(records), 0
    types = {name: records.dtype[name] for name in _FIELDS}
    buffer = np.empty(n * sum(kind.itemsize for kind in types.values()), np.uint8)
    columns = dict[str, npt.NDArray[Any]]()
    for name, kind in types.items():
        columns[name] = buffer[at : at + n * kind.itemsize].view(kind)
        at += n * kind.itemsize
    for begin in range(0, n, _BLOCK):
        block = records[begin : begin + _BLOCK]
        for name, column in columns.items():
            column[begin : begin + _BLOCK] = block[name]
    return columns


def of_kinds(kind: npt.NDArray[np.uint8], kinds: Sequence[Kind]) -> npt.NDArray[np.bool_]:
    """Return bool[n]: which of the kinds [n] are among ``kinds``. ``np.isin`` takes longer."""
    kind = np.ascontiguousarray(kind)
    is_wanted = np.zeros(len(kind), np.bool_)
    for wanted in kinds:
        is_wanted |= kind == wanted
    return is_wanted


NO_SLOT = -1

BY_HAND_MAX = 50
"""XA branches that can be ended by hand at one position: fewer than any transaction has bytes"""


@dataclass(frozen=True)
class ByHand:
    """The position at which an XA branch is ended by hand: after one transaction of the log.

    ``position``: where that transaction ends (packed). ``gtid``: its GTID, "" if it has none.
    ``committed_us``: when the source committed it, in microseconds since 1970 UTC. ``number``: how
    many branches were ended by hand at the same position before.
    """

    position: int
    number: int
    gtid: str
    committed_us: int

    @property
    def end(self) -> int:
        """Return the position of tables that have the branch. It is before the end of any later
        transaction."""
        return self.position + 1 + self.number

    @property
    def place(self) -> int:
        """Return the position of the branch's rows, which no other transaction has. It is after the
        start of every earlier transaction and before the start of every later one."""
        return self.position - BY_HAND_MAX + self.number


@dataclass(frozen=True)
class Group:
    """Transactions that are committed together: index ``records`` [n], each one's ``wave`` [n] and
    the ``worker`` [n] that reads it.

    - ``columns``: fields of these records, from ``columns_of``.
    - ``last``: index, in the batch, of the transaction after the group.
    - ``slot``: the group's place in the commit order.
    - ``executed``: GTIDs of all transactions before the group.
    - ``idempotent``: tables in which missing rows and duplicate keys are not errors.
    - ``cascades``: the foreign keys that were known when the group was planned.
    - ``in_a_row``: the group is a statement, and the next transaction of the batch is one as well.
    - ``ended_by_hand``: where an XA branch is ended by hand, which no log ends. The group's only
      record then has the position of the branch's rows.
    """

    records: Records
    columns: Mapping[str, npt.NDArray[Any]]
    wave: npt.NDArray[np.int32]
    worker: Workers
    last: int
    slot: int = NO_SLOT
    executed: GtidSet = field(default_factory=GtidSet)
    idempotent: Container[str] = frozenset()
    xa: XaGroup = field(default_factory=XaGroup)
    cascades: Cascades = field(default_factory=Cascades)
    in_a_row: bool = False
    ended_by_hand: ByHand | None = None

    @classmethod
    def of(cls, records: Records, wave: npt.NDArray[np.int32], last: int) -> Group:
        """Return the group as the planner creates it, with all transactions for the first
        worker."""
        columns = columns_of(records)
        return cls(records, columns, wave, np.zeros(len(records), np.int32), last)

    @classmethod
    def of_branch(cls, branch: Branch, at: ByHand, xa: XaGroup, executed: GtidSet) -> Group:
        """Return the group of one XA COMMIT that is in no log, after everything up to ``at``."""
        record = np.zeros(1, RECORD)
        record["kind"], record["position"], record["end"] = Kind.XA_COMMIT, at.place, at.end
        record["length"], record["uncompressed"] = branch.size, branch.uncompressed
        record["commit_time"] = max(branch.prepared_at, at.committed_us)
        group = cls.of(record, np.zeros(1, np.int32), 0)
        return replace(group, xa=xa, executed=executed, ended_by_hand=at)

    @cached_property
    def shares(self) -> dict[int, str]:
        """Return the last transaction of each worker, by the worker's number."""
        backwards, end = self.worker[::-1], len(self.worker) - 1
        return {
            number: gtid_name(self.records[end - int(np.argmax(backwards == number))])
            for number in np.flatnonzero(np.bincount(self.worker)).tolist()
        }

    @property
    def start(self) -> int:
        by_hand = self.ended_by_hand
        return int(self.records["position"][0]) if by_hand is None else by_hand.position

    @property
    def gtids_by_hand(self) -> tuple[str, ...]:
        """Return the GTIDs of the rows of a branch that is ended by hand; () for a group of the
        log. They are (GTID of its XA PREPARE, GTID of the transaction before its end)."""
        if self.ended_by_hand is None:
            return ()
        return next(iter(self.xa.commits.values())).gtid, self.ended_by_hand.gtid

    @property
    def end(self) -> int:
        return int(self.records["end"][-1])

    @cached_property
    def uncompressed(self) -> int:
        """Return the bytes of the group's events, uncompressed."""
        return int(self.columns["uncompressed"].sum())

    @cached_property
    def waves(self) -> int:
        """Return the number of waves that have transactions in the group."""
        return 1 + int(np.count_nonzero(np.diff(self.wave)))  # they ascend

    @cached_property
    def with_rows(self) -> bool:
        return bool(self.records["kind"][0] in WITH_ROWS + WITHOUT_ROWS)

    @property
    def has_rows(self) -> bool:
        """Return whether workers may read it: rows, or a statement that logs rows as well."""
        return self.with_rows or bool(self.records["kind"][0] == Kind.DDL_ROWS)

    @cached_property
    def gtids(self) -> GtidSet:
        records = self.records
        return GtidSet.from_arrays(records["uuid"], self.columns["gno"], records["tag"])

    def of_rows(self) -> Group:
        """Return the group in which the rows of its statement (CREATE TABLE ... SELECT) count as
        those of a transaction."""
        records = self.records.copy()
        records["kind"] = Kind.ROWS
        return replace(self, records=records, columns=columns_of(records))

    def count_before(self, position: str | None) -> int:
        """Return how many transactions precede the transaction that contains ``position``
        (FILE:OFFSET)."""
        if position is None:
            return 0
        at = RelayPosition.parse(position).packed
        holds = (self.columns["position"] <= at) & (at < self.columns["end"])
        return int(np.argmax(holds))  # 0 as well when none does

    def first(self, count: int, xa: XaGroup) -> Group:
        """Return a group of the first ``count`` transactions, which have the effect ``xa`` on
        branches."""
        columns = {name: column[:count] for name, column in self.columns.items()}
        return replace(
            self, records=self.records[:count], columns=columns, wave=self.wave[:count],
            worker=self.worker[:count], xa=xa,
        )  # fmt: skip


@dataclass(frozen=True)
class StagedGroup:
    """A group after the workers have read it.

    ``by_worker``: what each worker staged. ``folder``: the folder of the staged files, None if all
    streams are in memory. ``already``: how many transactions some table already has.
    """

    group: Group
    by_worker: Sequence[Staged]
    folder: str | None = None
    already: int = 0

    @property
    def changes(self) -> int:
        """Return the number of row changes in the group."""
        return sum(sum(part.changes.values()) for part in self.by_worker)

    @property
    def changes_by_table(self) -> dict[str, int]:
        """Return the number of row changes of each table."""
        counts: dict[str, int] = {}
        for part in self.by_worker:
            for name, count in part.changes.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def cascading(self) -> dict[str, int]:
        """Return tables with changes that cascade without being logged -> position of the first
        one."""
        positions: dict[str, int] = {}
        for part in self.by_worker:
            for name, at in part.cascading.items():
                positions[name] = min(at, positions.get(name, at))
        return positions

    @property
    def tables(self) -> list[str]:
        """Return the tables that the group changes, sorted."""
        return sorted({name for part in self.by_worker for name in part.definitions})

    def of_table(self, table: str) -> StagedGroup:
        """Return the staged changes of one table.

        The result has no folder: the files still belong to the group.
        """
        staged = [
            replace(
                part,
                definitions={n: d for n, d in part.definitions.items() if n == table},
                parts=[piece for piece in part.parts if piece.table == table],
                changes={n: count for n, count in part.changes.items() if n == table},
            )
            for part in self.by_worker
        ]
        return replace(self, by_worker=staged, folder=None)
