"""Shared tables: Delta tables that several channels feed, each with shards of its own.

What the channels agree on is a row of the control table of the channel that had the target first,
as notes of names are. The first channel to come writes the row, so that all have one folder. Each
start compares its own configuration with it. Each channel records in its own control table whether
it registers tables in a catalog, because a shared table has one entry in it. ``Shards`` is a
reader's view: tables of one shape as one table, with a column for the part of the name that
differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from ...config.renaming import halves, is_shared, letters, shard_of, standing_for, whole_of
from ...errors import ConfigError, SettingError
from ...rules.channel_rows import ChannelRows
from ...tables.case_folding import fold

if TYPE_CHECKING:
    from ...config.tables import TableRule
    from ...tables.target_table import TargetTable
    from ..table.control import Control
    from ..table.cut import Cut

KIND, REGISTERS = "shared_table", "registers"
_HINT = (
    "if no row can pass the filters of two channels, add disjoint = true to the table's rule"
    " ([[tables]]); verify reports keys that two channels have: docs/channels.md"
)


@dataclass(frozen=True)
class SharedTable:
    """A table that several channels feed.

    - ``name``: the table's, as readers know it.
    - ``channels``: the channels that feed it; the first one maintains it.
    - ``column``: the column that identifies their shards.
    - ``path``: of the Delta table, "" if it does not exist.
    - ``rows``: the known properties of each channel's rows, if row filters separate them.
    - ``disjoint``: whether the configuration declares that no row passes the filters of two
      channels; it is not recorded.
    """

    name: str
    channels: tuple[str, ...]
    column: str
    path: str = ""
    rows: tuple[tuple[str, ChannelRows], ...] = ()
    disjoint: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, rule: TableRule, shaped: TargetTable | None = None) -> SharedTable:
        """Return what a channel's ``rule`` declares. ``shaped``: the channel's table, if it is
        known."""
        own = ChannelRows.of(shaped) if shaped else ChannelRows(rule.row_filter)
        rows = ((rule.fed_by, own),) if rule.row_filter else ()
        return cls(rule.to, rule.channels, rule.shards_by, rows=rows, disjoint=rule.disjoint)

    @classmethod
    def from_row(cls, row: str) -> SharedTable:
        """Parse a row's detail. Rows from versions without row filters have no ``rows``."""
        fields = json.loads(row)
        rows = tuple(
            (channel, ChannelRows.from_json(text)) for channel, text in fields.get("rows", ())
        )
        return cls(
            fields["name"], tuple(fields["channels"]), fields["column"], fields["path"], rows
        )

    @property
    def row(self) -> str:
        """Return the row's detail."""
        recorded = asdict(self)
        del recorded["disjoint"]
        return json.dumps(recorded)

    def check(self, recorded_table: SharedTable) -> None:
        """Raise SettingError if this table, of a configuration, differs from the record. Further
        channels may be added after the recorded ones. A recorded channel must keep its filter and
        key. A new channel has to declare that its filter is disjoint from the others."""
        recorded_channels = recorded_table.channels
        differs = {
            "the column that tells rows apart": (self.column, recorded_table.column),
            "channels": (list(self.channels[: len(recorded_channels)]), list(recorded_channels)),
        }
        for key, (own_value, recorded_value) in differs.items():
            if own_value != recorded_value:
                raise SettingError(
                    f"{key} is {json.dumps(own_value)}, and the channels that feed the table have"
                    f" {json.dumps(recorded_value)} on record",
                    table=self.name,
                    hint="give every one of them the same to, key_prefix and channels (a new one"
                    " comes last); or another target",
                )
        self.check_declared(recorded_table)
        recorded = dict(recorded_table.rows)
        for channel, own in self.rows:
            if channel in recorded:
                own.check(recorded[channel], self.name)
                continue
            for other, rows in recorded_table.rows:
                if reason := own.overlap(rows):
                    raise SettingError(
                        f"row_filter {own.row_filter} of {channel}, and {rows.row_filter} of"
                        f" {other}, which is on record: {reason}",
                        table=self.name,
                        hint="give each channel its own row_filter, and the table the same key at"
                        " all sources",
                    )

    def check_declared(self, recorded_table: SharedTable | None) -> None:
        """Raise SettingError if row filters separate the channels' rows, and the configuration does
        not declare that they are disjoint. A recorded channel needs no declaration: either an
        earlier version proved its filter disjoint, or an earlier start had the declaration."""
        recorded = dict(recorded_table.rows) if recorded_table else {}
        for channel, own in self.rows:
            if not self.disjoint and channel not in recorded:
                raise SettingError(
                    f"nothing says that row_filter {own.row_filter} of {channel} selects no row of"
                    " the other channels",
                    table=self.name,
                    hint=_HINT,
                )

    def with_record(self, recorded: SharedTable) -> SharedTable:
        """Return the ``recorded`` table, with the channels that were added, and ``known`` rows."""
        rows = dict(recorded.rows)
        for channel, own in self.known:
            rows.setdefault(channel, own)
        return replace(recorded, channels=self.channels, rows=tuple(rows.items()))

    @property
    def known(self) -> tuple[tuple[str, ChannelRows], ...]:
        """Return the channels' rows whose key is known; only these are recorded."""
        return tuple((channel, rows) for channel, rows in self.rows if rows.key)


def shared_tables(first: Control) -> dict[str, SharedTable]:
    """Return the recorded tables by their folded names. ``first``: the control table of the channel
    that had the target first."""
    tables = dict[str, SharedTable]()
    for row in first.rows(KIND):
        table = SharedTable.from_row(row["detail"])
        tables[fold(table.name)] = table
    return tables


def shared_shards(cut: Cut) -> dict[str, list[str]]:
    """Return, for each table that other channels also feed, the name parts of the cut's own
    shards."""
    shards: dict[str, list[str]] = {}
    for name, at in cut.tables.items():
        if is_shared(at.path):
            shards.setdefault(whole_of(name), []).append(shard_of(name))
    return shards


def shared_rules(rules: tuple[TableRule, ...]) -> Iterator[SharedTable]:
    """Return what a configuration declares about tables that several channels feed."""
    return (SharedTable.of(rule) for rule in rules if rule.channels)


def record_registers(control: Control, registers: bool) -> None:
    """Record whether the channel registers its tables in a catalog, if that has changed; the caller
    owns the channel. Raise as ``Control.write``."""
    if registers != does_register(control):
        control.write(REGISTERS, detail=json.dumps({REGISTERS: registers}))


def does_register(control: Control) -> bool:
    """Return whether the channel registers its tables in a catalog, as of its last start."""
    rows = control.rows(REGISTERS)
    return bool(rows and json.loads(rows[-1]["detail"])[REGISTERS])


@dataclass(frozen=True)
class Shards:
    """Tables that a pattern matches. ``parts``: the part of each table's name that the ``%`` of
    ``pattern`` matches, in order."""

    pattern: str
    parts: Mapping[str, str]

    @classmethod
    def of(cls, pattern: str, names: Iterable[str]) -> Shards:
        """Return the tables among ``names`` (db.table) that the pattern matches. All characters
        except ``%`` are literal. Raise ConfigError if it does not have exactly one ``%``, or
        matches none."""
        if letters(pattern).count("") != 1 or not all(pattern.partition(".")):
            raise ConfigError(
                f"{pattern!r} does not tell tables apart by one %", hint='such as "all.orders_%"'
            )
        matches = {name: standing_for(halves(pattern), halves(name)) for name in sorted(names)}
        parts = {name: values[0] for name, values in matches.items() if values is not None}
        if not parts:
            raise ConfigError(f"the cut has no table like {pattern}", hint=", ".join(matches))
        return cls(pattern, parts)

    def union(self, columns: Mapping[str, Mapping[str, str]], own: str) -> dict[str, str]:
        """Return the columns of all tables, without regard to case, in the order in which tables
        add them, with their types. ``columns``: the columns of each table with their types;
        ``own``: the column for the matched part. Raise ConfigError if a column has two types, or a
        table itself has ``own``."""
        by_name: dict[str, tuple[str, str, str]] = {}
        for table in self.parts:
            for name, kind in columns[table].items():
                first, column, declared = by_name.setdefault(name.lower(), (table, name, kind))
                if declared != kind:
                    raise ConfigError(
                        f"column {column} is {declared} in {first} and {kind} in {table}",
                        hint="while ALTERs arrive one by one: take another cut, or read them apart",
                    )
        if own.lower() in by_name:
            raise ConfigError(
                f"{by_name[own.lower()][0]} has a column {own} itself",
                hint="give the column that has the table's part another name",
            )
        return {name: kind for _, name, kind in by_name.values()}
