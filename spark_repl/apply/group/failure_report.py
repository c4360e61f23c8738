"""FailureReport: completes an error that has stopped a group, and reports it in the status.

The error gets the worker, transaction, file, position and table, and the tables that are ahead of
the last cut. The status gets the workers whose transactions failed or were turned away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import (
    GivenUpError,
    LogError,
    OtherChannelError,
    RowError,
    SchemaError,
    StatementError,
    TargetError,
)
from ...relay.record import gtid_name, holding
from .commit_order import turned_away

if TYPE_CHECKING:
    from ...control.table.control import Control
    from ...errors import SparkReplError
    from ...observe.reports.applier_status import ApplierStatus
    from ...schedule.group import Group
    from ..applied.applied_log import AppliedLog
    from .cut_publisher import CutPublisher

_PLACED = (RowError, LogError, SchemaError, StatementError, OtherChannelError)


def said(applied: AppliedLog, record: Any) -> str:
    """Return an index record's transaction and its end, in MySQL's words."""
    file, _, offset = applied.name_of(int(record["end"])).partition(":")
    return f"transaction '{gtid_name(record)}' at relay log {file}, end_log_pos {offset}"


class FailureReport:
    """Describes the failures of one applier's groups. Any thread may call it."""

    def __init__(
        self, applied: AppliedLog, control: Control, cuts: CutPublisher, status: ApplierStatus
    ) -> None:
        self._applied, self._control, self._cuts, self._status = applied, control, cuts, status

    def named(self, error: SparkReplError, group: Group) -> SparkReplError:
        """Add the transaction's GTID, file and position to the error. If another owner has fenced
        this applier off, return that error instead. Return the error."""
        workers = list(group.shares)
        single = len(group.records) == 1 or error.position is not None
        if isinstance(error, GivenUpError):
            workers = self._given_up(error, group)
        elif isinstance(error, _PLACED) and single:
            at = holding(group.records, error.position)
            self._applied.placed(error, group.records[at])
            workers = [int(group.worker[at])]
            behind = {int(worker) for worker in group.worker[at + 1 :]} - {workers[0]}
            self._status.turned_away(behind, turned_away())
        if isinstance(error, TargetError):
            self._tell_ahead(error)
        error = self._control.named(error)
        self._status.failed(group.slot, workers, error)
        return error

    def _given_up(self, error: GivenUpError, group: Group) -> list[int]:
        """Put the transaction of a retried error into its message, as MySQL does; return the
        workers whose transactions failed. The transaction is the one at the error's position.
        Without a position it is the failed worker's last one in the group."""
        workers = [worker for worker in error.workers if worker in group.shares]
        if not self._cuts.tables_ahead():  # nothing of the group is in a table
            self._status.turned_away(group.shares.keys() - set(workers), turned_away())
        first = min(workers, default=0)
        at = np.flatnonzero(group.worker == first)[-1]
        if error.position is not None:
            at = holding(group.records, error.position)
        record = group.records[at]
        self._applied.placed(error, record)
        named = said(self._applied, record)
        error.message = f"Worker {first + 1} failed executing {named}; {error.message}"
        return workers

    def _tell_ahead(self, error: TargetError) -> None:
        """Add the tables that are ahead of the last cut to the message. Delta has no transaction
        over several tables, so tables that have the group keep it."""
        if ahead := self._cuts.tables_ahead():
            error.message += (
                f"; ahead of the last cut: {', '.join(ahead)}: the next start brings all tables"
                " there, and publishes no cut before"
            )
