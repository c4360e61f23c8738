"""Resume: what an applier that starts reads, in which order, and where it goes on (WL#3970).

1. The control table says on what the target stands: the newest cut, and a copy that no cut shows
   yet. A finished copy of some tables takes the applier back to the cut behind which it was begun,
   unless a statement changed one of them meanwhile (``copy_check``).
2. Each table's own log says its position: that is the truth. A table may be ahead of the cut, by
   the groups that were being committed when the last process ended.
3. The relay log is opened and told from other logs by the fingerprints of its files. If it is the
   one that was applied before, packed positions count; if not (``renewed``), its positions begin
   above all others. Where it holds the place of the source at which the cut stands (file and
   position, of the same file), it is applied from there; else GTIDs alone say what the target has.
4. The log must go on where the target stands: a gap, another server's log, or a log without GTIDs
   that can't be compared is a HistoryError, before anything is applied.
5. Applying begins behind the cut, for all tables. A table passes over what its own position, or
   with a renewed log its last commit's place of the source or GTID set, shows that it has; no cut
   is published until the others have it.

Nothing is written here but what the next start would find in the same way: that a copy was shown,
or can't be used, and the fingerprints of files.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...config.renaming import is_shared
from ...control.records.channels import channels
from ...control.records.copies import CatchUp, Copy, check_log, first_cut, note_shown, standing
from ...control.records.log_history import (
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
from ...relay.source_place import SourcePlace
from ...write.tables.table import versions
from ..log.applied_log import AppliedLog, LogView
from ..statements.stale_copy import changed_meanwhile, give_up_stale

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...write.tables.tracking import Tracking

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumePoint:
    """Where an applier goes on. ``executed``: what counts as applied, ``position``: the packed end
    of the last transaction that every table has; ``ahead``: where the tables are that a copy has
    not replaced (0: where all are); ``renewed``: the log is another one than before, so GTIDs alone
    count; ``by_hand``: XA branches that were ended by hand at ``position``; ``skip``: what somebody
    wants left out, ``absent``: the part of it that the log does not have, which counts as executed;
    ``cut``: the one that it goes on from, ``copy``: the one that no cut shows yet; ``shown``: what
    the newest cut holds; ``copies``: whether somebody copies tables that wait.
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
        """Up to there only copied tables are behind, and statements have been carried out."""
        return 0 if self.renewed else self.ahead

    @property
    def takes_in_a_copy(self) -> bool:
        """Whether it goes back, to bring copies of some tables to the others' place."""
        return bool(self.copy and self.copy.behind)


def resume(
    tracking: Tracking, relay_path: str, *, copies: bool = False, begin: Begin = NOWHERE
) -> tuple[AppliedLog, ResumePoint]:
    """Loads the tables, opens the log, and says where to go on. The caller owns the target.
    ``begin``: as ``check_beginning`` has it. Raises LogError, HistoryError, TargetError,
    SchemaError; FencedError when it doesn't.
    """
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
        history = replace(history, renewed=True)  # what it holds goes by GTID
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
    """Removes what a power failure has left of commits that no cut shows, and what names a
    checkpoint that it has taken. Raises TargetError, FencedError."""
    layout, control, shown = tracking.layout, tracking.control, dict[str, int]()
    used, remover = used_paths(control), Remover(control.check_owner)
    if any(map(is_shared, used)):  # the others' cuts show the same tables
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
    """Where a log is applied from: behind ``executed``, which ends at the packed ``position``.
    ``place``: what that is on the source, where it counts; ``by_place``: it alone does."""

    executed: GtidSet
    position: int = 0
    place: SourcePlace | None = None
    by_place: bool = False


def _begin(
    applied: AppliedLog, cut: Cut | None, begin: Begin, skip: GtidSet, *, copied: bool
) -> _Begin:
    """Raises HistoryError. Of a copy it is known by GTID alone what it holds."""
    relay, history, index = applied.relay, applied.history, applied.index
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
    """Return the point with what is left out, and what of it the log does not have."""
    if absent := skip.subtract(point.executed):
        absent = absent.subtract(applied.relay.previous_gtids()).subtract(applied.index.gtids())
    return replace(point, skip=skip, absent=absent)


def show_absent(point: ResumePoint, tracking: Tracking) -> None:
    """Publish the cut again, with the skipped transactions that the log does not have. No group
    might follow that shows them."""
    if point.absent and point.cut is not None and point.copy is None:
        executed, control = GtidSet.parse(point.cut.gtid_executed), tracking.control
        executed = executed.union(point.absent)
        control.publish(replace(point.cut, gtid_executed=str(executed)))


def show_copy(point: ResumePoint, applied: AppliedLog, tracking: Tracking) -> None:
    """Publishes a cut that shows the copy, where nothing has to be applied before: the source was
    idle meanwhile, and no transaction may come that would bring one."""
    copy, catch_up = point.copy, CatchUp(point.copy)
    if copy is None or point.ahead > point.position or catch_up.active(point.executed):
        return
    tables_now = versions(tracking.tables.items())
    shown = point.cut or first_cut(applied.relay, applied.history, point.executed, tables_now)
    waiting, tables = dict(tracking.waiting), dict(sorted(tables_now.items()))
    marks = tracking.quarantine_marks()
    shown = replace(shown, tables=tables, waiting=waiting, quarantined=marks)
    control = tracking.control
    control.publish(shown)
    catch_up.cut_published(control)
