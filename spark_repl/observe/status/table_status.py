"""Table status: the progress of each table by its own log, which may be ahead of the last cut.

A table is ahead after a crash, or if tables advance independently. Only the commits since the cut
are read, and without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...delta.log.log_replay import Action, read_commit
from ...errors import TargetError
from ...position import RelayPosition
from ...runtime.threads import map_at_once

if TYPE_CHECKING:
    from ...control.table.cut import Cut, TableVersion
    from ...control.table.layout import Layout

_AT_ONCE = 16


def table_positions(layout: Layout, last: Cut, channel: str) -> dict[str, dict[str, Any]]:
    """Return the progress of each table of the last cut, from the table's own log.

    ``version`` and ``position`` are the table's. ``source_file`` and ``source_position`` are the
    source's position up to which it has everything. ``ahead``: whether the table has more than the
    cut shows.
    """
    app = f"spark_repl:{channel}"

    def position(table: TableVersion) -> dict[str, Any]:
        return _position(layout.table(table.path), table, last, app)

    positions = map_at_once(position, list(last.tables.values()), _AT_ONCE)
    return dict(zip(last.tables, positions, strict=True))


def _position(folder: str, table: TableVersion, last: Cut, app: str) -> dict[str, Any]:
    position, source, version = table.position, last.source, table.version
    while (actions := _commit(folder, version + 1)) is not None:
        version += 1
        own = _own(actions, app)
        if own is not None:
            position, source = own
    return {
        "version": table.version,
        "newest_version": version,
        "position": str(RelayPosition.unpack(position)),
        "source_file": source.get("file", ""),
        "source_position": source.get("position"),
        "ahead": position > max(last.position, table.position),
    }


def _commit(folder: str, version: int) -> list[Action] | None:
    """Return the actions of a commit; None if there is none, or if it can't be read."""
    try:
        return read_commit(folder, version)
    except (OSError, TargetError):
        return None


def _own(actions: Iterable[Action], app: str) -> tuple[int, Mapping[str, Any]] | None:
    """Return position and source position of the channel's commit; None for another commit."""
    position, metadata = None, {}
    for action in actions:
        if action.get("txn", {}).get("appId") == app:
            position = int(action["txn"]["version"])
        text = action.get("commitInfo", {}).get("userMetadata")
        if text and text.startswith("{"):
            metadata = json.loads(text)
    return None if position is None else (position, metadata.get("source", {}))
