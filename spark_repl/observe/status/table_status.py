"""Table status: where each table stands by its own log, which may be behind the last cut (a crash,
or tables that advance apart). Read without Spark: what was committed since the cut, no more."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...delta.log_replay import Action, read_commit
from ...errors import TargetError
from ...position import RelayPosition
from ...runtime.threads import Pool

if TYPE_CHECKING:
    from ...control.table.cut import Cut, TableVersion
    from ...control.table.layout import Layout

_AT_ONCE = 16


def table_positions(layout: Layout, last: Cut, channel: str) -> dict[str, dict[str, Any]]:
    """For each table of the last cut its own ``version`` and ``position``, the place of the source
    (``source_file``, ``source_position``) up to which it holds everything, and ``ahead``: whether
    that is behind what the cut shows."""
    app = f"spark_repl:{channel}"

    def look(table: TableVersion) -> dict[str, Any]:
        return _position(layout.table(table.path), table, last, app)

    with Pool(_AT_ONCE) as pool:
        return dict(zip(last.tables, pool.map(look, last.tables.values()), strict=True))


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
    """None where it can't be read, too: a status is a look, and says what it can."""
    try:
        return read_commit(folder, version)
    except (OSError, TargetError):
        return None


def _own(actions: Iterable[Action], app: str) -> tuple[int, Mapping[str, Any]] | None:
    """Position and place of the source of a commit of the channel; None of another's."""
    position, said = None, {}
    for action in actions:
        if action.get("txn", {}).get("appId") == app:
            position = int(action["txn"]["version"])
        text = action.get("commitInfo", {}).get("userMetadata")
        if text and text.startswith("{"):
            said = json.loads(text)
    return None if position is None else (position, said.get("source", {}))
