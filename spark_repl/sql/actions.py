"""Actions of ALTER TABLE, CREATE INDEX and DROP INDEX, as they are written.

Names are those of the text: this module does not know the table.
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
    """ADD COLUMN. ``after``: None for the end, '' for FIRST, otherwise the column after which it is
    added."""

    column: ColumnClause
    after: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE of a column. MODIFY is a CHANGE whose ``name`` is the new column's. ``after``: None if
    the column keeps its place."""

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
    """SET DEFAULT or DROP DEFAULT of a column. ``default``: None for DROP DEFAULT."""

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
    """DROP INDEX or DROP PRIMARY KEY. ``name`` is PRIMARY for the primary key."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameIndex:
    name: str
    new: str


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP of a constraint. ``kind``: FOREIGN, CHECK, or '' if the statement does not name the
    kind."""

    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SetCharset:
    """A new character set of the table. ``charset`` may be a collation, or '' for the database's.
    ``convert``: whether the columns are converted also."""

    charset: str
    convert: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    new: str


@dataclass(frozen=True, slots=True)
class UnloggedRows:
    """An action whose effect on rows is not in the log. ``come``: whether it adds rows that are in
    no log."""

    reason: str
    come: bool = False


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """PARTITION BY or REMOVE PARTITIONING. ``partitioning``: None for REMOVE PARTITIONING."""

    partitioning: Partitioning | None


@dataclass(frozen=True, slots=True)
class ChangePartitions:
    """A change of partitions. ``verb``: ADD, DROP, TRUNCATE, REORGANIZE or EXCHANGE. ``names``:
    existing partitions, () for ALL. ``into``: new partitions. ``unknown``: why the new partitions
    are not understood. ``lists``: whether they are LIST partitions."""

    verb: str
    names: tuple[str, ...] = ()
    into: tuple[Partition, ...] = ()
    unknown: str = ""
    lists: bool = False

    @property
    def reason(self) -> str:
        """Return what may happen to rows, '' if all rows stay. The server refuses a REORGANIZE that
        leaves out a range of RANGE partitions. It deletes such rows of LIST partitions silently."""
        if self.verb == "REORGANIZE" and not self.lists:
            return ""
        return _ROWS_GO.get(self.verb, "")


Action = (
    AddColumn | ChangeColumn | RenameColumn | DropColumn | SetDefault | SetVisible
    | AddKey | DropIndex | RenameIndex | DropConstraint | SetCharset | RenameTable | UnloggedRows
    | PartitionBy | ChangePartitions
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alteration:
    """The actions of an ALTER TABLE. ``table``: the altered table, db.table. ``actions``: in the
    order of the text, without actions that do not change a recorded definition. ``exchanged``: the
    other table of EXCHANGE PARTITION. ``engine``: in upper case, '' if it does not change.
    ``comment``: the table's new one; None if it does not change.
    ``copies``: whether its clauses make the server rewrite all rows (ALGORITHM=COPY, ORDER BY, an
    engine other than InnoDB)."""

    table: str
    actions: tuple[Action, ...] = ()
    exchanged: str = ""
    engine: str = ""
    copies: bool = False
    comment: str | None = None

    @property
    def renamed(self) -> str:
        """Return the table's new name, '' if it keeps the old one."""
        return next((a.new for a in self.actions if isinstance(a, RenameTable)), "")

    @property
    def is_plain(self) -> bool:
        """Return whether all actions concern non-unique indexes, or partitions that keep their
        rows."""
        return all(_is_plain(action) for action in self.actions)


def _is_plain(action: Action) -> bool:
    if isinstance(action, AddKey):
        return action.key.kind in ("INDEX", "FULLTEXT", "SPATIAL")
    if isinstance(action, ChangePartitions):
        return not action.reason
    return isinstance(action, PartitionBy)
