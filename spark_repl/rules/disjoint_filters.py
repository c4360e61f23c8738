"""Told apart: tables of several channels that are one Delta table, by what their row filters say of
a column of the key, so that no two of the channels ever have rows of one key.

That is known by the words of the filters alone, whatever rows there are: where what is known does
not do for it, the channels are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from ..binlog.charsets import comparing
from ..binlog.charsets.charset import NAMES, name_of, number_of
from ..convert.type_change import TypeFamily, family_of
from ..errors import OTHER_TARGET, DecodeError, SettingError
from .filter_domains import passing_values
from .metadata_columns import shard_column
from .value_sets import Texts, Values, Wholes

if TYPE_CHECKING:
    from ..tables.column import Column
    from ..tables.table_definition import TableDefinition

HINT = (
    "have each channel's row_filter say, joined by AND, which values of one column of the key it"
    " has: by =, IN, <, BETWEEN or MOD of a whole number, by = or IN of a text: docs/channels.md"
)
_WHOLE, _OTHER = "whole number", "other"


@dataclass(frozen=True)
class ChannelRows:
    """What a channel has of a table that several feed: ``row_filter``, and the ``key``'s columns,
    in lower case, each with the name of the collation by which it is compared, ``whole number`` or
    ``other``, and "" where the filter does not say which values it has; (): the key is not known
    yet."""

    row_filter: str
    key: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, shaped: TableDefinition) -> ChannelRows:
        """Those of a target's table."""
        said = passing_values(shaped.row_filter) if shaped.row_filter else {}
        columns = {shaped.columns[number].name.lower(): number for number in shaped.primary_key}
        kinds = (
            (name, _kind(shaped.columns[number]) if name in said else "")
            for name, number in sorted(columns.items())
        )
        return cls(shaped.row_filter, tuple(kinds))

    @classmethod
    def from_json(cls, listed: Mapping[str, object]) -> ChannelRows:
        key = listed["key"]
        assert isinstance(key, list)
        return cls(str(listed["row_filter"]), tuple((str(n), str(kind)) for n, kind in key))

    def overlap(self, other: ChannelRows) -> str:
        """Why rows of one key may be in both; "" where none can. What is not known of the columns
        is taken for what it has to be."""
        names, theirs = ([name for name, _ in one.key] for one in (self, other))
        if names and theirs and names != theirs:
            return f"the key is {', '.join(names)}, and {', '.join(theirs)}"
        mine, others = passing_values(self.row_filter), passing_values(other.row_filter)
        for name in mine.keys() & others.keys():
            kinds = {kind for kind in (self._kind(name), other._kind(name)) if kind is not None}
            if len(kinds) < 2 and _is_apart(mine[name], others[name], *kinds):
                return ""
        return "nothing that they say of a column of the key shows that no row passes both"

    def check(self, stands: ChannelRows, table: str) -> None:
        """Raises SettingError where this, of a ``table``, is not what ``stands`` on record, but
        for what was not known then."""
        now = zip(self.key, stands.key, strict=False)
        one = len(self.key) == len(stands.key) and all(
            mine == (name, kind if kind != _OTHER else mine[1]) for mine, (name, kind) in now
        )
        differs = {
            "row_filter": (self.row_filter, stands.row_filter),
            "the key": ("", "") if one else (self.described, stands.described),
        }
        for what, (mine, theirs) in differs.items():
            if mine and theirs and mine != theirs:
                raise SettingError(
                    f"{what} is {mine}, and this channel has {theirs} on record",
                    table=table,
                    hint="take the change back, or use another target",
                )

    @property
    def described(self) -> str:
        """The key, as errors show it."""
        return ", ".join(f"{name}: {kind}" if kind else name for name, kind in self.key)

    def _kind(self, name: str) -> str | None:
        """None where the key is not known; "" of a column that is not in it."""
        return dict(self.key).get(name, "") if self.key else None


def check_told_apart(shaped: TableDefinition) -> None:
    """Raises SettingError for a target's table, of those that other channels feed, too, whose row
    filter says nothing by which its rows could be told apart from theirs."""
    if shard_column(shaped) < 0 or not shaped.row_filter:
        return
    rows = ChannelRows.of(shaped)
    kinds, passing = dict(rows.key), passing_values(shaped.row_filter)
    if any(_fits(values, kinds.get(name, "")) for name, values in passing.items()):
        return
    raise SettingError(
        f"row_filter {shaped.row_filter} says of no column of the key ({rows.described}) which"
        " values this channel has, by which the channels' rows could be told apart",
        table=shaped.name,
        hint=HINT,
    )


def check_as_told(there: TableDefinition, told: TableDefinition) -> None:
    """Raises SettingError where the log tells of another collation than that by which such a table
    was found to be told apart."""
    if shard_column(there) >= 0 and there.row_filter:
        ChannelRows.of(told).check(ChannelRows.of(there), there.name)


def check_key_stays(there: TableDefinition, after: TableDefinition) -> None:
    """Raises SettingError where such a table gets a key of other columns."""
    if shard_column(there) < 0 or not there.row_filter:
        return
    before, behind = ([name for name, _ in ChannelRows.of(one).key] for one in (there, after))
    if before != behind:
        raise SettingError(
            f"the key ({', '.join(before)}) would be ({', '.join(behind) or 'none'}), by which the"
            " channels that feed the table tell their rows apart",
            table=there.name,
            hint="leave the statement out: spark-repl skip --config F --gtid GTID; or"
            f" {OTHER_TARGET}",
        )


def _kind(column: Column) -> str:
    """By what values of the column are equal."""
    family = family_of(column)
    if family == TypeFamily.INTEGER:
        return _WHOLE
    if family == TypeFamily.BYTES:
        return "binary"
    known = family == TypeFamily.TEXT and not column.assumed and column.compares in NAMES
    return name_of(column.compares) if known else _OTHER


def _fits(values: Values, kind: str) -> bool:
    """Whether a set is of values that a column of such a kind has."""
    return kind == _WHOLE if isinstance(values, Wholes) else kind not in (_WHOLE, _OTHER, "")


def _is_apart(mine: Values, theirs: Values, kind: str | None = None) -> bool:
    if kind is not None and not (_fits(mine, kind) and _fits(theirs, kind)):
        return False
    if isinstance(mine, Wholes):
        return isinstance(theirs, Wholes) and mine.is_apart(theirs)
    if isinstance(theirs, Wholes):
        return False
    if kind is None:
        return _may_be_apart(mine, theirs)
    try:
        return mine.is_apart(theirs, partial(_equal, number_of(kind, 0)))
    except DecodeError:
        return False


def _may_be_apart(mine: Texts, theirs: Texts) -> bool:
    """Whether there may be a collation by which no text is in both."""
    if mine.others or theirs.others:
        return not (mine.others and theirs.others)
    return mine.listed.isdisjoint(theirs.listed)


def _equal(collation: int, texts: Iterable[str]) -> frozenset[str]:
    """One for all that the collation takes for one. Raises DecodeError where it isn't known."""
    values = comparing.comparable(pa.array(sorted(texts), pa.string()), collation)
    return frozenset(values.to_pylist())
