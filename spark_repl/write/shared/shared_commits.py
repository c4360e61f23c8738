"""SharingChannels: the other channels that feed a Delta table, and what a commit of theirs may be.

Each channel has shards of its own there, and with them data files of its own. Theirs may be done
beside this channel's as long as it leaves these files where they are, and each column too: columns
come, and none goes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...delta.columns import Columns
from ...errors import TargetError

if TYPE_CHECKING:
    from ...delta.log_replay import Action


@dataclass(frozen=True)
class SharingChannels:
    """``apps``: the appIds of their positions; none where the table is this channel's alone."""

    apps: tuple[str, ...] = ()

    @classmethod
    def beside(cls, channel: str, channels: Sequence[str]) -> SharingChannels:
        """Those of ``channels`` that are not ``channel``."""
        return cls(tuple(f"spark_repl:{one}" for one in channels if one != channel))

    def __bool__(self) -> bool:
        return bool(self.apps)

    def has_made(self, actions: Sequence[Action]) -> bool:
        """Whether a commit is one of theirs: it bears the position of one, or it is a repair of
        rows, a copy's, or what brings columns."""
        made_by = [action["txn"]["appId"] for action in actions if "txn" in action]
        return any(one == app or one.startswith(f"{app}:") for one in made_by for app in self.apps)


ALONE = SharingChannels()


def leaves(actions: Sequence[Action], columns: Columns, own: Collection[str]) -> bool:
    """Whether a commit to a shared table adds and removes no data file of this channel's ``own``
    shards; ``columns``: the Delta table's."""
    (name,) = columns.partitions
    physical = columns.physical[columns.names.index(name)]
    for kind in ("add", "remove"):
        for one in (action[kind] for action in actions if kind in action):
            shard = (one.get("partitionValues") or {}).get(physical)
            if shard is None or shard in own:
                return False
    return True


def check(
    version: int,
    actions: Sequence[Action],
    before: Columns,
    after: Columns | None,
    own: Collection[str],
) -> None:
    """Raises TargetError for a commit of another channel's that this one can't go on behind.
    ``after``: the columns that it gives to the table; None: it leaves them."""
    if after is not None and not _grown(before, after):
        raise TargetError(f"version {version} takes columns away that this channel's rows have")
    if not leaves(actions, before, own):
        shards = ", ".join(sorted(own))
        raise TargetError(f"version {version} changes files of this channel's shards, {shards}")


def columns_in(actions: Sequence[Action]) -> Columns | None:
    """The columns that a commit gives to the table; None: it leaves its metadata."""
    new = next((a["metaData"] for a in actions if "metaData" in a), None)
    return Columns.of(new["schemaString"], new["partitionColumns"]) if new else None


def _grown(before: Columns, after: Columns) -> bool:
    """Whether all columns are there still, as they were, and others at most behind them."""
    number = len(before.names)
    return (
        after.names[:number] == before.names
        and after.physical[:number] == before.physical
        and after.types[:number] == before.types
        and after.partitions == before.partitions
    )
