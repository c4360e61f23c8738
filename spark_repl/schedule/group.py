"""Group: transactions that are committed together, and what the workers made of them.

Both are frozen: a group that is tried again, cut short or split by table is another object.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..decode.seen_cascades import Cascades
from ..gtid import GtidSet
from ..position import RelayPosition
from ..relay.record import RECORD, Kind, gtid_name
from .branches import Branch, XaGroup

if TYPE_CHECKING:
    from ..decode.staged import Staged

Records = npt.NDArray[Any]
Workers = npt.NDArray[np.int32]

# Kinds whose row events are applied; ROLLBACK holds some that never happened.
WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE, Kind.XA_COMMIT)
XA_PARTS = (Kind.XA_PREPARE, Kind.XA_COMMIT, Kind.XA_ROLLBACK)
WITHOUT_ROWS = (Kind.EMPTY, Kind.ROLLBACK, Kind.XA_PREPARE, Kind.XA_ROLLBACK)

NO_SLOT = -1

BY_HAND_MAX = 50
"""how many XA branches can be ended by hand at one place: fewer than any transaction has bytes"""


@dataclass(frozen=True)
class ByHand:
    """Where an XA branch is ended by hand: after the transaction ``gtid`` ("" without one), which
    was committed at ``committed_us`` and ends at the packed ``position``. ``number``: how many
    branches were ended there before."""

    position: int
    number: int
    gtid: str
    committed_us: int

    @property
    def end(self) -> int:
        """The position that tables have then. It is before the end of any later transaction."""
        return self.position + 1 + self.number

    @property
    def place(self) -> int:
        """The position of the rows, which no other transaction has: after the beginning of every
        earlier transaction, before that of every later one."""
        return self.position - BY_HAND_MAX + self.number


@dataclass(frozen=True)
class Group:
    """``records`` [n] of the index with their ``wave`` [n] and the ``worker`` [n] that reads each.

    ``last``: the index, in its batch, of the transaction behind the group; ``slot``: its place in
    the commit order; ``executed``: all before the group; ``idempotent``: tables where missing rows
    and duplicate keys are no errors; ``cascades``: what was known of foreign keys; ``in_a_row``:
    it is a statement, and another one follows at once in the batch. ``ended_by_hand``: where an XA
    branch is ended that no log ends; its one record's position is the place of its rows.
    """

    records: Records
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
        """The group as the planner cuts it: shared out to nobody but the first worker."""
        return cls(records, wave, np.zeros(len(records), np.int32), last)

    @classmethod
    def of_branch(cls, branch: Branch, at: ByHand, xa: XaGroup, executed: GtidSet) -> Group:
        """One XA COMMIT that is in no log, after everything up to ``at``."""
        record = np.zeros(1, RECORD)
        record["kind"], record["position"], record["end"] = Kind.XA_COMMIT, at.place, at.end
        record["length"], record["uncompressed"] = branch.size, branch.uncompressed
        record["commit_time"] = max(branch.prepared_at, at.committed_us)
        group = cls.of(record, np.zeros(1, np.int32), 0)
        return replace(group, xa=xa, executed=executed, ended_by_hand=at)

    @cached_property
    def shares(self) -> dict[int, str]:
        """Worker -> the last transaction that it has."""
        workers, behind = np.unique(self.worker[::-1], return_index=True)
        last = len(self.worker) - 1 - behind
        return {int(k): gtid_name(self.records[i]) for k, i in zip(workers, last, strict=True)}

    @property
    def start(self) -> int:
        by_hand = self.ended_by_hand
        return int(self.records["position"][0]) if by_hand is None else by_hand.position

    @property
    def gtids_by_hand(self) -> tuple[str, ...]:
        """The GTIDs that rows of a branch have which is ended by hand: (that of its XA PREPARE,
        that of the transaction before its end); () for a group of the log."""
        if self.ended_by_hand is None:
            return ()
        return next(iter(self.xa.commits.values())).gtid, self.ended_by_hand.gtid

    @property
    def end(self) -> int:
        return int(self.records["end"][-1])

    @property
    def length(self) -> int:
        """Bytes of the log that hold it."""
        return int(self.records["length"].sum())

    @cached_property
    def waves(self) -> int:
        """How many waves it has transactions of."""
        return len(np.unique(self.wave))

    @property
    def with_rows(self) -> bool:
        return bool(self.records["kind"][0] in WITH_ROWS + WITHOUT_ROWS)

    @cached_property
    def gtids(self) -> GtidSet:
        records = self.records
        return GtidSet.from_arrays(records["uuid"], records["gno"], records["tag"])

    def of_rows(self) -> Group:
        """The rows of a statement that has some (CREATE TABLE ... SELECT), as those of a
        transaction."""
        records = self.records.copy()
        records["kind"] = Kind.ROWS
        return replace(self, records=records)

    def count_before(self, position: str | None) -> int:
        """How many transactions stand before the one that holds ``position`` (FILE:OFFSET)."""
        if position is None:
            return 0
        at = RelayPosition.parse(position).packed
        holds = (self.records["position"] <= at) & (at < self.records["end"])
        return int(np.argmax(holds))  # 0 as well when none does

    def first(self, count: int, xa: XaGroup) -> Group:
        """Its first ``count`` transactions, which do ``xa`` to branches."""
        return replace(
            self, records=self.records[:count], wave=self.wave[:count],
            worker=self.worker[:count], xa=xa,
        )  # fmt: skip

    def reads_as(self, other: Group) -> bool:
        """Whether having this one read has ``other`` read too."""
        return (
            self.records.tobytes() == other.records.tobytes()  # NumPy compares field by field
            and np.array_equal(self.wave, other.wave)
            and self.executed == other.executed
            and self.idempotent == other.idempotent
            and self.cascades == other.cascades
            and not other.xa.commits
        )


@dataclass(frozen=True)
class StagedGroup:
    """A group that the workers have read. ``by_worker``: what each found; ``folder``: its staged
    files, None where all are here; ``already``: transactions that some table has from before."""

    group: Group
    by_worker: Sequence[Staged]
    folder: str | None = None
    already: int = 0

    @property
    def changes(self) -> int:
        """How many row changes the group holds."""
        return sum(sum(part.changes.values()) for part in self.by_worker)

    @property
    def changes_by_table(self) -> dict[str, int]:
        """How many of each table."""
        counts: dict[str, int] = {}
        for part in self.by_worker:
            for name, count in part.changes.items():
                counts[name] = counts.get(name, 0) + count
        return counts

    @property
    def cascading(self) -> dict[str, int]:
        """Tables with changes that foreign keys carry on, unlogged -> position of the first."""
        positions: dict[str, int] = {}
        for part in self.by_worker:
            for name, at in part.cascading.items():
                positions[name] = min(at, positions.get(name, at))
        return positions

    @property
    def tables(self) -> list[str]:
        """The tables that the group changes, sorted."""
        return sorted({name for part in self.by_worker for name in part.definitions})

    def of_table(self, table: str) -> StagedGroup:
        """What was staged of one table. The files stay the whole group's: they have no folder."""
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
