"""Operator decisions: transactions to skip, and the ends of prepared XA branches.

An operator decides while no applier runs.
"""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from ...binlog.events.xid import Xid
from ...gtid import GtidSet
from ..table.owner_lease import wait_until_unclaimed

if TYPE_CHECKING:
    from ..table.control import Control

SKIP, XA = "skip", "xa"
"""kinds of rows of the control table"""


@dataclass(frozen=True)
class XaDecision:
    """How a prepared branch is to end, and who decided it. ``position``: the packed position of its
    XA PREPARE; ``action``: COMMIT or ROLLBACK."""

    xid: Xid
    position: int
    action: str
    user: str
    host: str
    at: datetime

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        detail = json.loads(row["detail"])
        xid = Xid.of_json(detail)
        return cls(
            xid, detail["position"], detail["action"], detail["user"], detail["host"], row["at"]
        )


def xa_decisions(control: Control) -> list[XaDecision]:
    """Return the decisions in their order."""
    return [XaDecision.of(row) for row in control.rows(XA)]


def skipped(control: Control) -> GtidSet:
    """Return the transactions that an operator decided to skip."""
    gtids = GtidSet()
    for row in control.rows(SKIP):
        gtids = gtids.union(GtidSet.parse(row["gtid_executed"]))
    return gtids


def of_statements(control: Control, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a kind that statements write, without those of statements that an operator
    skipped later: such a row was written before the table's commit, which was never made."""
    return without_skipped(control.rows(kind), skipped(control))


def without_skipped(rows: Iterable[dict[str, Any]], skip: GtidSet) -> list[dict[str, Any]]:
    """Return the rows whose GTIDs are not all in ``skip``; a row without GTIDs stays."""
    texts = ((row, row["gtid_executed"]) for row in rows)
    return [row for row, gtids in texts if not (gtids and GtidSet.parse(gtids).issubset(skip))]


def makes_rows_differ(control: Control) -> bool:
    """Return whether an operator has skipped a transaction, or committed an XA branch. Tables may
    then have rows that the source doesn't have."""
    committed = any(decision.action == "COMMIT" for decision in xa_decisions(control))
    return committed or bool(control.rows(SKIP))


def decide(
    control: Control,
    kind: str,
    detail: Mapping[str, Any],
    check: Callable[[], None] = lambda: None,
    *,
    position: int = 0,
    gtid_executed: str = "",
) -> None:
    """Record an operator's decision, and who it was. For this, claim the target: raise FencedError
    unless the applier is stopped. ``check`` runs while no applier can change the target; raise what
    it raises."""
    by = {"user": getpass.getuser(), "host": socket.gethostname()}
    wait_until_unclaimed(control)
    control.claim()
    try:
        check()
        text = json.dumps({**detail, **by})
        control.write(kind, position=position, gtid_executed=gtid_executed, detail=text)
    finally:
        control.release()
