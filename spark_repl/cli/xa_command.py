"""``spark-repl xa``: prepared branches as XA RECOVER shows them, and their ends by hand."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..binlog.events.xid import Xid
from ..control.records.operator_decisions import XA, decide, xa_decisions
from ..errors import ConfigError, TargetError
from ..observe.status.status import prepared_branches
from .inspect import cells, channel_of, emit, print_table, target_of

_UNDECIDED = {"by_hand": None, "decided_by": None, "decided_at": None}
_SHOWN = (
    "xid", "format_id", "gtrid", "bqual", "gtid", "position", "bytes", "prepared_at", "age_s",
    *_UNDECIDED,
)  # fmt: skip


def _word(branch: Mapping[str, Any]) -> str:
    """Return what --xid takes for the branch."""
    return f"{branch['gtrid']},{branch['bqual']},{branch['format_id']}"


def show(options: argparse.Namespace) -> int:
    control = channel_of(options).control
    decided = {
        one.position: {
            "by_hand": one.action,
            "decided_by": f"{one.user}@{one.host}",
            "decided_at": str(one.at),
        }
        for one in xa_decisions(control)
    }
    branches = [
        {**branch, **decided.get(packed, _UNDECIDED)}
        for packed, branch in prepared_branches(control.last_cut())
    ]
    if options.json:
        emit({"prepared": branches}, True)
        return 0
    print_table(_SHOWN, [cells(_SHOWN, {**line, "xid": _word(line)}) for line in branches])
    return 0


def end_by_hand(options: argparse.Namespace) -> int:
    """Records the decision, who took it and when, as the target's owner: its applier must be
    stopped, and carries it out when it starts next. Raises ConfigError, TargetError, FencedError.
    """
    try:
        xid = Xid.of_hex(options.xid)
    except ValueError as error:
        raise ConfigError(
            f"--xid {options.xid} is not GTRID[,BQUAL[,FORMAT_ID]] in hex",
            hint="see the branches: spark-repl xa list --config F",
        ) from error
    control = channel_of(options).control
    branches = prepared_branches(control.last_cut())
    position = next((at for at, branch in branches if Xid.of_json(branch) == xid), None)
    if position is None:
        raise TargetError(
            f"XAER_NOTA: Unknown XID {xid}",
            file=target_of(options),
            number=1397,
            hint="see the branches: spark-repl xa list --config F",
        )
    action = options.action.upper()
    detail = {**xid.to_json(), "position": position, "action": action}
    decide(control, XA, detail, position=position)
    emit({"xid": str(xid), "action": action, "when": "at the applier's next start"}, options.json)
    return 0
