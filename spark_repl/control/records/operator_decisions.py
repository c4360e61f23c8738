"""What somebody decided by hand, while no applier ran: transactions to leave out, and the ends of
prepared XA branches."""

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

if TYPE_CHECKING:
    from ..table.control import Control

SKIP, XA = "skip", "xa"
"""kinds of rows of the control table"""


@dataclass(frozen=True)
class XaDecision:
    """How a prepared branch is to end, by whose word. ``position``: the packed place of its XA
    PREPARE; ``action``: COMMIT or ROLLBACK."""

    xid: Xid
    position: int
    action: str
    user: str
    host: str
    at: datetime

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        said = json.loads(row["detail"])
        xid = Xid.of_json(said)
        return cls(xid, said["position"], said["action"], said["user"], said["host"], row["at"])


def xa_decisions(control: Control) -> list[XaDecision]:
    """In the order in which they were taken."""
    return [XaDecision.of(row) for row in control.rows(XA)]


def skipped(control: Control) -> GtidSet:
    """The transactions that somebody told the applier to leave out."""
    gtids = GtidSet()
    for row in control.rows(SKIP):
        gtids = gtids.union(GtidSet.parse(row["gtid_executed"]))
    return gtids


def of_statements(control: Control, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a kind that statements leave, without those of statements that somebody
    left out later: their row was written before the table's commit, which never came."""
    return without_skipped(control.rows(kind), skipped(control))


def without_skipped(rows: Iterable[dict[str, Any]], skip: GtidSet) -> list[dict[str, Any]]:
    """Return the rows whose GTIDs are not all in ``skip``; a row without GTIDs stays."""
    texts = ((row, row["gtid_executed"]) for row in rows)
    return [row for row, gtids in texts if not (gtids and GtidSet.parse(gtids).issubset(skip))]


def makes_rows_differ(control: Control) -> bool:
    """Whether somebody left a transaction out, or committed an XA branch, by hand: tables may have
    rows then that the source doesn't have."""
    committed = any(decision.action == "COMMIT" for decision in xa_decisions(control))
    return committed or bool(control.rows(SKIP))


def decide(
    control: Control,
    kind: str,
    detail: Mapping[str, Any],
    check: Callable[[], None] = lambda: None,
    **place: Any,
) -> None:
    """Records what somebody decided by hand, and who it was. It claims the target for that, so the
    applier must be stopped: else FencedError. ``check`` looks at the target while no applier can
    change it; what it raises is raised."""
    by = {"user": getpass.getuser(), "host": socket.gethostname()}
    control.claim()
    try:
        check()
        control.write(kind, detail=json.dumps({**detail, **by}), **place)
    finally:
        control.release()
