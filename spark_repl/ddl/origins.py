"""Where each column's values for the rows that are there come from after ALTER TABLE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .alteration import Filled, Kept, Now, Origin, Unknown
from .columns import same_type, zero_of
from .default_clause import constant
from .sql_tokens import NAME, WORD, Cursor, tokens

if TYPE_CHECKING:
    from ..binlog.definition import Column
    from .arrangement import Entry


def origins(entries: Sequence[Entry], columns: Sequence[Column]) -> tuple[Origin, ...]:
    """[columns]. ``columns`` as they are afterwards, side by side with ``entries``."""
    return _Origins(entries, columns).all()


class _Origins:
    def __init__(self, entries: Sequence[Entry], columns: Sequence[Column]) -> None:
        self._entries, self._columns = entries, columns
        self._at = {column.name.lower(): i for i, column in enumerate(columns)}

    def all(self) -> tuple[Origin, ...]:
        return tuple(self._origin(i) for i in range(len(self._columns)))

    def _origin(self, i: int) -> Origin:
        entry, column = self._entries[i], self._columns[i]
        if column.generated:
            return self._generated(i)
        if entry.before is not None:
            return Kept(entry.number, entry.clause is not None)
        if column.auto_increment:
            return Unknown(
                f"the numbers that column {column.name} gives to the rows that are there"
            )
        return _of_default(entry, column)

    def _generated(self, i: int) -> Origin:
        entry, column = self._entries[i], self._columns[i]
        before, inner = entry.before, _inner(column.generated)
        names = {word.lower() for kind, word in inner if kind in (NAME, WORD)}
        changed = [name for name in names if not self._is_stable(name)]
        said = f"the values of the generated column {column.name}"
        if changed:
            return Unknown(f"{said}: column {min(changed)} changes its type")
        kept = before is not None and before.generated and same_type(before, column)
        if before is not None and kept and _inner(before.generated) == inner:
            return Kept(entry.number, entry.clause is not None)
        cursor = _expression(column.generated)
        if (value := constant(cursor.again())) is not None:
            return Filled(value)
        copied = self._at.get(cursor.next().text.lower(), i) if len(inner) == 1 else i
        if copied == i:
            return Unknown(said)
        origin = self._origin(copied)
        if isinstance(origin, Kept) or same_type(self._columns[copied], column):
            return origin
        return Unknown(said)

    def _is_stable(self, name: str) -> bool:
        """Whether what the name means has the same values as before: a new column has, too."""
        i = self._at.get(name)
        if i is None or (before := self._entries[i].before) is None:
            return True
        after = self._columns[i]
        return same_type(before, after) and after.nullable >= before.nullable


def _of_default(entry: Entry, column: Column) -> Origin:
    default = entry.clause.default if entry.clause else None
    if default is None:
        filled = "NULL" if column.nullable else zero_of(column)
        kind = f"a NOT NULL column of type {column.type_name} has no default"
        return Unknown(f"{kind}: {column.name}") if filled is None else Filled(filled)
    if default.now:
        return Now()
    value = default.constant if default.literal is None else default.literal
    if value is None:
        return Unknown(f"the default of column {column.name} is an expression")
    return Filled(value)


def _expression(generated: str) -> Cursor:
    inner = Cursor(tokens(generated)).parentheses()
    while inner.at_mark("("):
        rest = inner.again()
        within = rest.parentheses()
        if not rest.done():
            break
        inner = within
    return inner


def _inner(generated: str) -> list[tuple[str, str]]:
    """The words of a generated column's expression, as they are compared."""
    cursor, words = _expression(generated), []
    while not cursor.done():
        token = cursor.next()
        plain = token.kind in (NAME, WORD)
        words.append((NAME if plain else token.kind, token.text.lower() if plain else token.text))
    return words
