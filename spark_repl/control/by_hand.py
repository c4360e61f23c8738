"""What somebody decided by hand, while no applier ran: transactions to leave out, and the ends of
prepared XA branches."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..gtid import GtidSet

if TYPE_CHECKING:
    from .control import Control

SKIP, XA = "skip", "xa"
"""kinds of rows of the control table"""


def skipped(control: Control) -> GtidSet:
    """The transactions that somebody told the applier to leave out."""
    gtids = GtidSet()
    for row in control.rows(SKIP):
        gtids = gtids.union(GtidSet.parse(row["gtid_executed"]))
    return gtids


def makes_rows_differ(control: Control) -> bool:
    """Whether somebody left a transaction out, or committed an XA branch, by hand: tables may have
    rows then that the source doesn't have."""
    actions = [json.loads(row["detail"])["action"] for row in control.rows(XA)]
    return bool(control.rows(SKIP)) or "COMMIT" in actions


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
