"""Changes that an operator makes while the applier is stopped: skip, reset, target move, xa.

Each change claims the target as its owner. ``skip`` leaves out transactions, on record. ``reset``
begins tables again, so that users need not remove folders. ``target move`` moves a target to an
object store. ``xa`` lists prepared branches as XA RECOVER shows them, and ends orphans.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from ..binlog.events.xid import Xid
from ..control.records.channel_reset import plan_all, plan_tables, reset_all, reset_tables
from ..control.records.channels import check_unowned, opened
from ..control.records.operator_decisions import SKIP, XA, decide, skipped, xa_decisions
from ..control.records.skips import check_skip
from ..control.records.target_move import move_target
from ..delta.store.remover import Remover
from ..errors import ConfigError, TargetError
from ..gtid import GtidSet
from ..observe.status.status import prepared_branches
from .command_target import channel_of, target_of
from .configuration import loaded
from .output import cells, emit, print_table

if TYPE_CHECKING:
    from ..config import Config
    from ..control.records.channel_reset import Planned
    from ..control.records.channels import Channel


def skip(options: argparse.Namespace) -> int:
    """Record GTIDs for the applier to leave out, as the target's owner.

    The applier must be stopped. Raise TargetError if some table has a transaction already.
    """
    gtids = GtidSet.parse(options.gtid)
    if not gtids:
        raise ConfigError("--gtid is empty", hint="give one GTID, or a set")
    at = channel_of(options)
    control = at.control
    check = partial(check_skip, control, at.layout, gtids)
    decide(control, SKIP, {}, check=check, gtid_executed=str(gtids))
    emit({"skipped": str(skipped(control))}, options.json)
    return 0


def reset(options: argparse.Namespace) -> int:
    """List the tables and files to remove, then remove them as the target's owner. The applier must
    be stopped."""
    from ..service.archived_relay import archived_folders

    config = loaded(options)
    if odd := [name for name in options.table if not all(name.partition("."))]:
        raise ConfigError(f"--table {odd[0]}: give DATABASE.TABLE, as the target has it")
    at = opened(config)
    planned = plan_all(at) if options.all else plan_tables(at, options.table)
    archived = archived_folders(config) if options.all else ()
    for line in (*planned.notices, *(f"archived relay log {folder}" for folder in archived)):
        print(line, file=sys.stderr)
    if not options.dry_run and at.control.exists():
        check_unowned(config, take_over=options.take_over)
        planned = _carry_out(at, config, options)
    tables, folders = list(planned.tables), [*planned.folders, *archived]
    emit({"tables": tables, "folders": folders, "dry_run": options.dry_run}, options.json)
    return 0


def _carry_out(at: Channel, config: Config, options: argparse.Namespace) -> Planned:
    from ..service.archived_relay import forget_archived

    control = at.control
    control.claim(take_over=options.take_over)
    try:
        if options.all:
            forget_archived(config)  # first: the next call finds the tables after a kill
            return reset_all(at, Remover(control.check_owner))
        return reset_tables(at, options.table)
    finally:
        control.release()


def move(options: argparse.Namespace) -> int:
    """Move a target to an object store, as its owner. The applier must be stopped."""
    moved = move_target(options.source, options.to, take_over=options.take_over)
    emit(asdict(moved), options.json)
    return 0


_UNDECIDED = {"by_hand": None, "decided_by": None, "decided_at": None}
_BRANCH_COLUMNS = (
    "xid", "format_id", "gtrid", "bqual", "gtid", "position", "bytes", "prepared_at", "age_s",
    *_UNDECIDED,
)  # fmt: skip


def _word(branch: Mapping[str, Any]) -> str:
    """Return what --xid takes for the branch."""
    return f"{branch['gtrid']},{branch['bqual']},{branch['format_id']}"


def list_branches(options: argparse.Namespace) -> int:
    """Print the prepared branches of the last cut, with the decision on each."""
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
    print_table(
        _BRANCH_COLUMNS, [cells(_BRANCH_COLUMNS, {**line, "xid": _word(line)}) for line in branches]
    )
    return 0


def end_branch(options: argparse.Namespace) -> int:
    """Record the decision about a branch, its author and its time, as the target's owner.

    The applier must be stopped; it ends the branch at its next start. Raise ConfigError if --xid is
    malformed, TargetError if there is no such branch, FencedError if an applier runs.
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
