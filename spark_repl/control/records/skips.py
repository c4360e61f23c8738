"""Skips: transactions that somebody wants left out. One that a table has already can't be left out:
a cut would show half of it.

What a table holds beyond the last cut (a run was cut off between two tables' commits, or tables
advance apart) stands in its own commits: each names the transactions of its group. A group that
holds a transaction has landed in a table only if all of the group fitted, so such a table may have
it; any other table has not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...delta.log_replay import Action, commits_after
from ...delta.storage import names
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
    "start the applier without it: what is half there is completed; where that stops, mend the rows"
    " or copy the table that is without it again: spark-repl snapshot --config F --table DB.T"
)


def check_absent(control: Control, layout: Layout, gtids: GtidSet) -> None:
    """Raises TargetError when a cut shows some of the transactions, or a table may have some."""
    wanted = gtids.subtract(skipped(control))
    cut = standing(control).cut
    if cut is not None and (shown := wanted.intersect(GtidSet.parse(cut.gtid_executed))):
        raise TargetError(
            f"{shown} has been applied: the last cut shows it",
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
    """Raises TargetError where a copy that no cut shows yet may have read rows of a transaction:
    its rows are of any moment up to its end."""
    copy = standing(control).copy
    if copy is None:
        return
    tables = ", ".join(sorted(copy.paths or copy.bounds))
    if copy.until is None:
        raise TargetError(
            f"a copy is under way, which may have read rows of it: {tables}",
            hint="finish the copy first: spark-repl snapshot --config F",
        )
    if held := wanted.intersect(copy.until):
        raise TargetError(
            f"a copy may have read rows of it: {tables} ({held})",
            hint="only what is behind the copy's end can be left out; or copy again",
        )


def _landed(folder: str, version: int) -> GtidSet:
    """The transactions of all groups that came to a table behind a version."""
    stems = [os.path.splitext(name)[0] for name in names(os.path.join(folder, "_delta_log"))]
    newest = max((int(stem) for stem in stems if stem.isdigit()), default=-1)
    landed = GtidSet()
    for actions in commits_after(folder, version, newest):
        landed = landed.union(_group(actions))
    return landed


def _group(actions: Sequence[Action]) -> GtidSet:
    """The transactions of the group that a commit belongs to; none for a commit of others."""
    if not any(a.get("txn", {}).get("appId", "").startswith(_OURS) for a in actions):
        return GtidSet()
    infos = (a["commitInfo"].get("userMetadata") for a in actions if "commitInfo" in a)
    detail = json.loads(next(infos, None) or "{}")
    # Versions before this one did not name the group: all up to its end may be in it.
    return GtidSet.parse(detail.get("group", detail.get("gtid_executed", "")))
