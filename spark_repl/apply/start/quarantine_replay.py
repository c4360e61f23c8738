"""QuarantineReplay: ends the quarantines that the user has decided about, before anything else is
applied.

Exactly once: the kept changes come to the table in one commit, whose position is the newest cut's.
The applier applies the log after that cut. A table that has this commit is no longer in quarantine,
whatever a crash has left of the rest. A drop commits only the position.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...control.records.quarantine import DROP, ENDED, REPLAY, Quarantine, end, fail
from ...control.transaction_files.quarantine_store import check_whole
from ...crash_points import reach
from ...decode.folding import EveryTable, SomeTables
from ...errors import DecodeError, QuarantineError, RowError, SchemaError, about_table
from ...gtid import GtidSet
from ...relay.record import RECORD, Kind
from ...schedule.group import Group
from ...write.tables.table import versions
from ..group.stager import drop_staged

if TYPE_CHECKING:
    from ...config import Apply
    from ...control.table.cut import Cut
    from ...write.rows.group_writer import GroupWriter
    from ...write.tables.table import Table
    from ..group.stager import Stager
    from .resume import ResumePoint

logger = logging.getLogger(__name__)


class QuarantineReplay:
    """Replays and drops quarantines at a start, while nothing else is in progress."""

    def __init__(self, stager: Stager, writer: GroupWriter, apply: Apply) -> None:
        self._stager, self._writer = stager, writer
        self._tracking, self._store = stager.tracking, stager.quarantining.store
        self._control, self._commits = stager.tracking.control, stager.tracking.commits
        self._tables = stager.tracking.quarantine
        every = apply.exec_mode == "idempotent"
        some = SomeTables.of((), stager.tracking.without_history())
        self._idempotent: Container[str] = EveryTable(()) if every else some

    def carry_out(self, point: ResumePoint) -> ResumePoint:
        """Return the point at which the applier resumes, with a cut that marks only tables that are
        still in quarantine. A quarantine whose replay fails stays, and records the reason. Raise
        OSError, TargetError and FencedError."""
        cut, newest = point.cut, self._control.last_cut()
        still = self._tracking.quarantines()
        decided = {name: quarantine for name, quarantine in still.items() if quarantine.asked}
        if cut is None or newest is None or cut.position != newest.position:
            if decided:  # only after the newest cut nothing is kept
                logger.warning("%s: decided while a copy is taken in: at the next start", *decided)
            return point
        ended = [self._end(cut, point.by_hand, *item) for item in sorted(decided.items())]
        point = self._unmarked(point, cut)
        for quarantine in filter(None, ended):
            end(self._control, quarantine, ENDED[quarantine.asked])
        ended_ids = [quarantine.id for quarantine in ended if quarantine]
        self._store.forget(ended_ids, self._tracking.barrier)
        return point

    def _end(self, cut: Cut, by_hand: int, name: str, quarantine: Quarantine) -> Quarantine | None:
        """Return the quarantine if it has ended, else None."""
        table = self._tracking.tables[name]
        if name != quarantine.name and quarantine.asked == REPLAY:
            fail(
                self._control,
                quarantine,
                f"the table is {name} now, and the log says {quarantine.name}",
            )
            return None
        after = replace(cut, position=cut.position + by_hand, group_gtids="", begin=cut.source)
        if table.position < after.position:  # else nothing is kept: the log has all
            if quarantine.asked == DROP:
                self._position(table, after)
                self._commits.has_other_keys(table, table.snapshot.version)
            elif not self._replay(quarantine, table, after):
                return None
        reach("quarantine_replayed")
        self._tables.drop(quarantine.path)
        logger.warning("%s is in quarantine no more: %s", name, ENDED[quarantine.asked])
        return quarantine

    def _replay(self, quarantine: Quarantine, table: Table, cut: Cut) -> bool:
        """Apply the kept changes to the table. Return whether the table has all of them."""
        try:
            owners = self._tables.owners(quarantine.path)
            kept = self._store.kept(quarantine.id, owners)
            check_whole(quarantine.name, kept, owners)
            spans = [
                span for each in kept for span, _ in each.spans(self._stager.local_copy(each.path))
            ]
            staged = self._stager.stage_table(self._group(table, cut), quarantine.name, spans)
            try:
                self._writer.write(staged, cut, begins=_nothing, checked=_nothing)
            finally:
                drop_staged(staged)
        except (RowError, DecodeError, SchemaError, QuarantineError) as error:
            logger.error("%s stays in quarantine: %s", quarantine.name, error)
            self._tables.replace(fail(self._control, quarantine, str(error)))
            return False
        self._position(table, cut)  # if the changes leave all rows as they were
        return True

    def _group(self, table: Table, cut: Cut) -> Group:
        """Return the kept changes as a group of one transaction."""
        record = np.zeros(1, RECORD)
        record["kind"], record["position"], record["end"] = Kind.ROWS, table.position, cut.position
        group = Group.of(record, np.zeros(1, np.int32), 0)
        executed = GtidSet.parse(cut.gtid_executed)
        return replace(group, executed=executed, idempotent=self._idempotent)

    def _position(self, table: Table, cut: Cut) -> None:
        """Commit only a position, if the table is not at that position yet."""
        commits = self._commits
        with table.lock:
            commits.refresh(table)
            if table.position < cut.position:
                stamp = self._tracking.stamp(cut)
                with about_table(table.name):
                    version = commits.delta.commit(table.snapshot, [], stamp)
                commits.record_commit(table, [], cut.position, version)

    def _unmarked(self, point: ResumePoint, cut: Cut) -> ResumePoint:
        """Publish the cut again if it marks tables that are no longer in quarantine. These tables
        are as the source had them at the cut."""
        tracking = self._tracking
        marked = cut.quarantined.keys() - tracking.quarantines().keys()
        tables = {name: tracking.tables[name] for name in marked if name in tracking.tables}
        last = cut.position + point.by_hand
        mended = versions(
            (name, table)
            for name, table in tables.items()
            if table.path == cut.tables[name].path and table.position == last
        )
        if not mended:
            return point
        marks = {name: why for name, why in cut.quarantined.items() if name not in mended}
        cut = replace(cut, tables={**cut.tables, **mended}, quarantined=marks)
        self._control.publish(cut)
        return replace(point, cut=cut)


def _nothing() -> None:
    """Do nothing: a replay needs no call."""
