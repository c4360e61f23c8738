"""Foreign keys and indexes of a table, which a TABLE_MAP does not declare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY, in the table that references ``parent`` (db.table).

    ``referenced``: columns of the parent (none: its primary key). ``on_delete``, ``on_update``: ''
    for RESTRICT and NO ACTION.
    """

    name: str
    columns: tuple[str, ...]
    parent: str
    referenced: tuple[str, ...]
    on_delete: str
    on_update: str
    inline: bool = False
    """REFERENCES in a column, which servers before 9.0 take no notice of"""


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """A UNIQUE index. ``columns``: names in key order. ``whole``: no part of it is a prefix of a
    column or an expression."""

    name: str
    columns: tuple[str, ...]
    whole: bool = True
    prefixes: tuple[int, ...] = ()
    """beside ``columns``: how many characters or bytes, 0 for all; () where all are"""


@dataclass(frozen=True, slots=True)
class PlainIndex:
    """A non-unique index. Only the properties that affect the names of other indexes are recorded.

    ``generated``: MySQL created it for a foreign key, and drops it as soon as another index serves
    that key.
    """

    name: str
    columns: tuple[str, ...]
    generated: bool = False


def unique_of(listed: list[dict[str, Any]] | None) -> tuple[UniqueIndex, ...] | None:
    if listed is None:
        return None
    return tuple(
        UniqueIndex(u["name"], tuple(u["columns"]), u["whole"], tuple(u.get("prefixes", ())))
        for u in listed
    )


def plain_of(listed: list[dict[str, Any]] | None) -> tuple[PlainIndex, ...] | None:
    if listed is None:
        return None
    return tuple(PlainIndex(i["name"], tuple(i["columns"]), i["generated"]) for i in listed)


def foreign_keys_of(listed: list[dict[str, Any]] | None) -> tuple[ForeignKey, ...] | None:
    """Return foreign keys from their form in JSON or ``asdict``."""
    if listed is None:
        return None
    lists = ("columns", "referenced")
    return tuple(ForeignKey(**{**key, **{n: tuple(key[n]) for n in lists}}) for key in listed)
