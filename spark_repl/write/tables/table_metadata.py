"""What the properties and commits of a table record: its definition as it was created, the position
and transactions of a channel, and which commits are the channel's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ... import formats
from ...config.renaming import SHARD
from ...control.records.recorded_definition import recorded_definition
from ...delta.log.log_replay import last_user_metadata
from ...gtid import GtidSet
from ...relay.source_places import SourcePlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.table.cut import Cut
    from ...delta.log.log_replay import Action
    from ...delta.log.table_snapshot import Snapshot
    from ...tables.target_table import TargetTable

DEFINITION, COMPLETE = "spark_repl.definition", "spark_repl.complete"
COPIED = "copied"
"""``COMPLETE`` of a copy's table: it is complete from the first cut that shows the copy"""
WITHOUT_HISTORY = "without history"
"""``COMPLETE`` of the table of a copy that reads no rows"""
_DEFINITION_FORMAT, _COMMIT_FORMAT = 2, 1
"""version 2: the table's statistics are sound; earlier versions of spark_repl write unsound ones"""


def own_properties(definition: TargetTable, complete: str) -> dict[str, str]:
    """Return the properties of a new table that describe it."""
    text = formats.stamp(definition.to_json(), _DEFINITION_FORMAT)
    return {DEFINITION: text, COMPLETE: complete}


def created(snapshot: Snapshot) -> TargetTable:
    """Return the table's definition at the time of its creation."""
    return defined(snapshot.configuration[DEFINITION], snapshot.folder)


def defined(text: str, folder: str) -> TargetTable:
    """Return the definition in the property of the table at ``folder``."""
    return recorded_definition(formats.unstamp(text, _DEFINITION_FORMAT, "this table", folder))


def recorded_gtids(snapshot: Snapshot, app: str) -> GtidSet | None:
    """Return the transactions that the table has according to the last commit of the channel
    ``app``; None if that commit is no longer in the table's log."""
    recorded = _last(snapshot, app)
    return None if recorded is None else GtidSet.parse(recorded.get("gtid_executed", ""))


def recorded_place(snapshot: Snapshot, app: str) -> SourcePlace | None:
    """Return the source position up to which the table has everything, according to the last commit
    of the channel ``app``; None if that commit is no longer in the table's log, or has no source
    position."""
    return SourcePlace.of((_last(snapshot, app) or {}).get("source", {}))


def _last(snapshot: Snapshot, app: str) -> dict[str, Any] | None:
    metadata = last_user_metadata(snapshot.folder, snapshot.version, app)
    if metadata is None:
        return None
    recorded: dict[str, Any] = json.loads(
        formats.unstamp(metadata, _COMMIT_FORMAT, "the last commit", snapshot.folder)
    )
    return recorded


def user_metadata(cut: Cut, channel: str) -> str:
    """Return the commit's userMetadata: the channel's transactions up to this position, and the
    group that ends there."""
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
    """Return the appId of a channel's row repairs, which don't change a table's position."""
    return f"{app}:repair"


def copies_of(app: str, path: str = "") -> str:
    """Return the appId of a copy's chunks, which don't change a table's position. Each shard, with
    its own ``path``, has its own appId."""
    _, sign, number = path.partition(SHARD)
    return f"{app}:copy{sign}{number}"


def columns_of_all(app: str) -> str:
    """Return the appId of two kinds of commits that don't change the table's position: those that
    add columns to a table of several channels, before the statement that needs them is applied, and
    those that add what MySQL declares."""
    return f"{app}:columns"


def keeps_position(actions: Sequence[Action], app: str) -> bool:
    """Return whether a commit is a chunk of a copy by the channel ``app``, a row repair, or adds
    columns in advance or declarations."""
    copies = copies_of(app)
    apps = (action["txn"]["appId"] for action in actions if "txn" in action)
    return any(
        name in (copies, repairs_of(app), columns_of_all(app))
        or name.startswith(f"{copies}{SHARD}")
        for name in apps
    )


def position_of(actions: Sequence[Action], app: str) -> int | None:
    """Return the position that a commit records for ``app``, None if it records none."""
    versions = [a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == app]
    return int(versions[0]) if versions else None
