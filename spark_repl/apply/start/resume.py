"""Resume: what a starting applier reads, in which order, and where it resumes (WL#3970).

1. The control table records the state of the target: the newest cut, and a copy that no cut shows
   yet. A finished copy of some tables takes the applier back to the cut after which the copy began,
   unless a statement changed one of the tables meanwhile (``stale_copy``).
2. Each table's own log records its position, which decides. A table may be ahead of the cut, by the
   groups that were being committed when the last process ended.
3. The relay log is opened and identified by the fingerprints of its files. If it is the log that
   was applied before, packed positions count. If it is another log (``renewed``), its positions
   begin above all others. If that log holds the source's place at the cut (file and position, of
   the same file), the applier begins at that place. Otherwise only GTIDs show what the target has.
4. The log must continue at the state of the target. A gap, another server's log, or a log without
   GTIDs that can't be compared is a HistoryError, before anything is applied.
5. Applying begins after the cut, for all tables. A table skips the transactions that its own
   position shows. With a renewed log, the source's place or the GTID set of its last commit shows
   them. No cut is published until the other tables also have these transactions.

This module writes only facts that the next start would find in the same way: that a copy was shown
or can't be used, and the fingerprints of files.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...config.renaming import is_shared
from ...control.records.channels import channels
from ...control.records.copies import CatchUp, Copy, check_log, first_cut, note_shown, standing
from ...control.records.log_identity import (
    NOWHERE,
    Begin,
    check_beginning,
    check_continuity,
    continues_at,
    indexed,
    is_anonymous,
    record,
    resolve,
)
from ...control.records.operator_decisions import skipped
from ...control.records.table_paths import used_paths
from ...delta.log.checkpoint_schedule import forget_lost
from ...delta.log.empty_commits import remove_empty_commits
from ...delta.store.remover import Remover
from ...gtid import GtidSet
from ...relay.log import read_while_purged
from ...relay.source_places import SourcePlace
from ...write.tables.table import versions
from ..applied.applied_log import AppliedLog, LogView
from ..statements.stale_copy import changed_meanwhile, give_up_stale

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...write.tables.tracking import Tracking

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumePoint:
    """The point at which an applier resumes.

    ``executed``: the GTIDs that count as applied. ``position``: the packed end of the last
    transaction that every table has. ``ahead``: the packed position of the tables that a copy has
    not replaced; 0 if all tables have the same position. ``renewed``: the log is a different one
    than before, so only GTIDs count.
    ``by_hand``: how many XA branches were ended by hand at ``position``. ``skip``: the GTIDs that
    the user wants to leave out. ``absent``: the part of ``skip`` that the log does not have, which
    counts as executed. ``cut``: the cut from which the applier resumes. ``copy``: the copy that no
    cut shows yet. ``shown``: the GTIDs of the newest cut. ``copies``: whether waiting tables are
    copied while the applier runs.
    """

    executed: GtidSet
    position: int = 0
    ahead: int = 0
    renewed: bool = False
    by_hand: int = 0
    skip: GtidSet = field(default_factory=GtidSet)
    absent: GtidSet = field(default_factory=GtidSet)
    cut: Cut | None = None
    copy: Copy | None = None
    shown: GtidSet = field(default_factory=GtidSet)
    copies: bool = False

    @property
    def replayed_to(self) -> int:
        """Return the packed position up to which only copied tables lag and statements have been
        executed."""
        return 0 if self.renewed else self.ahead

    @property
    def takes_in_a_copy(self) -> bool:
        """Return whether the applier goes back, to bring copies of some tables to the position of
        the others."""
        return bool(self.copy and self.copy.behind)


def resume(
    tracking: Tracking, relay_path: str, *, copies: bool = False, begin: Begin = NOWHERE
) -> tuple[AppliedLog, ResumePoint]:
    """Load the tables, open the log, and return it with the point at which to resume. The caller
    owns the target. ``begin``: see ``check_beginning``. Raise LogError, HistoryError, TargetError
    and SchemaError. Raise FencedError if the caller does not own the target."""
    control, layout = tracking.control, tracking.layout
    note_shown(control)
    stands, last = standing(control), control.last_cut()
    cut, copy = stands.begin, stands.copy
    _mend(tracking, [shown for shown in (cut, last) if shown])
    tracking.load(cut)
    highest = max(tracking.highest, last.position if last else 0)
    relay, (history, index) = read_while_purged(
        relay_path,
        lambda files: indexed(files, resolve(control, files, cut, highest), layout.index),
    )
    applied = AppliedLog(relay_path, layout.index, control, LogView(relay, history, index))
    begins = _begin(applied, cut, begin, skip := skipped(control), copied=copy is not None)
    executed, begun = begins.executed, begins.position
    record(control, history)
    if copy is not None and give_up_stale(copy, applied, tracking, copies=copies):
        return resume(tracking, relay_path, copies=copies, begin=begin)
    if history.renewed and (cut is not None or copy is None):
        tracking.find_ahead(cut, applied.start, begins.place, by_place=begins.by_place)
    if copy is not None and copy.behind is None:
        check_log(copy, executed, relay_path)
        executed = copy.start
        history = replace(history, renewed=True)  # GTIDs show what the copy holds
        applied = AppliedLog(relay_path, layout.index, control, LogView(relay, history, index))
        if copies:
            for name, why in changed_meanwhile(copy, applied, tracking).items():
                logger.warning("%s waits for a new copy: %s", name, why.reason)
                tracking.wait(name, why)
    elif cut is None and executed:
        logger.warning("the log begins in mid-history: %s counts as executed", executed)
    point = ResumePoint(
        executed,
        begun,
        ahead=stands.cut.position if stands.cut and stands.cut is not cut else 0,
        renewed=history.renewed,
        by_hand=(cut.counts or {}).get("by_hand", 0) if cut else 0,
        cut=cut,
        copy=copy,
        shown=GtidSet.parse(stands.cut.gtid_executed) if stands.cut else GtidSet(),
        copies=copies,
    )
    return applied, _with_skipped(point, skip, applied)


def _mend(tracking: Tracking, cuts: list[Cut]) -> None:
    """Remove the remains that a power failure left: of commits that no cut shows, and references to
    checkpoints that it destroyed. Raise TargetError and FencedError."""
    layout, control, shown = tracking.layout, tracking.control, dict[str, int]()
    used, remover = used_paths(control), Remover(control.check_owner)
    if any(map(is_shared, used)):  # cuts of other channels show the same tables
        other_cuts = (one.control.last_cut() for one in channels(layout.target))
        cuts = [*cuts, *filter(None, other_cuts)]
    for one in (one for cut in cuts for one in cut.tables.values()):
        folder = layout.table(one.path)
        shown[folder] = max(one.version, shown.get(folder, -1))
    for folder in sorted(set(map(layout.table, used))):
        forget_lost(folder, remover)
        remove_empty_commits(folder, shown.get(folder, -1), remover)


@dataclass(frozen=True)
class _Begin:
    """The place in a log from which it is applied: after ``executed``, which ends at the packed
    ``position``. ``place``: this place on the source, if it counts. ``by_place``: only the place
    counts."""

    executed: GtidSet
    position: int = 0
    place: SourcePlace | None = None
    by_place: bool = False


def _begin(
    applied: AppliedLog, cut: Cut | None, begin: Begin, skip: GtidSet, *, copied: bool
) -> _Begin:
    """Return where the log is applied from. Only GTIDs show what a copy holds. Raise HistoryError
    if the log does not continue the target."""
    view = applied.view
    relay, history, index = view.relay, view.history, view.index
    if cut is None and not copied:
        check_beginning(relay, index, applied.first_place(), begin)
    if history.renewed and not copied:
        if cut is None:
            anonymous = is_anonymous(index)
            return _Begin(relay.previous_gtids(), 0, applied.first_place(), anonymous)
        start = continues_at(applied.find, relay, index, cut)
        if start is not None:
            executed, place = GtidSet.parse(cut.gtid_executed), SourcePlace.of(cut.source)
            logger.warning("another relay log: it goes on at %s of the source", place)
            return _Begin(executed, start, place, True)
    executed = check_continuity(history, relay, index, cut, skip)
    return _Begin(executed, 0 if cut is None or history.renewed else cut.position)


def _with_skipped(point: ResumePoint, skip: GtidSet, applied: AppliedLog) -> ResumePoint:
    """Return the point with the GTIDs to leave out, and with the ones among them that the log
    lacks."""
    if absent := skip.subtract(point.executed):
        view = applied.view
        absent = absent.subtract(view.relay.previous_gtids()).subtract(view.index.gtids())
    return replace(point, skip=skip, absent=absent)


def show_absent(point: ResumePoint, tracking: Tracking) -> Cut | None:
    """Publish the cut again, with the skipped transactions that the log does not have. There may be
    no later group whose cut would show them. Return the published cut."""
    if not point.absent or point.cut is None or point.copy is not None:
        return None
    executed = GtidSet.parse(point.cut.gtid_executed).union(point.absent)
    control, cut = tracking.control, replace(point.cut, gtid_executed=str(executed))
    control.publish(cut)
    return cut


def show_copy(point: ResumePoint, applied: AppliedLog, tracking: Tracking) -> Cut | None:
    """Publish a cut that shows the copy, if nothing has to be applied before it. The source may be
    idle, so that no transaction would cause a cut. Return the published cut."""
    copy, catch_up = point.copy, CatchUp(point.copy)
    if copy is None or point.ahead > point.position or catch_up.active(point.executed):
        return None
    tables_now = versions(tracking.tables.items())
    view = applied.view
    shown = point.cut or first_cut(view.relay, view.history, point.executed, tables_now)
    waiting, tables = dict(tracking.waiting), dict(sorted(tables_now.items()))
    marks = tracking.quarantine_marks()
    shown = replace(shown, tables=tables, waiting=waiting, quarantined=marks)
    control = tracking.control
    control.publish(shown)
    catch_up.cut_published(control)
    return shown
