"""AppIds: by which ``txn`` actions a channel's commits are told, and what position they bear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.renaming import SHARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...delta.log_replay import Action


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
