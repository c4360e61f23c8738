"""Shared commits: the other channels that feed a Delta table, and what their commits may change.

Each channel has its own shards in the table, and so its own data files. Commits of another channel
may come between this channel's commits if they leave its data files and all columns as they are.
Columns may be added, none may be dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...delta.files.delta_columns import Columns
from ...errors import TargetError

if TYPE_CHECKING:
    from ...delta.log.log_replay import Action


@dataclass(frozen=True)
class SharingChannels:
    """The other channels of a table. ``apps``: the appIds of their positions; empty if only this
    channel feeds the table."""

    apps: tuple[str, ...] = ()

    @classmethod
    def beside(cls, channel: str, channels: Sequence[str]) -> SharingChannels:
        """Return the ``channels`` other than ``channel``."""
        return cls(tuple(f"spark_repl:{name}" for name in channels if name != channel))

    def __bool__(self) -> bool:
        return bool(self.apps)

    def has_made(self, actions: Sequence[Action]) -> bool:
        """Return whether one of these channels made a commit: it has the position of one of them,
        or it is a row repair, a copy's chunk, or adds columns."""
        made_by = [action["txn"]["appId"] for action in actions if "txn" in action]
        return any(
            name == app or name.startswith(f"{app}:") for name in made_by for app in self.apps
        )


ALONE = SharingChannels()


def leaves_shards(actions: Sequence[Action], columns: Columns, own: Collection[str]) -> bool:
    """Return whether a commit to a shared table adds and removes no data file of this channel's
    ``own`` shards. ``columns``: the Delta table's columns."""
    (name,) = columns.partitions
    physical = columns.physical[columns.names.index(name)]
    for kind in ("add", "remove"):
        for file in (action[kind] for action in actions if kind in action):
            shard = (file.get("partitionValues") or {}).get(physical)
            if shard is None or shard in own:
                return False
    return True


def check_shared_commit(
    version: int,
    actions: Sequence[Action],
    before: Columns,
    after: Columns | None,
    own: Collection[str],
) -> None:
    """Raise TargetError if this channel can't continue after another channel's commit. ``after``:
    the table's columns after the commit, None if they do not change."""
    if after is not None and not _grown(before, after):
        raise TargetError(f"version {version} takes columns away that this channel's rows have")
    if not leaves_shards(actions, before, own):
        shards = ", ".join(sorted(own))
        raise TargetError(f"version {version} changes files of this channel's shards, {shards}")


def columns_in(actions: Sequence[Action]) -> Columns | None:
    """Return the columns that a commit gives the table, None if it does not change the metadata."""
    new = next((a["metaData"] for a in actions if "metaData" in a), None)
    return Columns.of(new["schemaString"], new["partitionColumns"]) if new else None


def _grown(before: Columns, after: Columns) -> bool:
    """Return whether all columns are still there, unchanged, with new ones only at the end."""
    number = len(before.names)
    return (
        after.names[:number] == before.names
        and after.physical[:number] == before.physical
        and after.types[:number] == before.types
        and after.partitions == before.partitions
    )
