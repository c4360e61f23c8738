"""QuarantineChanges: keeps what the log has for a table that can't be followed.

Such a table stands still, and the other tables go on. Invariant: a table in quarantine holds
exactly
what its own position says, and what is kept of it is all that the log had for it between that
position and the newest cut; after that cut the log has it. So a quarantine begins by going back to
the last cut, as after a crash: the table's commits say where it is, whatever was staged or being
committed, and the groups are applied again, to the tables that lack them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...control.records.quarantine import CURE, Quarantine, begin, end, mark_of, quarantines
from ...control.transaction_files.quarantine_store import QuarantineStore
from ...crash_points import reach
from ...delta.store.remover import Remover
from ...errors import (
    DecodeError,
    QuarantineError,
    RowError,
    SchemaError,
    SparkReplError,
    StatementError,
)
from ...gtid import GtidSet
from ...position import RelayPosition
from ...sql.policy import Policy
from ...sql.statement import Effect
from .statement_event import concerned

if TYPE_CHECKING:
    from ...config import Apply
    from ...control.records.copies import CatchUp
    from ...control.table.cut import Cut
    from ...control.transaction_files.quarantine_store import KeptTransactions
    from ...schedule.group import Group, Records, StagedGroup
    from ...write.tables.tracking import Tracking
    from .applied_log import AppliedLog
    from .statement_event import StatementEvent

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 4096
"""what a file takes at least"""
_KEEP_TABLES = (Policy.STOP, Policy.IGNORE_DROP)
_FULL = "raise apply.quarantine_max_bytes or apply.quarantine_max_transactions; or " + CURE


@dataclass(frozen=True)
class Final:
    """What the newest cut stands behind: what is kept up to there is not kept again, also where the
    applier goes back to an earlier cut, for a copy. ``position``: packed."""

    position: int
    executed: GtidSet

    @classmethod
    def of(cls, newest: Cut | None) -> Final:
        if newest is None:
            return cls(-1, GtidSet())
        by_hand = (newest.counts or {}).get("by_hand", 0)
        return cls(newest.position + by_hand, GtidSet.parse(newest.gtid_executed))


def check_quarantine(logged: StatementEvent, tracking: Tracking) -> None:
    """Raises StatementError for a statement about a table in quarantine: what is kept of it is of
    the table as it was before. One that removes it ends that, too; by its policy it may not."""
    still = tracking.quarantines()
    if not still:
        return
    statement = logged.statement
    filters = tracking.filters
    concerned_tables = concerned(statement, tracking.tables, filters.now.rewrites)
    names = [
        name for name in concerned_tables if name in still and not _is_past(still[name], logged)
    ]
    if statement.effect in (Effect.DROP_TABLE, Effect.DROP_DATABASE):
        names = [name for name in names if tracking.policy(name) in _KEEP_TABLES]
    if names:
        raise StatementError(
            f"{statement.verb} of a table whose changes are in quarantine since"
            f" {still[names[0]].since}: {logged.text}",
            table=", ".join(names),
            hint=CURE,
        )


def _is_past(quarantine: Quarantine, logged: StatementEvent) -> bool:
    """Return whether a statement stands before the change with which a quarantine began: the table
    had it by then, and the applier has gone back since, to a cut before it."""
    try:
        return logged.position < RelayPosition.parse(quarantine.position).packed
    except SparkReplError:  # the error named no position
        return False


@dataclass(frozen=True)
class Fault:
    """A change that can't be applied, and the path of its table, which may have another name, or
    no statement that made it, at the cut to which the applier goes back."""

    error: SparkReplError
    path: str

    @property
    def place(self) -> tuple[str, str | None, str | None]:
        """What tells it from others."""
        return self.path, self.error.position, self.error.gtid


class QuarantineChanges:
    """Loaded at a start, when the tables are. ``keep`` is for one group at a time, in order."""

    def __init__(
        self, apply: Apply, tracking: Tracking, applied: AppliedLog, catch_up: CatchUp
    ) -> None:
        self._apply, self._tracking, self._applied = apply, tracking, applied
        self._catch_up, self._control, layout = catch_up, tracking.control, tracking.layout
        self._names, self._tables = tracking.names, tracking.quarantine
        control = self._control
        remover = Remover(control.check_owner)
        self.store = QuarantineStore(layout.quarantine, layout.target, control.epoch, remover)
        self._newest = control.last_cut()
        self._final = Final.of(self._newest)

    def load(self, fault: Fault | None = None) -> None:
        """Takes up the quarantines that go on, and the one that ``fault`` begins; what is left of
        others goes. Raises OSError, TargetError and FormatError for what can't be read,
        FencedError."""
        control, tracking = self._control, self._tracking
        at = {table.path: table for table in tracking.all_tables()}
        recorded = quarantines(control)
        ended = [quarantine.id for quarantine in recorded if quarantine.ended]
        for quarantine in recorded:
            if quarantine.ended:
                continue
            table = at.get(quarantine.path)
            if table is not None and table.position <= quarantine.held_from:
                self.store.clean(quarantine.id, self._final.position, tracking.settle)
                self._tables.add(quarantine, mark := mark_of(self._newest, quarantine.path))
                self.store.kept(quarantine.id, mark.by_owner if mark else {})  # each file is whole
                logger.warning(
                    "%s is in quarantine since %s: %s",
                    quarantine.name,
                    quarantine.since,
                    quarantine.reason,
                )
                continue
            end(
                control,
                quarantine,
                "its changes are in the table" if table else "another table is there",
            )
            ended.append(quarantine.id)
        # A reset that was ended has left folders without rows.
        forgotten = {*self.store.numbers()}.difference(quarantine.id for quarantine in recorded)
        self.store.forget([*ended, *sorted(forgotten)], tracking.settle)
        if fault is not None:
            self._begin(fault)

    def fault_of(self, error: SparkReplError, executed: GtidSet) -> Fault | None:
        """A change that can't be applied, for good and by its data, which goes into quarantine with
        its table; None of any other: what foreign keys carry on has no table of its own."""
        if not error.table or not isinstance(error, (RowError, DecodeError, SchemaError)):
            return None
        if isinstance(error, DecodeError) and error.is_of_cascade:
            return None
        name, tracking = self._names.of(error.table), self._tracking
        table = tracking.live(name)
        if (
            table is None
            or not tracking.may_quarantine(name)
            or name in tracking.quarantines()
            or name in self._catch_up.copies(executed)
        ):
            return None
        return Fault(error, table.path)

    def _begin(self, fault: Fault) -> None:
        """Has the table of ``fault`` stand still from where its commits say that it is. Raises what
        ``Control.write`` raises."""
        error, name = fault.error, self._names.of(fault.error.table or "")
        tables = self._tracking.all_tables()
        table = next((table for table in tables if table.path == fault.path), None)
        if table is None:  # it was in no cut: the log makes it again
            logger.warning("%s is not there any more: it is made again", name)
            return
        # What to do about rows that don't fit is what to do about any quarantine.
        hint = "" if isinstance(error, RowError) else error.hint or ""
        quarantine = Quarantine(
            "", name, table.path, table.position, error.message, error.number, error.gtid or "",
            error.position or "", hint,
        )  # fmt: skip
        self._tables.add(begin(self._control, quarantine))
        logger.error("%s is in quarantine from here on: %s", name, error)
        reach("quarantine_begun")

    def keep(self, staged: StagedGroup) -> None:
        """Keeps what the group has for tables in quarantine, before a cut is published that stands
        behind it; may be called again when it has failed. Raises OSError, TargetError, and
        QuarantineError where it is too much."""
        quarantined: dict[str, list[np.ndarray]] = {}
        for part in staged.by_worker:
            for name, positions in part.quarantined.items():
                quarantined.setdefault(name, []).append(positions)
        if not quarantined:
            return
        still = self._tracking.quarantines()
        kept: dict[str, KeptTransactions] = {}
        for name in sorted(quarantined.keys() & still.keys()):
            quarantine, positions = still[name], np.unique(np.concatenate(quarantined[name]))
            chosen = np.searchsorted(staged.group.records["position"], positions)
            chosen = chosen[~self._has(staged.group.records[chosen])]
            if len(chosen):
                kept[quarantine.path] = self._keep(quarantine, staged.group, chosen, kept.values())
        # Only after all are kept: an attempt that fails counts nothing.
        for path, transactions in kept.items():
            self._tables.count(path, transactions)

    def _keep(
        self,
        quarantine: Quarantine,
        group: Group,
        chosen: np.ndarray,
        uncounted: Collection[KeptTransactions],
    ) -> KeptTransactions:
        """``uncounted``: what was kept of the group before, and is not counted yet."""
        self._check_shown_whole(quarantine)
        records, commits = group.records[chosen], group.xa.commits
        branches = {i: commits[at] for i, at in enumerate(chosen.tolist()) if at in commits}
        spans = self._applied.spans(records, branches)
        size = sum(int((span.ends - span.starts).sum()) for span in spans)
        size = max(size, _BLOCK_BYTES) + sum(transactions.bytes for transactions in uncounted)
        self._check_room(
            quarantine,
            len(records) + sum(len(transactions.sizes) for transactions in uncounted),
            size,
        )
        return self.store.keep(quarantine.id, spans, records)

    def _has(self, records: Records) -> np.ndarray:
        executed = self._final.executed
        shown = executed.contains_arrays(records["uuid"], records["gno"], records["tag"])
        return shown | (records["end"] <= self._final.position)

    def _check_shown_whole(self, quarantine: Quarantine) -> None:
        """A rule may have come behind the quarantine; transactions are kept whole."""
        rules = self._tracking.column_rules
        if (rule := rules.withholding) is not None:
            raise QuarantineError(
                f"transactions would be kept in the log's own bytes, and [[tables]] {rule.match}"
                f" withholds {rule.withheld}", table=quarantine.name,
                hint="take that rule back, or end the quarantine first: " + CURE,
            )  # fmt: skip

    def _check_room(self, quarantine: Quarantine, transactions: int, size: int) -> None:
        had, kept = self._tables.totals(self._tracking.tables)
        for what, most, now in (
            ("quarantine_max_bytes", self._apply.quarantine_max_bytes, kept + size),
            ("quarantine_max_transactions", self._apply.quarantine_max_transactions,
             had + transactions),
        ):  # fmt: skip
            if now > most:
                raise QuarantineError(
                    f"the quarantine would hold {now}: apply.{what} is {most}",
                    table=quarantine.name, position=quarantine.position or None,
                    gtid=quarantine.gtid or None, hint=_FULL,
                )  # fmt: skip
