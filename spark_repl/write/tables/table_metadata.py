"""What the properties and commits of a table record: its definition as it was created, the position
and transactions of a channel, and which commits are the channel's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ... import formats
from ...alter.recorded_definition import recorded_definition
from ...config.renaming import SHARD
from ...delta.log_replay import last_user_metadata
from ...gtid import GtidSet
from ...relay.source_place import SourcePlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.table.cut import Cut
    from ...delta.log_replay import Action
    from ...delta.snapshot import Snapshot
    from ...tables.table_definition import TableDefinition

DEFINITION, COMPLETE = "spark_repl.definition", "spark_repl.complete"
COPIED = "copied"
"""``COMPLETE`` of a copy's table: from the first cut on that shows the copy"""
WITHOUT_HISTORY = "without history"
"""``COMPLETE`` of the table of a copy that reads no rows"""
_DEFINITION_FORMAT, _COMMIT_FORMAT = 2, 1
"""2: the table's statistics are sound, and stay so; an earlier version writes others"""


def own_properties(definition: TableDefinition, complete: str) -> dict[str, str]:
    """What a new table's properties say of it."""
    text = formats.stamp(definition.to_json(), _DEFINITION_FORMAT)
    return {DEFINITION: text, COMPLETE: complete}


def created(snapshot: Snapshot) -> TableDefinition:
    """The table's definition as it was created."""
    return defined(snapshot.configuration[DEFINITION], snapshot.folder)


def defined(text: str, folder: str) -> TableDefinition:
    """The definition that stands in the property of the table at ``folder``."""
    return recorded_definition(formats.unstamp(text, _DEFINITION_FORMAT, "this table", folder))


def held_gtids(snapshot: Snapshot, app: str) -> GtidSet | None:
    """What the last commit of the channel ``app`` says that the table holds; None where it is not
    in the table's log any more."""
    said = _last(snapshot, app)
    return None if said is None else GtidSet.parse(said.get("gtid_executed", ""))


def held_place(snapshot: Snapshot, app: str) -> SourcePlace | None:
    """Up to which place of the source the last commit of the channel ``app`` says that the table
    holds everything; None where it is not in the table's log any more, or doesn't say it."""
    return SourcePlace.of((_last(snapshot, app) or {}).get("source", {}))


def _last(snapshot: Snapshot, app: str) -> dict[str, Any] | None:
    metadata = last_user_metadata(snapshot.folder, snapshot.version, app)
    if metadata is None:
        return None
    said: dict[str, Any] = json.loads(
        formats.unstamp(metadata, _COMMIT_FORMAT, "the last commit", snapshot.folder)
    )
    return said


def user_metadata(cut: Cut, channel: str) -> str:
    """The commit's userMetadata: everything of the channel up to this position, and the group that
    ends there."""
    fields: dict[str, Any] = {
        "channel": channel,
        "log_id": cut.log_id,
        "position": cut.position,
        "gtid_executed": cut.gtid_executed,
        "group": cut.group_gtids,
        "source": dict(cut.source),
    }
    return formats.stamp(json.dumps(fields), _COMMIT_FORMAT)


def repairs_of(app: str) -> str:
    """The appId of a channel's repairs of rows, which leave a table's position where it is."""
    return f"{app}:repair"


def copies_of(app: str, path: str = "") -> str:
    """The appId of a copy's chunks, which leave a table's position where it is; each shard at a
    ``path`` of its own counts its own."""
    _, sign, number = path.partition(SHARD)
    return f"{app}:copy{sign}{number}"


def columns_of_all(app: str) -> str:
    """The appId of what gives columns to a table that several channels feed, before the statement
    is carried out that brings them; it leaves the table's position where it is."""
    return f"{app}:columns"


def keeps_position(actions: Sequence[Action], app: str) -> bool:
    """Whether a commit is a chunk of a copy by the channel ``app``, a repair of rows, or one of
    columns that come first."""
    copies = copies_of(app)
    apps = (action["txn"]["appId"] for action in actions if "txn" in action)
    return any(
        one in (copies, repairs_of(app), columns_of_all(app)) or one.startswith(f"{copies}{SHARD}")
        for one in apps
    )


def position_of(actions: Sequence[Action], app: str) -> int | None:
    """The position that a commit records for ``app``."""
    versions = [a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == app]
    return int(versions[0]) if versions else None
