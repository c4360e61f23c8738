"""Foreign commits: what somebody else did to a target table, and whether the applier may go on.

What changes no row may always be done (OPTIMIZE, VACUUM, properties). Changed rows go by
``target.on_foreign_change``. RESTORE is never let pass: it takes rows back and keeps the position.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TargetError
from .columns import Columns
from .log_replay import Action

_HINT = (
    "on_foreign_change = stop: undo it with RESTORE to the version before and remove the later"
    " cuts, or start again with an empty target; on_foreign_change = accept takes changed rows as"
    " they are"
)


def changes_rows(actions: Sequence[Action]) -> bool:
    return any(a.get(kind, {}).get("dataChange") for a in actions for kind in ("add", "remove"))


def check(version: int, actions: Sequence[Action], columns: Columns, *, accept: bool) -> bool:
    """Whether the commit changed rows. Raises TargetError when the applier must not go on."""
    said: Action = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    operation = said.get("operation", "?")
    new: Action | None = next((a["metaData"] for a in actions if "metaData" in a), None)
    altered = new and Columns.of(new["schemaString"], new["partitionColumns"]) != columns
    changes = changes_rows(actions)
    if operation == "RESTORE" or altered or (changes and not accept):
        raise TargetError(
            f"somebody else changed the table: version {version} is a {operation}", hint=_HINT
        )
    return changes
