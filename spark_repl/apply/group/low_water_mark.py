"""LowWaterMark: up to where every table has everything, and the cuts that are published there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...control.cut import Cut
from ...crash_points import reach
from ...gtid import format_gtid
from ...relay.record import gtid_text
from ...relay.source_place import SourcePlace
from ...schedule.due import copied, left_out
from ...schedule.group import BY_HAND_MAX, ByHand
from ...write.tables.table import versions

if TYPE_CHECKING:
    from ...control.copies import CatchUp
    from ...control.xa_store import XaStore
    from ...runtime.retry import Retries
    from ...schedule.branches import Branch
    from ...schedule.group import Group, Records
    from ...write.tables.tracking import Tracking
    from ..log.applied_log import AppliedLog
    from ..start.resume import ResumePoint

log = logging.getLogger(__name__)

# Cuts of statements that follow each other are held back for so many seconds, and so many of them.
_HELD_BACK_S, _HELD_BACK_MOST = 0.25, 50


class LowWaterMark:
    """Moves over whole groups, in log order. ``executed``: all that is in the tables, ``position``:
    packed end of the last transaction that every table has; ``cut_before``: the last cut,
    ``behind_cut``: the groups behind it, None while a copy catches up and nobody keeps them;
    ``held_back``: the last group whose cut is held back: its way has not ended."""

    def __init__(
        self,
        log: AppliedLog,
        tracking: Tracking,
        store: XaStore,
        catch_up: CatchUp,
        point: ResumePoint,
        retries: Retries,
    ) -> None:
        self._log, self._tracking, self._store = log, tracking, store
        self._catch_up, self._retries = catch_up, retries
        self._control, self._settle = tracking.control, tracking.settle
        self.executed, self.position = point.executed.union(point.absent), point.position
        self._shown = point.shown
        # Another log may have brought them, also where a cut was published in this one since.
        self._before = point.executed
        self._held_count, self._published = 0, 0.0
        self.held_back: Group | None = None
        self._replayed_to, self._by_hand = point.replayed_to, point.by_hand
        self._ended: list[Branch] = []  # since the last cut
        self.cut_before = point.cut
        self._shown_to = point.cut.position if point.cut else 0
        self.behind_cut: list[Group] | None = [] if point.copy is None else None

    @property
    def place(self) -> SourcePlace | None:
        """Where it stands on the source."""
        if not self.position:
            return None
        return SourcePlace.of(self._retries.run(lambda: self._log.source_of(self.position)))

    def behind(self, records: Records) -> Records:
        """The records that lie behind the mark."""
        return records[int(np.searchsorted(records["end"], self.position, "right")) :]

    def not_there(self, records: Records) -> Records:
        """The records, those made empty that all tables have by other ways: from another log, or
        from a copy. Statements that were carried out before stay: they say what names mean."""
        records, _ = left_out(records, self._before)  # they take their slots, and change nothing
        return copied(records, self._catch_up.copied)

    def count(self, group: Group) -> int:
        """How many transactions of the group the tables did not have."""
        records = group.records
        had = left_out(records, self._before)[1]
        had += int(np.count_nonzero(records["end"] <= self._replayed_to))
        return len(records) - had

    def end_by_hand(self) -> ByHand | None:
        """Return where the next XA branch is ended by hand. None where too many were ended at this
        place, and while no cut can show it: the next start would end it at another place again."""
        at = ByHand(self.position, self._by_hand, *self._last())
        waits = self._lacks_cut(at.end, self.place)
        return None if not self.position or waits or self._by_hand == BY_HAND_MAX else at

    def _lacks_cut(self, end: int, place: SourcePlace | None) -> bool:
        """Return whether the tables are of no one state of the source at ``end``: a copy catches
        up, a table is ahead after a crash, or the newest cut is later, as the applier went back."""
        if self._catch_up.active(self.executed) or not self._shown.issubset(self.executed):
            return True
        return self._tracking.is_ahead(end, self.executed, place)

    def _last(self) -> tuple[str, int]:
        """Return (GTID, commit time) of the last transaction before the mark. Where the log does
        not hold it, one of those that are executed stands for it: ("", 0) without any."""
        for record in self._log.index.before(self.position):
            if gtid := gtid_text(record)[0]:
                return gtid, int(record["commit_time"])
        committed_us = self.cut_before.source.get("commit_time", 0) if self.cut_before else 0
        for (uuid, tag), intervals in self.executed.intervals.items():
            return format_gtid(uuid, tag, intervals[-1][1] - 1), committed_us
        return "", committed_us

    def has_begun(self, at: ByHand) -> bool:
        """Return whether some table has what lands there."""
        return any(table.position == at.end for table in self._tracking.tables.values())

    def cut(self, group: Group) -> Cut:
        """What a cut behind the group says, without the tables' versions. Where that is on the
        source a received log says itself: raises what reading it does."""

        def places() -> tuple[dict[str, Any], dict[str, Any]]:
            return self._log.source_of(group.end), self._log.source_before(group.start)

        end, begin = self._retries.run(places, slot=group.slot)
        return Cut(
            group.end,
            str(group.executed.union(group.gtids)),
            self._log.history.log_id,
            end | {"commit_time": int(group.records["commit_time"][-1])},
            {},
            prepared=tuple(branch.to_json() for branch in group.xa.prepared),
            group_gtids=str(group.gtids),
            begin=begin,
        )

    def advance(
        self, group: Group, cut: Cut, transactions: int, *, still: bool, more: bool = False
    ) -> bool:
        """Whether there is a cut behind the group: the tables are all of one state of the source.

        ``still``: no table is being written; ``more``: a statement follows at once, whose cut, or
        ``publish_held_back``, may publish this one too. Raises what publishing a cut does.
        """
        self.executed, self.position = self.executed.union(group.gtids), cut.position
        self._ended += group.xa.ended
        # Ended by hand: rows land behind the cut's position.
        self._by_hand = self._by_hand + 1 if cut.position < group.end else 0
        tables = sorted(dict(self._tracking.tables).items())
        # After a crash a table may be ahead: until the others have caught up there is no cut.
        if not still or self._lacks_cut(group.end, SourcePlace.of(cut.source)):
            # A copy that catches up may take a million groups.
            copied = self._catch_up.active(self.executed)
            kept = None if copied or not still else self.behind_cut
            self.behind_cut = None if kept is None else [*kept, group]
            self._write_held_back(group.slot)
            return False
        counts = {
            "transactions": transactions,
            "waves": group.waves,
            "by_hand": self._by_hand,
        }
        waiting = dict(self._tracking.waiting)
        marks = self._tracking.quarantine_marks()
        cut = replace(
            cut, tables=versions(tables), counts=counts, waiting=waiting, quarantined=marks
        )
        if more and self._may_hold_back():
            self._control.publish(cut, later=True)
            self._held_count += 1
            self._hold(group)
            self.cut_before, self.behind_cut = cut, []
            return True
        # A cut whose answer was lost is found, not written twice (``Control.write``); without it
        # the tables have their positions themselves, and the next group's shows them.
        reach("before_cut")
        self._publish(cut, group.slot)
        self.cut_before, self.behind_cut = cut, []
        self._forget()
        reach("after_cut")
        return True

    def _may_hold_back(self) -> bool:
        """Whether the cut behind a statement may come with that of the next one."""
        fresh = time.monotonic() - self._published < _HELD_BACK_S
        needed = self._ended or self._replayed_to or self._catch_up.active(self.executed)
        return fresh and self._held_count < _HELD_BACK_MOST and not needed

    def publish_held_back(self) -> None:
        """Publishes the cuts that were held back. Raises what publishing a cut does."""
        if self.held_back is not None:
            reach("before_cut")
            self._write_held_back(self.held_back.slot)
            reach("after_cut")

    def _write_held_back(self, slot: int) -> None:
        """Writes names' notes, and the cuts that were held back, up to ``cut_before``."""
        shown = self.cut_before if self.held_back is not None else None
        if shown is None:
            self._retries.run(self._control.write_held_back, slot=slot)
            return
        self._write(self._control.write_held_back, shown.position, slot)
        self._show(shown.position)

    def _write(self, write: Callable[[], None], position: int, slot: int) -> None:
        """Writes cuts, of which the last is at a position: the log is held from there on."""

        def attempt() -> None:
            self._log.hold(position)
            write()

        self._retries.run(attempt, slot=slot)

    def _hold(self, group: Group | None) -> None:
        """The last group whose cut is held back is another one, or none: the one before needs no
        retries any more."""
        if self.held_back is not None:
            self._retries.end(self.held_back.slot)
        self.held_back = group

    def _show(self, position: int) -> None:
        """Nothing is held back any more; the last cut that is published is at a position."""
        self._hold(None)
        self._held_count, self._published, self._shown_to = 0, time.monotonic(), position

    def lacking(self, tables: Iterable[str], position: int) -> list[str]:
        """Those of the tables that have not what lies before the packed position."""
        known = self._tracking.tables
        return [name for name in tables if name not in known or known[name].position < position]

    def ahead(self) -> dict[str, int]:
        """The tables that hold more than the last published cut shows -> their packed positions."""
        tables = sorted(dict(self._tracking.tables).items())
        return {name: one.position for name, one in tables if one.position > self._shown_to}

    def _forget(self) -> None:
        """Bytes that can't be removed now are removed behind the next cut, or at the next start."""
        try:
            self._store.forget(self._ended, self._settle)
            self._ended = []
        except OSError as error:
            log.warning("%d XA branches that have ended are kept: %s", len(self._ended), error)

    def _publish(self, cut: Cut, slot: int) -> None:
        if self._replayed_to:  # it shows the copy: no earlier one is needed again
            self._store.keep_ended(False)
            self._replayed_to = 0
        self._write(lambda: self._control.publish(cut), cut.position, slot)
        self._retries.run(lambda: self._catch_up.cut_published(self._control), slot=slot)
        self._show(cut.position)
