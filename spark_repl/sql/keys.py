"""Keys, indexes and constraints: as statements write them (``KeyClause``), and as the table gets
them (``Key``), with names, order, and the key that the log names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import StatementError
from ..tables.column import ColumnType
from ..tables.table_keys import PlainIndex, UniqueIndex
from . import foreign_keys
from .new_columns import characters
from .partition_clause import at_partitioning

if TYPE_CHECKING:
    from ..tables.column import Column
    from ..tables.table_keys import ForeignKey
    from .sql_tokens import Cursor

PRIMARY, UNIQUE = "PRIMARY", "UNIQUE"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table. ``kind``: as in KeyClause; INDEX with ``generated`` for a foreign key's
    index. ``columns``: their names. ``whole``: whether no part is a prefix or an expression."""

    kind: str
    name: str
    columns: tuple[str, ...]
    whole: bool = True
    generated: bool = False
    prefixes: tuple[int, ...] = ()


def position(columns: Sequence[Column], name: str) -> int:
    """Return the index of the column with that name; -1 if there is none."""
    wanted = name.lower()
    return next((i for i, c in enumerate(columns) if c.name.lower() == wanted), -1)


def added(keys: list[Key], clauses: Sequence[KeyClause], columns: Sequence[Column]) -> list[Key]:
    """Return a table's keys with new ones. Raise StatementError (1072) for a column that the table
    lacks."""
    keys = list(keys)
    new = [(clause, _key(clause, columns)) for clause in clauses if clause.kind != "CHECK"]
    every = [*keys, *(key for _, key in new)]
    for clause, key in new:
        if key.generated and _is_covered(key, every):
            every.remove(key)
        elif key.name:
            keys.append(key)
        else:
            plain = all(part.column for part in clause.parts)
            stem = clause.parts[0].column if plain else "functional_index"
            keys.append(replace(key, name=_default_name(stem, [k.name for k in keys])))
    return [key for key in keys if not (key.generated and _is_covered(key, keys))]


def _key(clause: KeyClause, columns: Sequence[Column]) -> Key:
    names, prefixes = [], []
    for part in clause.parts:
        if part.column:
            at = position(columns, part.column)
            if at < 0:
                reason = f"Key column '{part.column}' doesn't exist in table"
                raise StatementError(reason, number=1072)
            names.append(columns[at].name)
            prefixes.append(_prefix(part.prefix, columns[at]))
    whole = len(names) == len(clause.parts) and not any(prefixes)
    kind = "INDEX" if clause.kind == "FOREIGN" else clause.kind
    name = PRIMARY if kind == PRIMARY else clause.name
    generated = clause.kind == "FOREIGN"
    return Key(kind, name, tuple(names), whole, generated, _short(prefixes))


def _prefix(length: int, column: Column) -> int:
    """Return the length of a key part; 0 if it is the whole column."""
    longest = characters(column)
    return 0 if column.type != ColumnType.BLOB and length >= longest else length


def _short(prefixes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prefixes) if any(prefixes) else ()


def carried(key: Key, new: Mapping[str, Column]) -> Key | None:
    """Return a key after the table's columns change. ``new``: old name in lower case -> the new
    column, without dropped ones. Return None if all columns of the index are dropped, because the
    index is then dropped also."""
    lengths = key.prefixes or (0,) * len(key.columns)
    left = [(n.lower(), p) for n, p in zip(key.columns, lengths, strict=True) if n.lower() in new]
    if key.columns and not left:
        return None
    had_expression = not key.whole and not any(key.prefixes)
    prefixes = [_prefix(p, new[n]) if p else 0 for n, p in left]
    whole = not had_expression and not any(prefixes)
    names = tuple(new[n].name for n, _ in left)
    return replace(key, columns=names, whole=whole, prefixes=_short(prefixes))


def _is_covered(key: Key, other_keys: Sequence[Key]) -> bool:
    return any(
        other is not key
        and other.kind in (PRIMARY, UNIQUE, "INDEX")
        and (other.whole or other.kind == "INDEX")
        and len(other.columns) >= len(key.columns)
        and all(a.lower() == b.lower() for a, b in zip(key.columns, other.columns, strict=False))
        for other in other_keys
    )


def _default_name(stem: str, used: Sequence[str]) -> str:
    """Return the first column's name, with _2, _3 and so on if an index has that name."""
    names = {name.lower() for name in (*used, PRIMARY)}
    name, number = stem, 2
    while name.lower() in names:
        name, number = f"{stem}_{number}", number + 1
    return name


def ordered(
    keys: Sequence[Key], columns: Sequence[Column], loose: Collection[str] = ()
) -> list[Key]:
    """Return keys in the order in which the server keeps them. The order decides which key the log
    contains. ``loose``: names, in lower case, of columns that only the primary key makes NOT NULL.
    They count as nullable for keys that are written before it (measured on 9.7.4)."""
    nullable = set(loose)
    ranks: list[tuple[bool, bool, bool, bool, bool, int]] = []
    for key in keys:
        names = {name.lower() for name in key.columns}
        if key.kind == PRIMARY:
            nullable -= names
        key_columns = [columns[position(columns, name)] for name in key.columns]
        null = not names or any(c.nullable for c in key_columns) or not names.isdisjoint(nullable)
        expression = not key.whole and not any(key.prefixes)
        virtual = expression or any(c.generated.endswith("VIRTUAL") for c in key_columns)
        plain, partial = key.kind not in (PRIMARY, UNIQUE), bool(key.prefixes)
        rank = (key.kind != PRIMARY, plain, null and not plain, partial and not plain, virtual)
        ranks.append((*rank, len(ranks)))
    return [keys[rank[-1]] for rank in sorted(ranks)]


def logged(keys: Sequence[Key], columns: Sequence[Column]) -> tuple[int, ...]:
    """Return the primary key of ``ordered`` keys. If there is none, return the UNIQUE index that
    the server logs as primary key: the first one whose columns are all NOT NULL and complete, with
    indexes on virtual columns last (measured on 9.7.4: TABLE_MAP contains it as primary key)."""
    for key in keys:
        numbers = tuple(position(columns, name) for name in key.columns)
        if key.kind == PRIMARY or (
            key.kind == UNIQUE and key.whole and not any(columns[i].nullable for i in numbers)
        ):
            return numbers
    return ()


def unique_of(keys: Sequence[Key]) -> tuple[UniqueIndex, ...]:
    return tuple(
        UniqueIndex(k.name, k.columns, k.whole, k.prefixes) for k in keys if k.kind == UNIQUE
    )


def plain_of(keys: Sequence[Key]) -> tuple[PlainIndex, ...]:
    plain = [key for key in keys if key.kind not in (PRIMARY, UNIQUE)]
    return tuple(PlainIndex(k.name, k.columns, k.generated) for k in plain)


KINDS = ("PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A part of a key. ``column``: '' for an expression. ``prefix``: in characters or bytes, 0 for
    the whole column."""

    column: str
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class KeyClause:
    """A key as a statement writes it. ``kind``: PRIMARY, UNIQUE, INDEX, FULLTEXT, SPATIAL, FOREIGN
    or CHECK. ``name``: the index's, '' if the server chooses it. ``foreign``: the foreign key, with
    the constraint's name."""

    kind: str
    name: str = ""
    parts: tuple[KeyPart, ...] = ()
    foreign: ForeignKey | None = None


def at_key(cursor: Cursor) -> bool:
    """Return whether a key or constraint comes next, not a column."""
    return cursor.at("CONSTRAINT", *KINDS)


def read_key(cursor: Cursor, table: str) -> KeyClause:
    """Read a key or constraint with its options. Raise StatementError."""
    constraint = ""
    if cursor.word("CONSTRAINT") and not cursor.at(*KINDS):
        constraint = cursor.name()
    kind = cursor.word(*KINDS)
    if kind == "FOREIGN":
        key = foreign_keys.foreign_key(cursor.again(), table, constraint)
        cursor.expect("KEY")
        own = "" if cursor.at_symbol("(") else cursor.name()
        skip_to_end(cursor)
        parts = tuple(KeyPart(column) for column in key.columns)
        return KeyClause("FOREIGN", constraint or own, parts, key)
    if kind == "CHECK" or not kind:
        cursor.parentheses()
        skip_to_end(cursor)
        return KeyClause("CHECK", constraint)
    if kind in ("PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL"):
        cursor.word("KEY", "INDEX")
    name = "" if cursor.at_symbol("(") or cursor.at("USING") else cursor.name()
    return index(cursor, "INDEX" if kind == "KEY" else kind, name or constraint)


def index(cursor: Cursor, kind: str, name: str) -> KeyClause:
    """Read on after an index's name: ``[USING x] (parts) options``. Raise StatementError."""
    if cursor.word("USING", "TYPE"):
        cursor.next()
    parts = tuple(_part(part) for part in cursor.parentheses().parts())
    skip_to_end(cursor)
    return KeyClause(kind, name, parts)


def _part(cursor: Cursor) -> KeyPart:
    if cursor.at_symbol("("):
        return KeyPart("")
    name = cursor.name()
    prefix = cursor.number() if cursor.symbol("(") else 0
    return KeyPart(name, prefix)


def skip_to_end(cursor: Cursor) -> None:
    """Skip the rest of one element. A comma within parentheses does not end it; PARTITION BY and
    REMOVE PARTITIONING do."""
    while not (
        cursor.at_end() or cursor.at_symbol(",") or cursor.at_symbol(";") or at_partitioning(cursor)
    ):
        if cursor.at_symbol("("):
            cursor.parentheses()
        else:
            cursor.next()
