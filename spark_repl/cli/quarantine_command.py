"""``spark-repl quarantine``: tables that stand still, what is kept of them, and what is decided
about that by hand."""

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
from .command_target import channel_of
from .error_report import pasteable
from .output import cells, emit, print_table

if TYPE_CHECKING:
    from ..control.records.quarantine import Quarantine
    from ..control.table.control import Control
    from ..control.table.layout import Layout

_SHOWN = ("table", "since", "begun", "transactions", "bytes", "asked", "reason")


@dataclass(frozen=True)
class _Found:
    """What the target has in quarantine."""

    layout: Layout
    control: Control
    store: QuarantineStore
    tables: dict[str, Quarantine]

    @classmethod
    def of(cls, options: argparse.Namespace) -> _Found:
        at = channel_of(options)
        control, layout = at.control, at.layout
        store = QuarantineStore(layout.quarantine, layout.target)
        return cls(layout, control, store, open_quarantines(control))


def list_quarantined(options: argparse.Namespace) -> int:
    """Each table, why it stands still, and how much is kept of it."""
    quarantined = _Found.of(options)
    lines = [_line(quarantined, one) for one in quarantined.tables.values()]
    if options.json:
        emit({"quarantined": lines}, True)
        return 0
    print_table(_SHOWN, [cells(_SHOWN, line) for line in lines])
    for line in lines:
        hint = pasteable(line["hint"], vars(options), table=line["table"])
        print(f"{line['table']}: Try: {hint}")
    return 0


def _line(quarantined: _Found, one: Quarantine) -> dict[str, Any]:
    mark = mark_of(quarantined.control.last_cut(), one.path)
    kept = quarantined.store.kept(one.id, mark.by_owner if mark else {})
    failed = f" (replayed in vain: {one.failed})" if one.failed else ""
    return {
        "table": one.name, "path": one.path, "since": one.since, "gtid": one.gtid,
        "position": one.position, "number": one.number, "begun": str(one.at),
        "transactions": sum(len(each.sizes) for each in kept),
        "bytes": sum(each.bytes for each in kept),
        "asked": one.asked, "reason": one.reason + failed, "hint": cure_of(one),
    }  # fmt: skip


def show_quarantined(options: argparse.Namespace) -> int:
    """The row changes that are kept of a table, decoded, in the log's order: a line of JSON each.
    What can't be decoded is said in its place."""
    from ..observe.quarantine_rows import kept_rows  # and pandas with it, through pyarrow

    quarantined = _Found.of(options)
    one = named(quarantined.tables, options.table)
    count = 0
    for change in kept_rows(quarantined.layout, quarantined.control, quarantined.store, one):
        if count == options.rows:
            break
        print(json.dumps(change, default=str))
        count += 1
    if options.json:
        emit({"table": one.name, "changes": count}, True)
    return 0


def _ask(options: argparse.Namespace, action: str) -> int:
    """Records the decision, who took it and when, as the target's owner: its applier must be
    stopped, and carries it out when it starts next. Raises ConfigError, FencedError."""
    quarantined = _Found.of(options)
    one = named(quarantined.tables, options.table)
    decide(quarantined.control, KIND, {"id": one.id, "name": one.name, "action": action})
    emit({"table": one.name, "action": action, "when": "at the applier's next start"}, options.json)
    return 0


def replay_quarantined(options: argparse.Namespace) -> int:
    """Has what is kept of a table applied."""
    return _ask(options, REPLAY)


def drop_quarantined(options: argparse.Namespace) -> int:
    """Has what is kept of a table forgotten: it lacks these changes from there on."""
    return _ask(options, DROP)
