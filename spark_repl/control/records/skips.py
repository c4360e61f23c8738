"""Skips: transactions that an operator wants to skip. A transaction that a table already has can't
be skipped: a cut would show half of it.

A table may hold transactions after the last cut, if a run ended between two tables' commits or if
tables advance separately. The table's own commits show them: each names the transactions of its
group. A group lands in a table as a whole. So a table with a commit of the group may have a
transaction of it, and any other table has none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...delta.log.log_replay import Action, commits_after
from ...delta.store.storage import names
from ...errors import TargetError
from ...gtid import GtidSet
from .copies import standing
from .operator_decisions import skipped
from .table_paths import current_paths

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.layout import Layout

_OURS = "spark_repl:"
_HINT = (
    "start the applier without it: what is half there is completed; where that stops, correct the"
    " rows, or copy the table that is without it again: spark-repl snapshot --config F --table DB.T"
)


def check_skip(control: Control, layout: Layout, gtids: GtidSet) -> None:
    """Raise TargetError if a cut shows some of the transactions, or a table may have some."""
    wanted = gtids.subtract(skipped(control))
    cut = standing(control).cut
    if cut is not None and (applied := wanted.intersect(GtidSet.parse(cut.gtid_executed))):
        raise TargetError(
            f"{applied} has been applied: the last cut shows it",
            hint="only what has not been applied can be left out",
        )
    landed: dict[str, GtidSet] = {}
    for name, path in current_paths(control).items():
        at = cut.tables.get(name) if cut else None
        version = at.version if at and at.path == path else -1
        landed[name] = wanted.intersect(_landed(layout.table(path), version))
    if partial := {name: gtids for name, gtids in landed.items() if gtids}:
        tables = ", ".join(f"{name} ({gtids})" for name, gtids in sorted(partial.items()))
        raise TargetError(f"some tables have their part of it already: {tables}", hint=_HINT)
    _check_copy(control, wanted)


def _check_copy(control: Control, wanted: GtidSet) -> None:
    """Raise TargetError if a copy that no cut shows yet may have read rows of a transaction: its
    rows are of any moment up to its end."""
    copy = standing(control).copy
    if copy is None:
        return
    tables = ", ".join(sorted(copy.paths or copy.bounds))
    if copy.until is None:
        raise TargetError(
            f"a copy is under way, which may have read rows of it: {tables}",
            hint="finish the copy first: spark-repl snapshot --config F",
        )
    if copied := wanted.intersect(copy.until):
        raise TargetError(
            f"a copy may have read rows of it: {tables} ({copied})",
            hint="leave out a transaction after the end of the copy; or copy again",
        )


def _landed(folder: str, version: int) -> GtidSet:
    """Return the transactions of all groups that a table has committed after a version."""
    stems = [os.path.splitext(name)[0] for name in names(os.path.join(folder, "_delta_log"))]
    newest = max((int(stem) for stem in stems if stem.isdigit()), default=-1)
    landed = GtidSet()
    for actions in commits_after(folder, version, newest):
        landed = landed.union(_group(actions))
    return landed


def _group(actions: Sequence[Action]) -> GtidSet:
    """Return the transactions of the group that a commit belongs to; none for a commit of another
    writer."""
    if not any(a.get("txn", {}).get("appId", "").startswith(_OURS) for a in actions):
        return GtidSet()
    infos = (a["commitInfo"].get("userMetadata") for a in actions if "commitInfo" in a)
    detail = json.loads(next(infos, None) or "{}")
    # Earlier versions did not name the group: it may have all transactions up to its end.
    return GtidSet.parse(detail.get("group", detail.get("gtid_executed", "")))
