"""What ALTER TABLE, CREATE INDEX and DROP INDEX say, each action as it is written.

Names are those of the text; nothing here knows the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tables.partitioning import Partition, Partitioning
    from .column_clause import ColumnClause
    from .default_clause import Default
    from .keys import KeyClause


_ROWS_GO = {
    "DROP": "the rows of a partition are dropped",
    "TRUNCATE": "the rows of a partition are removed",
    "REORGANIZE": "rows are deleted whose value no partition lists any more",
    "EXCHANGE": "a partition's rows change places with another table's",
}


@dataclass(frozen=True, slots=True)
class AddColumn:
    """``after``: None at the end, '' FIRST, else the name behind AFTER."""

    column: ColumnClause
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE, and MODIFY, where ``name`` is the new column's. ``after``: None in its place."""

    name: str
    column: ColumnClause
    after: str | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    name: str
    new: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    """``default``: None for DROP DEFAULT."""

    name: str
    default: Default | None


@dataclass(frozen=True, slots=True)
class SetVisible:
    name: str
    visible: bool


@dataclass(frozen=True, slots=True)
class AddKey:
    key: KeyClause


@dataclass(frozen=True, slots=True)
class DropIndex:
    """``name`` is PRIMARY for the primary key."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameIndex:
    name: str
    new: str


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """``kind``: FOREIGN, CHECK, or '' where it may be any."""

    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SetCharset:
    """``charset`` may be a collation, or '' for the database's. ``convert``: the columns too."""

    charset: str
    convert: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    new: str


@dataclass(frozen=True, slots=True)
class RowsGo:
    """An action whose effect on the rows the log does not have. ``come``: it brings some, from
    where no log is."""

    reason: str
    come: bool = False


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """``partitioning``: None for REMOVE PARTITIONING."""

    partitioning: Partitioning | None


@dataclass(frozen=True, slots=True)
class ChangePartitions:
    """``verb``: ADD, DROP, TRUNCATE, REORGANIZE or EXCHANGE; ``names``: the partitions that are
    there, () for ALL; ``into``: those that come. ``unknown``: why these are not understood;
    ``lists``: whether they are of LIST."""

    verb: str
    names: tuple[str, ...] = ()
    into: tuple[Partition, ...] = ()
    unknown: str = ""
    lists: bool = False

    @property
    def reason(self) -> str:
        """What becomes of rows, or may, '' where all stay. Of RANGE the server refuses a REORGANIZE
        that leaves a range out; of LIST it deletes such rows without a word."""
        if self.verb == "REORGANIZE" and not self.lists:
            return ""
        return _ROWS_GO.get(self.verb, "")


Action = (
    AddColumn | ChangeColumn | RenameColumn | DropColumn | SetDefault | SetVisible
    | AddKey | DropIndex | RenameIndex | DropConstraint | SetCharset | RenameTable | RowsGo
    | PartitionBy | ChangePartitions
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alteration:
    """``table`` is what it is about, db.table; ``actions`` in the order of the text, without those
    that change nothing that is kept. ``exchanged``: the other table of EXCHANGE PARTITION;
    ``engine``: in upper case, '' where it stays; ``copies``: whether by its words the server writes
    all rows anew (ALGORITHM=COPY, ORDER BY, an engine other than InnoDB)."""

    table: str
    actions: tuple[Action, ...] = ()
    exchanged: str = ""
    engine: str = ""
    copies: bool = False

    @property
    def renamed(self) -> str:
        """The table's new name, '' if it keeps the old one."""
        return next((a.new for a in self.actions if isinstance(a, RenameTable)), "")

    @property
    def is_plain(self) -> bool:
        """Whether it concerns nothing but indexes that are not unique, and partitions that keep
        their rows."""
        return all(_is_plain(action) for action in self.actions)


def _is_plain(action: Action) -> bool:
    if isinstance(action, AddKey):
        return action.key.kind in ("INDEX", "FULLTEXT", "SPATIAL")
    if isinstance(action, ChangePartitions):
        return not action.reason
    return isinstance(action, PartitionBy)
