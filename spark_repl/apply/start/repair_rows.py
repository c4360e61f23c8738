"""RowRepairs: commits rows that were read from the source to their table, between two groups.

Invariant: the rows of some keys were read after the source had shown all of the cut ``behind``, and
before it had executed more than ``until``. The tables are now at a cut that holds ``until``, and no
transaction between the two cuts concerns one of the keys. Then the source had these rows at each
moment between the cuts, so the table must have them at the later cut. The applier commits them
unchanged at that cut, and then applies the log as usual.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from py4j.protocol import Py4JNetworkError

from ...crash_points import reach
from ...decode.metadata_values import Commits
from ...errors import (
    ConcurrentChangeError,
    FencedError,
    FormerOwnerError,
    JvmEndedError,
    RowsFailed,
    RowsOutdated,
    RowsRefused,
    Stopped,
)
from ...gtid import GtidSet
from ...relay.record import Kind, gtid_name
from ...relay.source_places import SourcePlace
from ...rules.column_rules import masked_otherwise
from ...runtime.retry import disk_full, first_line, temporary
from ...schedule.group import WITHOUT_ROWS, Group, of_kinds
from ...write.rows.certain_rows import TouchTask, key_of, touches
from ...write.rows.row_repair import RowRepair, RowsToRepair
from ...write.tables.table import versions
from ..group.stager import drop_staged

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...gtid import GtidSet
    from ...schedule.group import Records
    from ...write.rows.group_writer import GroupWriter
    from ...write.tables.table import Table
    from ..applied.applied_log import AppliedLog
    from ..group.stager import Stager
    from .resume import ResumePoint

logger = logging.getLogger(__name__)

_WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE)
_LOOKED_THROUGH_BYTES = 1 << 30


def _passes(error: Exception) -> bool:
    """Return whether the error concerns more than these rows: it may pass, or it also ends the
    applier."""
    ends = (FencedError, FormerOwnerError, JvmEndedError, Stopped)
    lost = (ConcurrentChangeError, ConnectionError, Py4JNetworkError)
    return temporary(error) or disk_full(error) or isinstance(error, ends + lost)


class RowRepairs:
    """Commits the repaired rows of one table at a start, while nothing else is in progress."""

    def __init__(self, stager: Stager, writer: GroupWriter, applied: AppliedLog) -> None:
        self._stager, self._tracking, self._applied = stager, stager.tracking, applied
        self._control = stager.tracking.control
        self._repair_of = RowRepair(stager.tracking, stager.workers, writer.writer)

    def carry_out(self, rows: RowsToRepair | None, point: ResumePoint) -> ResumePoint:
        """Return the point at which the applier resumes, with a cut that shows the repaired table.
        Raise OSError, TargetError and other temporary errors. Raise FencedError."""
        if rows is None or rows.outcome.done():
            return point
        try:
            version, point = self._repair(rows, point)
        except RowsRefused as refused:
            rows.outcome.set_exception(refused)
        except Exception as error:  # after any other error the applier continues without these rows
            if _passes(error):
                raise
            logger.error("rows of %s: %s", rows.table, error, exc_info=error)
            rows.outcome.set_exception(RowsFailed(first_line(error)))
        else:
            rows.outcome.set_result(version)
        return point

    def _repair(self, rows: RowsToRepair, point: ResumePoint) -> tuple[int | None, ResumePoint]:
        """Return the version of the commit, or None if none was needed, and the point after it."""
        table, cut = self._table(rows), self._cut(point)
        if not rows.until.issubset(GtidSet.parse(cut.gtid_executed)):
            raise RowsOutdated(
                "the tables do not hold what the source had executed when it was read"
            )
        if where := self._touched(rows, table, cut):
            raise RowsOutdated(where)
        version = self._repair_of.commit(table, rows.parts, cut)
        reach("rows_repaired")
        tables = self._tracking.tables.items()
        repaired = versions((name, shard) for name, shard in tables if shard.delta is table.delta)
        cut = replace(cut, tables={**cut.tables, **repaired})
        self._control.publish(cut)
        return version, replace(point, cut=cut)

    def _table(self, rows: RowsToRepair) -> Table:
        tracking = self._tracking
        if why := tracking.waiting.get(rows.table):
            raise RowsRefused(f"it waits for a copy: {why.reason}")
        if rows.table in tracking.quarantines():
            raise RowsRefused("it is in quarantine")
        table = tracking.live(rows.table)
        if table is None or table.path != rows.path:
            raise RowsOutdated("the table was replaced after its rows were read")
        read = rows.definition
        if not table.columns.fits(read.arrow_schema()) or key_of(table.definition) != key_of(read):
            raise RowsOutdated("the table has other columns than the source")
        if name := masked_otherwise(table.definition, read):
            raise RowsRefused(
                f"column {name} is masked otherwise than the table was made with, or by another key"
            )
        if table.definition.truncated:
            raise RowsRefused("it keeps rows that the source has removed by TRUNCATE")
        return table

    def _cut(self, point: ResumePoint) -> Cut:
        """Return the cut that all tables show. Raise RowsOutdated if there is none."""
        cut, newest = point.cut, self._control.last_cut()
        if cut is None or newest is None or point.copy is not None:
            raise RowsOutdated("a copy is taken in")
        place, executed = SourcePlace.of(cut.source), GtidSet.parse(cut.gtid_executed)
        if (
            point.by_hand
            or cut.position != newest.position
            or self._tracking.is_ahead(cut.position, executed, place)
        ):
            raise RowsOutdated("tables are ahead of the last cut")
        return cut

    def _touched(self, rows: RowsToRepair, table: Table, cut: Cut) -> str:
        """Return why a transaction between the two cuts may concern one of the keys, or "" if none
        does."""
        records = self._between(rows.behind, cut)
        odd = ~of_kinds(records["kind"], (*_WITH_ROWS, *WITHOUT_ROWS))
        if odd.any():
            return f"{gtid_name(records[odd][0])} is a statement, or ends an XA branch"
        with_rows = records[of_kinds(records["kind"], _WITH_ROWS)]
        if not len(with_rows):
            return ""
        keys = table.definition.foreign_keys
        if keys is None or any(key.on_delete or key.on_update for key in keys):
            return "rows of the table may have been changed by a foreign key's action, unlogged"
        if with_rows["length"].sum() > _LOOKED_THROUGH_BYTES:
            return "too much was committed while the rows were read"
        if self._holds_key(rows, table, with_rows):
            return f"a row was changed on the source, in {rows.behind.gtid_executed} and later"
        return ""

    def _between(self, behind: Cut, cut: Cut) -> Records:
        """Return all transactions between the two cuts. Raise RowsOutdated if the log lacks one of
        them."""
        applied = self._applied
        meanwhile = GtidSet.parse(cut.gtid_executed).subtract(GtidSet.parse(behind.gtid_executed))
        if not meanwhile:
            return applied.view.index.slice(cut.position, cut.position)
        if behind.log_id != cut.log_id:
            raise RowsOutdated("there is another relay log now")
        records = applied.view.index.slice(behind.position, cut.position)
        executed_after = GtidSet.from_arrays(records["uuid"], records["gno"], records["tag"])
        if not meanwhile.issubset(executed_after):
            raise RowsOutdated(
                "the relay log does not hold what was applied while the rows were read"
            )
        return records

    def _holds_key(self, rows: RowsToRepair, table: Table, records: Records) -> bool:
        stager = self._stager
        group = Group.of(records, np.zeros(len(records), np.int32), len(records))
        spans = self._applied.spans(records)
        staged = stager.stage_table(group, rows.table, spans, Commits.of(records))
        try:
            tasks = []
            for staged_part in staged.by_worker:
                logged = staged_part.definitions.get(rows.table)
                if logged is not None and key_of(logged) != key_of(table.definition):
                    raise RowsOutdated("the log has another key of the table")
                key = table.definition.primary_key
                tasks += [TouchTask(part, key, rows.keys) for part in staged_part.parts]
            return any(stager.workers.run(touches, tasks))
        finally:
            drop_staged(staged)
