"""Stale copies: a copy can be used only if no statement changed its tables while they were read.

A table is read in many parts, over seconds or hours. If a statement comes meanwhile, it is unknown
which parts contain its changes. Rows that were logged before the statement may have another shape
than the copy. So this module searches the log from where the copy began to where it ended.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...control.records.copies import logged_while_copied, record_copy, standing
from ...control.table.cut import Waiting
from ...errors import StatementError
from ...relay.record import Kind, gtid_name
from ...sql.classify import classify_in
from ...sql.session import Session
from ..applied.statement_event import concerned, read_query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ...control.records.copies import Copy
    from ...control.table.control import Control
    from ...gtid import GtidSet
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog

logger = logging.getLogger(__name__)


def changed_meanwhile(copy: Copy, applied: AppliedLog, tracking: Tracking) -> dict[str, Waiting]:
    """Return the tables of a finished copy that a statement changed while they were read, with that
    statement. Only statements in the log are found. Raise LogError."""
    control, names, filters = tracking.control, tracking.names, tracking.filters
    rewrites = filters.now.rewrites
    meanwhile = logged_while_copied(control, copy)
    stale = {name: Waiting(reason, "") for name, reason in copy.unfinished.items()}
    for record in _statements(applied, meanwhile):
        query = read_query(record, applied.view.relay, 0)
        statement = rewrites.statement(classify_in(query.text, Session.of(query)))
        if statement.has_failed(query):
            continue
        try:
            statement = names.statement(
                statement, rewrites.names_in_statement(statement, copy.bounds)
            )
        except StatementError:  # the applier stops at this statement, with the error
            continue
        why = Waiting(f"{statement.verb} while the table was copied", gtid_name(record))
        for name in concerned(statement, copy.bounds, rewrites):
            if name in copy.bounds and (name not in stale or not stale[name].since):
                stale[name] = why
    return stale


def _statements(applied: AppliedLog, gtids: GtidSet) -> Iterator[Any]:
    """Yield the index records of the transactions that are statements. Their file numbers are the
    log's own."""
    for file in applied.view.index.files:
        records = file.records[np.isin(file.records["kind"], (Kind.QUERY, Kind.DDL_ROWS))]
        yield from records[gtids.contains_arrays(records["uuid"], records["gno"], records["tag"])]


def give_up_stale(
    copy: Copy, applied: AppliedLog, tracking: Tracking, *, copies: bool = False
) -> bool:
    """Give up a copy of some tables if it can't be used. Return whether it was given up.
    ``copies``: whether tables are copied while the applier runs."""
    if copy.behind is None or not copy.is_done:
        return False
    stale = changed_meanwhile(copy, applied, tracking)
    if stale:
        name, why = next(iter(sorted(stale.items())))
        give_up(tracking.control, copy, name, why, copies=copies)
    return bool(stale)


def give_up(
    control: Control, copy: Copy, table: str, why: Waiting, *, copies: bool = False
) -> None:
    """Record that a copy of some tables can't be used, because of ``table``. The copy is made
    again, starting after the statement, for the user who requested it or because the tables wait.
    Raise FencedError."""
    text = f"{why.reason} [gtid {why.since}, table {table}]" if why.since else why.reason
    logger.warning("the copy of %s can't be used: %s", ", ".join(copy.bounds), text)
    cut = standing(control).cut
    assert cut is not None, "a copy of some tables is begun behind one"
    waits = copy.bounds.keys() <= cut.waiting.keys()  # then the cut asks for it
    if why.since and not waits and (copies or copy.asked):
        record_copy(control, replace(copy, again=text))
    else:
        record_copy(control, replace(copy, error=text))
