"""``spark-repl quarantine``: tables in quarantine, and decisions on their retained changes."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..control.records.operator_decisions import decide
from ..control.records.quarantine import (
    DROP,
    KIND,
    REPLAY,
    cure_of,
    mark_of,
    named,
    open_quarantines,
)
from ..control.transaction_files.quarantine_store import QuarantineStore
from ..observe.hints import pasteable
from .command_target import channel_of
from .output import cells, emit, print_table

if TYPE_CHECKING:
    from ..control.records.quarantine import Quarantine
    from ..control.table.control import Control
    from ..control.table.layout import Layout

_SHOWN = ("table", "since", "begun", "transactions", "bytes", "asked", "reason")


@dataclass(frozen=True)
class _Quarantined:
    """The tables of a target that are in quarantine."""

    layout: Layout
    control: Control
    store: QuarantineStore
    tables: dict[str, Quarantine]

    @classmethod
    def of(cls, options: argparse.Namespace) -> _Quarantined:
        at = channel_of(options)
        control, layout = at.control, at.layout
        store = QuarantineStore(layout.quarantine, layout.target)
        return cls(layout, control, store, open_quarantines(control))


def list_quarantined(options: argparse.Namespace) -> int:
    """Print each table, why it is in quarantine, and how much is retained."""
    quarantined = _Quarantined.of(options)
    lines = [_line(quarantined, table) for table in quarantined.tables.values()]
    if options.json:
        emit({"quarantined": lines}, True)
        return 0
    print_table(_SHOWN, [cells(_SHOWN, line) for line in lines])
    for line in lines:
        hint = pasteable(line["hint"], vars(options), table=line["table"])
        print(f"{line['table']}: Try: {hint}")
    return 0


def _line(quarantined: _Quarantined, table: Quarantine) -> dict[str, Any]:
    mark = mark_of(quarantined.control.last_cut(), table.path)
    kept = quarantined.store.kept(table.id, mark.by_owner if mark else {})
    failed = f" (replayed in vain: {table.failed})" if table.failed else ""
    return {
        "table": table.name, "path": table.path, "since": table.since, "gtid": table.gtid,
        "position": table.position, "number": table.number, "begun": str(table.at),
        "transactions": sum(len(each.sizes) for each in kept),
        "bytes": sum(each.bytes for each in kept),
        "asked": table.asked, "reason": table.reason + failed, "hint": cure_of(table),
    }  # fmt: skip


def show_quarantined(options: argparse.Namespace) -> int:
    """Print the retained row changes of a table in the log's order, one line of JSON for each. If a
    change can't be decoded, print an error in its place."""
    from ..observe.quarantine_rows import kept_rows  # which loads pandas, through pyarrow

    quarantined = _Quarantined.of(options)
    table = named(quarantined.tables, options.table)
    count = 0
    for change in kept_rows(quarantined.layout, quarantined.control, quarantined.store, table):
        if count == options.rows:
            break
        print(json.dumps(change, default=str))
        count += 1
    if options.json:
        emit({"table": table.name, "changes": count}, True)
    return 0


def _ask(options: argparse.Namespace, action: str) -> int:
    """Record who decided what about a table and when, as the target's owner.

    The applier must be stopped; it carries the decision out at its next start. Raise ConfigError
    for a table that is not in quarantine, FencedError if an applier runs.
    """
    quarantined = _Quarantined.of(options)
    table = named(quarantined.tables, options.table)
    decide(quarantined.control, KIND, {"id": table.id, "name": table.name, "action": action})
    emit(
        {"table": table.name, "action": action, "when": "at the applier's next start"}, options.json
    )
    return 0


def replay_quarantined(options: argparse.Namespace) -> int:
    """Make the applier apply the retained changes of a table at its next start."""
    return _ask(options, REPLAY)


def drop_quarantined(options: argparse.Namespace) -> int:
    """Make the applier drop the retained changes of a table at its next start: the table then lacks
    them."""
    return _ask(options, DROP)
