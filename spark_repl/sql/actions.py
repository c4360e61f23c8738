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
    """``after``: None for the end, '' for FIRST, else the column after which it is added."""

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
    """``kind``: FOREIGN, CHECK, or '' if the statement leaves the kind open."""

    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SetCharset:
    """``charset`` may be a collation, or '' for the database's. ``convert``: whether the columns
    are converted as well."""

    charset: str
    convert: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    new: str


@dataclass(frozen=True, slots=True)
class UnloggedRows:
    """An action whose effect on rows is not in the log. ``come``: whether it brings rows that no
    log has."""

    reason: str
    come: bool = False


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """``partitioning``: None for REMOVE PARTITIONING."""

    partitioning: Partitioning | None


@dataclass(frozen=True, slots=True)
class ChangePartitions:
    """``verb``: ADD, DROP, TRUNCATE, REORGANIZE or EXCHANGE. ``names``: existing partitions, () for
    ALL. ``into``: new partitions. ``unknown``: why the new partitions are not understood.
    ``lists``: whether they are LIST partitions."""

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
    """``table``: the table that is altered, db.table. ``actions``: in the order of the text,
    without those that change nothing that definitions keep. ``exchanged``: the other table of
    EXCHANGE PARTITION. ``engine``: in upper case, '' if it stays. ``copies``: whether its clauses
    make the server rewrite all rows (ALGORITHM=COPY, ORDER BY, an engine other than InnoDB)."""

    table: str
    actions: tuple[Action, ...] = ()
    exchanged: str = ""
    engine: str = ""
    copies: bool = False

    @property
    def renamed(self) -> str:
        """Return the table's new name, '' if it keeps the old one."""
        return next((a.new for a in self.actions if isinstance(a, RenameTable)), "")

    @property
    def is_plain(self) -> bool:
        """Return whether all actions are about non-unique indexes, or about partitions that keep
        their rows."""
        return all(_is_plain(action) for action in self.actions)


def _is_plain(action: Action) -> bool:
    if isinstance(action, AddKey):
        return action.key.kind in ("INDEX", "FULLTEXT", "SPATIAL")
    if isinstance(action, ChangePartitions):
        return not action.reason
    return isinstance(action, PartitionBy)
