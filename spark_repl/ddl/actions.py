"""What ALTER TABLE, CREATE INDEX and DROP INDEX say, each action as it is written.

Names are those of the text; nothing here knows the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .column_clause import ColumnClause
    from .default_clause import Default
    from .key_clause import KeyClause


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
    """An action whose effect on the rows the log does not have."""

    reason: str


Action = (
    AddColumn | ChangeColumn | RenameColumn | DropColumn | SetDefault | SetVisible
    | AddKey | DropIndex | RenameIndex | DropConstraint | SetCharset | RenameTable | RowsGo
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alteration:
    """``table`` is what it is about, db.table; ``actions`` in the order of the text, without those
    that change nothing that is kept. ``exchanged``: the other table of EXCHANGE PARTITION."""

    table: str
    actions: tuple[Action, ...] = ()
    exchanged: str = ""

    @property
    def renamed(self) -> str:
        """The table's new name, '' if it keeps the old one."""
        return next((a.new for a in self.actions if isinstance(a, RenameTable)), "")

    @property
    def is_plain(self) -> bool:
        """Whether it concerns nothing but indexes that are not unique."""
        return all(_is_plain(action) for action in self.actions)


def _is_plain(action: Action) -> bool:
    if isinstance(action, AddKey):
        return action.key.kind in ("INDEX", "FULLTEXT", "SPATIAL")
    return False
