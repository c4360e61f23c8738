"""Shared tables: Delta tables that several channels feed, each with shards of its own.

What the channels agree on is a row of the control table of the channel that had the target first,
as notes of names are: the first of them to come writes it, so that all have one folder, and each
start looks whether its own configuration says the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ..config.renaming import is_shared, shard_of, whole_of
from ..ddl.folded_name import fold
from ..errors import SettingError

if TYPE_CHECKING:
    from ..config.tables import TableRule
    from .control import Control
    from .cut import Cut

KIND = "shared_table"


@dataclass(frozen=True)
class SharedTable:
    """``name``: the table's, as readers know it; ``channels``: those that feed it, the first of
    which tidies up; ``column``: what tells their shards apart; ``path``: of the Delta table, ""
    where nobody has made it."""

    name: str
    channels: tuple[str, ...]
    column: str
    path: str = ""

    @classmethod
    def of(cls, rule: TableRule) -> SharedTable:
        return cls(rule.to, rule.channels, rule.key_prefix)

    @property
    def row(self) -> str:
        """The row's detail."""
        return json.dumps(asdict(self))

    def check(self, stands: SharedTable) -> None:
        """Raises SettingError where this, of a configuration, is not what is on record. Channels
        may have come, behind those that are there."""
        known = stands.channels
        differs = {
            "key_prefix": (self.column, stands.column),
            "channels": (list(self.channels[: len(known)]), list(known)),
        }
        for key, (mine, theirs) in differs.items():
            if mine != theirs:
                raise SettingError(
                    f"{key} is {json.dumps(mine)}, and the channels that feed the table have"
                    f" {json.dumps(theirs)} on record",
                    table=self.name,
                    hint="give every one of them the same to, key_prefix and channels (a new one"
                    " comes last); or another target",
                )

    def behind(self, stands: SharedTable) -> SharedTable:
        """What is on record, with the channels that have come."""
        return replace(stands, channels=self.channels)


def shared_tables(first: Control) -> dict[str, SharedTable]:
    """Those on record, by their folded names. ``first``: the control table of the channel that had
    the target first."""
    tables = dict[str, SharedTable]()
    for row in first.rows(KIND):
        detail = json.loads(row["detail"])
        one = SharedTable(
            detail["name"], tuple(detail["channels"]), detail["column"], detail["path"]
        )
        tables[fold(one.name)] = one
    return tables


def shared_shards(cut: Cut) -> dict[str, list[str]]:
    """What tells the cut's own shards apart, of each table that other channels feed, too."""
    shards: dict[str, list[str]] = {}
    for name, at in cut.tables.items():
        if is_shared(at.path):
            shards.setdefault(whole_of(name), []).append(shard_of(name))
    return shards


def shared_rules(rules: tuple[TableRule, ...]) -> Iterator[SharedTable]:
    """What a configuration says of tables that several channels feed."""
    return (SharedTable.of(rule) for rule in rules if rule.channels)
