"""ChannelRows: the rows that one channel has in a Delta table which several channels feed by row
filters.

The user declares that the filters are disjoint (``disjoint`` of ``[[tables]]``). Nothing proves it:
``verify`` compares the keys of the channels' rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import OTHER_TARGET, SettingError

if TYPE_CHECKING:
    from ..tables.table_definition import TableDefinition
    from ..tables.target_table import TargetTable


@dataclass(frozen=True)
class ChannelRows:
    """A channel's ``row_filter``, and the columns of the ``key`` in lower case, sorted, each with a
    kind; () if the key is not known yet.

    The kind is "". Versions that proved filters to be disjoint recorded the collation or type of a
    column, which the record keeps.
    """

    row_filter: str
    key: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, shaped: TargetTable) -> ChannelRows:
        """Return the rows of a table as the target has it."""
        return cls(shaped.row_filter, tuple((name, "") for name in _key_names(shaped)))

    @classmethod
    def from_json(cls, recorded: Mapping[str, object]) -> ChannelRows:
        key = recorded["key"]
        assert isinstance(key, list)
        return cls(str(recorded["row_filter"]), tuple((str(n), str(kind)) for n, kind in key))

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.key)

    def overlap(self, other: ChannelRows) -> str:
        """Return why the rows of two channels cannot be disjoint; "" if they can be. Keys that are
        not known yet are not compared."""
        if self.row_filter == other.row_filter:
            return "the two channels have the same filter"
        if self.key and other.key and self.key_names != other.key_names:
            return f"the key is {', '.join(self.key_names)}, and {', '.join(other.key_names)}"
        return ""

    def check(self, recorded: ChannelRows, table: str) -> None:
        """Raise SettingError if the filter or the key of ``table`` is not the recorded one. A key
        that is not known yet is not compared."""
        pairs = {
            "row_filter": (self.row_filter, recorded.row_filter),
            "the key": (", ".join(self.key_names), ", ".join(recorded.key_names)),
        }
        for what, (own, old) in pairs.items():
            if own and old and own != old:
                raise SettingError(
                    f"{what} is {own}, and this channel has {old} on record",
                    table=table,
                    hint="take the change back, or use another target",
                )


def _key_names(table: TableDefinition) -> list[str]:
    return sorted(table.columns[number].name.lower() for number in table.primary_key)


def check_key_stays(before: TargetTable, after: TableDefinition) -> None:
    """Raise SettingError if the key of a table that several channels feed by row filters gets other
    columns, because the channels' keys could then no longer be compared."""
    if not before.is_separated_by_filter:
        return
    old, new = map(_key_names, (before, after))
    if old != new:
        raise SettingError(
            f"the key ({', '.join(old)}) would be ({', '.join(new) or 'none'}), by which the"
            " channels that feed the table tell their rows apart",
            table=before.name,
            hint="leave the statement out: spark-repl skip --config F --gtid GTID; or"
            f" {OTHER_TARGET}",
        )
