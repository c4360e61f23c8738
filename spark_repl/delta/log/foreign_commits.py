"""Foreign commits: what another writer did to a target table, and whether the applier may continue.

A commit that changes no row is always allowed (OPTIMIZE, VACUUM, properties).
``target.on_foreign_change`` decides about changed rows. RESTORE brings back old rows and keeps the
position, so it is allowed only if it undoes other writers' changes: if all rows are again those of
our last commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import BEGIN_AGAIN, TargetError
from ..files.delta_columns import Columns
from ..store.spark_names import quoted
from .add_actions import live_files

if TYPE_CHECKING:
    from .log_replay import Action


def changes_rows(actions: Sequence[Action]) -> bool:
    return any(a.get(kind, {}).get("dataChange") for a in actions for kind in ("add", "remove"))


def check(version: int, actions: Sequence[Action], columns: Columns, *, accept: bool) -> bool:
    """Return whether the commit changed rows. Raise TargetError if the applier must not continue
    after it. ``columns``: the table's columns before the commit."""
    info: Action = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    operation = info.get("operation", "?")
    new: Action | None = next((a["metaData"] for a in actions if "metaData" in a), None)
    altered = new and Columns.of(new["schemaString"], new["partitionColumns"]) != columns
    changes = changes_rows(actions)
    if operation == "RESTORE" or altered or (changes and not accept):
        raise TargetError(f"another writer changed the table: version {version} is a {operation}")
    return changes


def same_rows(folder: str, version: int, other_versions: Iterable[int]) -> bool:
    """Return whether a version has the same files as one of the ``other_versions``, with the same
    rows marked. Return False if the log does not reach back to them."""
    try:
        current = _marked(live_files(folder, version))
        return any(_marked(live_files(folder, other)) == current for other in other_versions)
    except TargetError:
        return False


def _marked(files: Mapping[str, Action]) -> dict[str, Any]:
    return {path: add.get("deletionVector") for path, add in files.items()}


def way_out(folder: str, name: str, base: int | None, *, shared: bool = False) -> str:
    """Return the hint for another writer's commit. ``base``: the version before it; None if it was
    followed by our own commit, which a RESTORE would remove although its position stays.
    ``shared``: the Delta table also has other tables of the source."""
    undo = (
        f"to undo it: RESTORE TABLE delta.{quoted(folder)} TO VERSION AS OF {base},"
        " and start again; "
        if base is not None
        else ""
    )
    if shared:
        return f"on_foreign_change = stop: {undo}to have the source's rows again, {BEGIN_AGAIN}"
    return (
        f"on_foreign_change = stop: {undo}to have the source's rows again:"
        f" spark-repl snapshot --config F --table {name}; to keep their rows: on_foreign_change ="
        " accept (a RESTORE to other rows, and a changed definition, are never accepted)"
    )
