"""QuarantineChanges: keeps the log's changes for a table that can't be followed.

Such a table does not change any more, while the other tables continue. Invariant: a table in
quarantine holds exactly what its own position shows. The kept changes are all that the log had for
the table between that position and the newest cut; later changes are in the log.

So a quarantine begins by going back to the last cut, as after a crash. The table's commits show
where the table is, whatever was staged or being committed. The applier applies the groups again, to
the tables that lack them.
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
"""bytes that a file takes at least"""
_KEEP_TABLES = (Policy.STOP, Policy.IGNORE_DROP)
_FULL = "raise apply.quarantine_max_bytes or apply.quarantine_max_transactions; or " + CURE


@dataclass(frozen=True)
class Final:
    """The newest cut, up to which changes were already kept. ``position``: packed.

    If the applier goes back to an earlier cut for a copy, changes up to this cut are not kept
    again.
    """

    position: int
    executed: GtidSet

    @classmethod
    def of(cls, newest: Cut | None) -> Final:
        if newest is None:
            return cls(-1, GtidSet())
        by_hand = (newest.counts or {}).get("by_hand", 0)
        return cls(newest.position + by_hand, GtidSet.parse(newest.gtid_executed))


def check_quarantine(logged: StatementEvent, tracking: Tracking) -> None:
    """Raise StatementError for a statement about a table in quarantine, because the kept changes
    belong to the table before that statement. A statement that drops the table ends the quarantine
    instead, unless the table's policy forbids the drop."""
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
    """Return whether a statement comes before the change that began a quarantine. The table had the
    statement by then, and the applier has gone back to an earlier cut since."""
    try:
        return logged.position < RelayPosition.parse(quarantine.position).packed
    except SparkReplError:  # the error had no position
        return False


@dataclass(frozen=True)
class Fault:
    """A change that can't be applied, and the path of its table.

    At the cut to which the applier goes back, the table may have another name, or may not exist
    yet.
    """

    error: SparkReplError
    path: str

    @property
    def place(self) -> tuple[str, str | None, str | None]:
        """Return a value that identifies this fault."""
        return self.path, self.error.position, self.error.gtid


class QuarantineChanges:
    """The changes for tables in quarantine. They are loaded at a start, together with the tables.
    Call ``keep`` for one group at a time, in order."""

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
        """Load the open quarantines, begin the one of ``fault``, and remove the files of ended
        ones. Raise OSError, TargetError and FormatError if kept changes can't be read. Raise
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
                self.store.clean(quarantine.id, self._final.position, tracking.barrier)
                self._tables.add(quarantine, mark := mark_of(self._newest, quarantine.path))
                self.store.kept(quarantine.id, mark.by_owner if mark else {})  # checks the files
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
        # A reset that was cut off may leave folders without rows in the control table.
        forgotten = {*self.store.numbers()}.difference(quarantine.id for quarantine in recorded)
        self.store.forget([*ended, *sorted(forgotten)], tracking.barrier)
        if fault is not None:
            self._begin(fault)

    def fault_of(self, error: SparkReplError, executed: GtidSet) -> Fault | None:
        """Return the fault of an error whose table can go into quarantine: a change that can never
        be applied because of its data. Return None for any other error, also for a change that a
        foreign key cascades, because it has no table of its own."""
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
        """Put the table of ``fault`` into quarantine, from the position that its commits show.
        Raise what ``Control.write`` raises."""
        error, name = fault.error, self._names.of(fault.error.table or "")
        tables = self._tracking.all_tables()
        table = next((table for table in tables if table.path == fault.path), None)
        if table is None:  # no cut had it: the log creates it again
            logger.warning("%s is not there any more: it is made again", name)
            return
        # Rows that don't fit need only the cure of any quarantine, and no hint of their own.
        hint = "" if isinstance(error, RowError) else error.hint or ""
        quarantine = Quarantine(
            "", name, table.path, table.position, error.message, error.number, error.gtid or "",
            error.position or "", hint,
        )  # fmt: skip
        self._tables.add(begin(self._control, quarantine))
        logger.error("%s is in quarantine from here on: %s", name, error)
        reach("quarantine_begun")

    def keep(self, staged: StagedGroup) -> None:
        """Keep the group's changes for tables in quarantine, before the cut after the group is
        published. The call may be repeated after a failure. Raise OSError and TargetError, and
        QuarantineError if a limit is exceeded."""
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
        # Count only after all are kept, so that a failed attempt counts nothing.
        for path, transactions in kept.items():
            self._tables.count(path, transactions)

    def _keep(
        self,
        quarantine: Quarantine,
        group: Group,
        chosen: np.ndarray,
        uncounted: Collection[KeptTransactions],
    ) -> KeptTransactions:
        """Keep the ``chosen`` transactions of a group. ``uncounted``: transactions of the group
        that were kept before and are not counted yet."""
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
        """Raise QuarantineError if a rule withholds values. Transactions are kept whole, and the
        user may have added the rule after the quarantine began."""
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
