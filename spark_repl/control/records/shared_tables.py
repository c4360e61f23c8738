"""Shared tables: Delta tables that several channels feed, each with shards of its own.

What the channels agree on is a row of the control table of the channel that had the target first,
as notes of names are. The first channel to come writes the row, so that all have one folder. Each
start compares its own configuration with it. ``Shards`` is a reader's view: tables of one shape as
one table, with a column for the part of the name that differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from ...config.renaming import halves, is_shared, letters, shard_of, standing_for, whole_of
from ...errors import ConfigError, SettingError
from ...rules.channel_rows import ChannelRows
from ...sql.case_folding import fold

if TYPE_CHECKING:
    from ...config.tables import TableRule
    from ...tables.table_definition import TableDefinition
    from ..table.control import Control
    from ..table.cut import Cut

KIND = "shared_table"
_HINT = (
    "if no row can pass the filters of two channels, add disjoint = true to the table's rule"
    " ([[tables]]); verify reports keys that two channels have: docs/channels.md"
)


@dataclass(frozen=True)
class SharedTable:
    """``name``: the table's, as readers know it; ``channels``: those that feed it, the first of
    which tidies up; ``column``: what tells their shards apart; ``path``: of the Delta table, ""
    where nobody has made it; ``rows``: where row filters tell the channels' rows apart, what is
    known of each, by channel. ``disjoint``: whether the configuration declares that no row passes
    the filters of two channels; it is not recorded."""

    name: str
    channels: tuple[str, ...]
    column: str
    path: str = ""
    rows: tuple[tuple[str, ChannelRows], ...] = ()
    disjoint: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, rule: TableRule, shaped: TableDefinition | None = None) -> SharedTable:
        """What a channel's ``rule`` says of it; ``shaped``: the channel's table, where that is
        known."""
        own = ChannelRows.of(shaped) if shaped else ChannelRows(rule.row_filter)
        rows = ((rule.fed_by, own),) if rule.row_filter else ()
        return cls(rule.to, rule.channels, rule.shards_by, rows=rows, disjoint=rule.disjoint)

    @classmethod
    def from_row(cls, row: str) -> SharedTable:
        """Reads a row's detail; one that was written before row filters told rows apart has no
        ``rows``."""
        told = json.loads(row)
        rows = tuple((channel, ChannelRows.from_json(one)) for channel, one in told.get("rows", ()))
        return cls(told["name"], tuple(told["channels"]), told["column"], told["path"], rows)

    @property
    def row(self) -> str:
        """The row's detail."""
        recorded = asdict(self)
        del recorded["disjoint"]
        return json.dumps(recorded)

    def check(self, stands: SharedTable) -> None:
        """Raise SettingError if this, of a configuration, is not what is on record. Further
        channels may follow the recorded ones. A recorded channel keeps its filter and key. A new
        one has to declare that its filter is disjoint from the others."""
        known = stands.channels
        differs = {
            "the column that tells rows apart": (self.column, stands.column),
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
        self.check_declared(stands)
        recorded = dict(stands.rows)
        for channel, own in self.rows:
            if channel in recorded:
                own.check(recorded[channel], self.name)
                continue
            for other, rows in stands.rows:
                if reason := own.overlap(rows):
                    raise SettingError(
                        f"row_filter {own.row_filter} of {channel}, and {rows.row_filter} of"
                        f" {other}, which is on record: {reason}",
                        table=self.name,
                        hint="give each channel its own row_filter, and the table the same key at"
                        " all sources",
                    )

    def check_declared(self, stands: SharedTable | None) -> None:
        """Raise SettingError if row filters separate the channels' rows, and the configuration does
        not declare that they are disjoint. A channel on record needs no declaration: a version that
        proved it has accepted its filter, or an earlier start that had the declaration."""
        recorded = dict(stands.rows) if stands else {}
        for channel, own in self.rows:
            if not self.disjoint and channel not in recorded:
                raise SettingError(
                    f"nothing says that row_filter {own.row_filter} of {channel} selects no row of"
                    " the other channels",
                    table=self.name,
                    hint=_HINT,
                )

    def behind(self, stands: SharedTable) -> SharedTable:
        """What is on record, with the channels that have come, and ``known`` rows."""
        rows = dict(stands.rows)
        for channel, own in self.known:
            rows.setdefault(channel, own)
        return replace(stands, channels=self.channels, rows=tuple(rows.items()))

    @property
    def known(self) -> tuple[tuple[str, ChannelRows], ...]:
        """Those of the rows of which the key is known: they are on record."""
        return tuple((channel, rows) for channel, rows in self.rows if rows.key)


def shared_tables(first: Control) -> dict[str, SharedTable]:
    """Those on record, by their folded names. ``first``: the control table of the channel that had
    the target first."""
    tables = dict[str, SharedTable]()
    for row in first.rows(KIND):
        one = SharedTable.from_row(row["detail"])
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


@dataclass(frozen=True)
class Shards:
    """``parts``: what the ``%`` of ``pattern`` stands for in the name of each table, in order."""

    pattern: str
    parts: Mapping[str, str]

    @classmethod
    def of(cls, pattern: str, names: Iterable[str]) -> Shards:
        """Those of the tables ``names`` (db.table) that the pattern fits; all signs but ``%`` are
        plain letters. Raises ConfigError where it has not one ``%``, or fits none."""
        if letters(pattern).count("") != 1 or not all(pattern.partition(".")):
            raise ConfigError(
                f"{pattern!r} does not tell tables apart by one %", hint='such as "all.orders_%"'
            )
        asked = {name: standing_for(halves(pattern), halves(name)) for name in sorted(names)}
        parts = {name: values[0] for name, values in asked.items() if values is not None}
        if not parts:
            raise ConfigError(f"the cut has no table like {pattern}", hint=", ".join(asked))
        return cls(pattern, parts)

    def union(self, columns: Mapping[str, Mapping[str, str]], own: str) -> dict[str, str]:
        """The columns of all, by name in any case, in the order in which tables bring them, with
        their types. ``columns``: those of each table with their types; ``own``: the one that has
        the part. Raises ConfigError where a column has two types, or a table has ``own`` too."""
        made: dict[str, tuple[str, str, str]] = {}
        for table in self.parts:
            for name, kind in columns[table].items():
                first, there, declared = made.setdefault(name.lower(), (table, name, kind))
                if declared != kind:
                    raise ConfigError(
                        f"column {there} is {declared} in {first} and {kind} in {table}",
                        hint="while ALTERs arrive one by one: take another cut, or read them apart",
                    )
        if own.lower() in made:
            raise ConfigError(
                f"{made[own.lower()][0]} has a column {own} itself",
                hint="give the column that has the table's part another name",
            )
        return {name: kind for _, name, kind in made.values()}
