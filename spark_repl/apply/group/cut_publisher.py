"""CutPublisher: builds cuts, holds some of them back, and publishes them in the control table.

A cut shows all tables at one committed state of the source. There is one after a group when no
table is ahead of the low-water mark and no copy catches up. Cuts of statements that follow each
other are held back for a quarter of a second, and are then written together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...control.table.cut import Cut
from ...crash_points import reach
from ...gtid import format_gtid
from ...relay.record import gtid_text
from ...relay.source_places import SourcePlace
from ...schedule.group import BY_HAND_MAX, ByHand
from ...write.tables.table import versions

if TYPE_CHECKING:
    from ...control.records.copies import CatchUp
    from ...control.transaction_files.xa_store import XaStore
    from ...relay.xa_branches import Branch
    from ...runtime.retry import Retries
    from ...schedule.group import Group
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog
    from ..start.resume import ResumePoint
    from .low_water_mark import LowWaterMark

logger = logging.getLogger(__name__)

_HELD_BACK_S = 0.25
"""seconds after the last publication in which a cut may be held back"""
_HELD_BACK_MAX = 50
"""number of cuts that are held back at most"""


class CutPublisher:
    """Publishes the cuts of one applier's groups, one after the other.

    ``mark``: the low-water mark. ``last_cut``: the newest cut, also if it is held back.
    ``groups_after_cut``: the groups that were committed after it; None while a copy catches up,
    when groups are not recorded. ``held_back``: the last group whose cut is held back; writing its
    cut may be retried. ``on_published`` is called with each cut after it is published; it
    must return at once.
    """

    def __init__(
        self,
        mark: LowWaterMark,
        applied: AppliedLog,
        tracking: Tracking,
        store: XaStore,
        catch_up: CatchUp,
        point: ResumePoint,
        retries: Retries,
    ) -> None:
        self.mark, self._applied, self._tracking, self._store = mark, applied, tracking, store
        self._catch_up, self._retries = catch_up, retries
        self._control, self._make_durable = tracking.control, tracking.barrier
        self.on_published: Callable[[Cut], object] = bool
        self.held_back: Group | None = None
        self._held_back_count, self._published_at = 0, 0.0
        self._ended: list[Branch] = []  # XA branches that ended after the last published cut
        self.last_cut = point.cut
        self._published_to = point.cut.position if point.cut else 0
        self.groups_after_cut: list[Group] | None = [] if point.copy is None else None

    def cut_after(self, group: Group) -> Cut:
        """Return the cut after a group, without the versions of the tables. Raise the errors of
        reading the source's positions from the relay log."""

        def places() -> tuple[dict[str, Any], dict[str, Any]]:
            return self._applied.source_of(group.end), self._applied.source_before(group.start)

        end, begin = self._retries.run(places, slot=group.slot)
        return Cut(
            group.end,
            str(group.executed.union(group.gtids)),
            self._applied.view.history.log_id,
            end | {"commit_time": int(group.records["commit_time"][-1])},
            {},
            prepared=tuple(branch.to_json() for branch in group.xa.prepared),
            group_gtids=str(group.gtids),
            begin=begin,
        )

    def publish(
        self, group: Group, cut: Cut, transactions: int, *, still: bool, more: bool = False
    ) -> bool:
        """Publish the cut after a group that the mark has passed. Return False if there is no cut,
        because the tables do not show a single state of the source.

        ``still``: no table is being written. ``more``: a statement follows immediately, so its cut,
        or ``publish_held_back``, may publish this cut also. Raise what ``Control.publish`` raises.
        """
        self._ended += group.xa.ended
        tables = sorted(dict(self._tracking.tables).items())
        # After a crash a table may be ahead: until the others have caught up there is no cut.
        if not still or self.mark.lacks_cut(group.end, SourcePlace.of(cut.source)):
            self._keep_group(group, still=still)
            self._write_held_back(group.slot)
            return False
        cut = replace(
            cut,
            tables=versions(tables),
            counts={
                "transactions": transactions,
                "waves": group.waves,
                "by_hand": self.mark.ended_by_hand,
            },
            waiting=dict(self._tracking.waiting),
            quarantined=self._tracking.quarantine_marks(),
        )
        if more and self._may_hold_back():
            self._control.publish(cut, later=True)
            self._held_back_count += 1
            self._hold_back(group)
            self.last_cut, self.groups_after_cut = cut, []
            return True
        # If the answer to a write was lost, the cut is found and not written twice
        # (``Control.write``). Without the cut each table has its own position, and the next
        # group's cut shows them.
        reach("before_cut")
        self._publish(cut, group.slot)
        self.last_cut, self.groups_after_cut = cut, []
        self._forget_ended()
        reach("after_cut")
        return True

    def _keep_group(self, group: Group, *, still: bool) -> None:
        """Remember a group that no cut shows. While a copy catches up, remember none: that may be a
        million groups."""
        kept = self.groups_after_cut
        if kept is None or not still or self._catch_up.active(self.mark.executed):
            self.groups_after_cut = None
        else:
            self.groups_after_cut = [*kept, group]

    def _may_hold_back(self) -> bool:
        """Return whether the cut after a statement may wait for the next statement's cut."""
        fresh = time.monotonic() - self._published_at < _HELD_BACK_S
        needed = self._ended or self.mark.replayed_to or self._catch_up.active(self.mark.executed)
        return fresh and self._held_back_count < _HELD_BACK_MAX and not needed

    def publish_held_back(self) -> None:
        """Publish the cuts that were held back. Raise what ``Control.publish`` raises."""
        if self.held_back is not None:
            reach("before_cut")
            self._write_held_back(self.held_back.slot)
            reach("after_cut")

    def _write_held_back(self, slot: int) -> None:
        """Write the notes of names, and the cuts that were held back, up to ``last_cut``."""
        cut = self.last_cut if self.held_back is not None else None
        if cut is None:
            self._retries.run(self._control.write_pending, slot=slot)
            return
        self._write(self._control.write_pending, cut.position, slot)
        self._note_published(cut)

    def _write(self, write: Callable[[], None], position: int, slot: int) -> None:
        """Write cuts, the last of which is at ``position``, and hold the log from there on."""

        def attempt() -> None:
            self._applied.hold(position)
            write()

        self._retries.run(attempt, slot=slot)

    def _hold_back(self, group: Group | None) -> None:
        """Replace the group whose cut is held back, and end the retries of the previous one."""
        if self.held_back is not None:
            self._retries.counts.end(self.held_back.slot)
        self.held_back = group

    def _note_published(self, cut: Cut) -> None:
        """Note that the last cut is published, and none is held back any more."""
        self._hold_back(None)
        self._held_back_count, self._published_at = 0, time.monotonic()
        self._published_to = cut.position
        self.on_published(cut)

    def tables_ahead(self) -> dict[str, int]:
        """Return the tables that have more changes than the last published cut shows -> their
        packed positions."""
        tables = sorted(dict(self._tracking.tables).items())
        return {
            name: table.position for name, table in tables if table.position > self._published_to
        }

    def _forget_ended(self) -> None:
        """Remove the bytes of XA branches that have ended. If that fails now, it is tried again
        after the next cut, or at the next start."""
        try:
            self._store.forget(self._ended, self._make_durable)
            self._ended = []
        except OSError as error:
            count = len(self._ended)
            logger.warning("%d XA branches that have ended are kept: %s", count, error)

    def _publish(self, cut: Cut, slot: int) -> None:
        if self.mark.replayed_to:  # the cut shows the copy: no earlier one is needed again
            self._store.keep_ended(False)
            self.mark.replayed_to = 0
        self._write(lambda: self._control.publish(cut), cut.position, slot)
        self._retries.run(lambda: self._catch_up.cut_published(self._control), slot=slot)
        self._note_published(cut)

    def next_by_hand(self) -> ByHand | None:
        """Return the position for the next XA branch that is ended by hand. Return None if too many
        branches were already ended at this position, or while no cut can show it: the next start
        would then end the branch at a different position."""
        mark = self.mark
        at = ByHand(mark.position, mark.ended_by_hand, *self._last_transaction())
        waits = mark.lacks_cut(at.end, mark.place)
        return None if not mark.position or waits or mark.ended_by_hand == BY_HAND_MAX else at

    def _last_transaction(self) -> tuple[str, int]:
        """Return (GTID, commit time in microseconds) of the last transaction before the mark. If
        the log does not hold that transaction, return an executed one, and ("", 0) if there is
        none."""
        for record in self._applied.view.index.before(self.mark.position):
            if gtid := gtid_text(record)[0]:
                return gtid, int(record["commit_time"])
        committed_us = self.last_cut.source.get("commit_time", 0) if self.last_cut else 0
        for (uuid, tag), intervals in self.mark.executed.intervals.items():
            return format_gtid(uuid, tag, intervals[-1][1] - 1), committed_us
        return "", committed_us

    def has_begun(self, at: ByHand) -> bool:
        """Return whether a table already has rows of the branch that is ended by hand at position
        ``at``."""
        return any(table.position == at.end for table in self._tracking.tables.values())
