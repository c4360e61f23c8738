"""The source of each column's values for existing rows after ALTER TABLE.

``apply_alter`` calls ``column_sources`` with the table's columns before and after a statement. The
result has one entry for each column: its old values, a constant, the time of the statement, an
expression over other columns, or ``UnknownValue`` with a reason. No row is read here; the workers
compute the values (``write.alter.altered_rows``).

Invariant: a source is returned only if the log surely determines the value that the server stored.
What depends on a setting that is not logged, on a collation, or on the server's choice of algorithm
is an ``UnknownValue``, never an error and never a guess: the table is then copied. Reasons hide
literals, because the column may be masked. Design: docs/design/schema-changes.md,
docs/design/expressions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..convert.to_json import normal_json
from ..errors import NotComputed
from ..expressions.collations import compared, compares_nothing
from ..expressions.expression_reader import read_expression
from ..expressions.resolution import resolved
from ..sql.default_clause import NOT_KNOWN, Default, constant, is_moment
from ..sql.default_literals import normalize
from ..sql.new_columns import is_longer, prints_alike, same_collation, same_type, zero_of
from ..sql.session import PAD_CHAR_TO_FULL_LENGTH, STRICT, TIME_TRUNCATE_FRACTIONAL
from ..sql.sql_tokens import NAME, NO_BACKSLASH_ESCAPES, STRING, WORD, Cursor, tokens
from ..sql.string_literals import in_own_charset
from ..tables.column import ColumnType
from .alteration import (
    CarriedColumn,
    ColumnSource,
    ComputedValue,
    ConstantValue,
    CurrentTimestamp,
    UnknownValue,
)

if TYPE_CHECKING:
    from ..sql.session import Session
    from ..tables.column import Column
    from .column_actions import PendingColumn

_TIMESTAMPS = (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP_OLD)
# Functions of the session's time zone, or of its lc_time_names.
_OF_SESSION = frozenset((
    "from_unixtime", "unix_timestamp", "dayname", "monthname", "date_format", "time_format",
    "str_to_date",
))  # fmt: skip
_TWICE = "what a backslash in it becomes under NO_BACKSLASH_ESCAPES depends on the server"

_IN_PLACE = (
    "column {} becomes other text, and whether its server has computed them again (ALGORITHM) is"
    " not in the log"
)


def column_sources(
    entries: Sequence[PendingColumn],
    columns: Sequence[Column],
    session: Session,
    *,
    converts: bool,
    copies: bool,
) -> tuple[ColumnSource, ...]:
    """Return the source of each column's values. ``columns`` are those after the statement,
    parallel to ``entries``. ``converts``: whether all columns are converted to a character set.
    ``copies``: whether the server computes STORED columns again."""
    return _Origins(entries, columns, session, converts, copies).all()


class _Origins:
    def __init__(
        self,
        entries: Sequence[PendingColumn],
        columns: Sequence[Column],
        session: Session,
        converts: bool,
        copies: bool,
    ) -> None:
        self._entries, self._columns, self._session = entries, columns, session
        self._converts, self._copies = converts, copies
        self._printed = set[int]()  # virtual columns with inputs that have another text now
        self._at = {column.name.lower(): i for i, column in enumerate(columns)}
        self._known: dict[int, ColumnSource] = {}
        self._begun: set[int] = set()

    def all(self) -> tuple[ColumnSource, ...]:
        return tuple(self._of(i) for i in range(len(self._columns)))

    def _of(self, i: int) -> ColumnSource:
        if i not in self._known:
            self._begun.add(i)
            self._known[i] = self._origin(i)
        return self._known[i]

    def _origin(self, i: int) -> ColumnSource:
        entry, column = self._entries[i], self._columns[i]
        if column.generated:
            return self._generated(i)
        default = entry.clause.default if entry.clause else None
        if default == NOT_KNOWN and (entry.before is None or entry.before.nullable):
            return UnknownValue(
                f"what TIMESTAMP of column {column.name} means: explicit_defaults_for_timestamp is"
                " not in the log"
            )
        if entry.before is not None:
            return CarriedColumn(entry.number, entry.clause is not None)
        if column.auto_increment:
            return UnknownValue(
                f"the numbers that column {column.name} gives to the rows that are there"
            )
        if default is not None and default.unknown:
            return UnknownValue(
                f"the default of column {column.name} is not known: {default.unknown}"
            )
        if default is not None and default.expression:
            subject = f"the default of column {column.name} is an expression"
            if self._is_escaped_twice(default.expression, i):
                return UnknownValue(f"{subject}: {_TWICE}")
            if is_moment(default.expression, column):
                return CurrentTimestamp()
            if default.constant is None:
                return self._computed(i, default.expression, subject)
        return _of_default(entry, column, self._session)

    @property
    def _reading(self) -> Session:
        """Return a session that reads a virtual column: not strict, with an unknown time zone."""
        bits = self._session.sql_mode & ~(STRICT | TIME_TRUNCATE_FRACTIONAL)
        return replace(self._session, sql_mode=bits, time_zone="")

    def _generated(self, i: int) -> ColumnSource:
        entry, column = self._entries[i], self._columns[i]
        before, inner = entry.before, _inner(column.generated, self._mode(i))
        subject = f"the values of the generated column {column.name}"
        same_kind = before is not None and before.generated and same_type(before, column)
        if before is not None and same_kind and _inner(before.generated, 0) == inner:
            names = {word for kind, word in inner if kind == NAME}
            stable = all(self._is_stable(name, defaults="default" in names) for name in names)
            if printed := self._printed_otherwise(i, names):
                if not column.generated.endswith("VIRTUAL"):
                    return UnknownValue(f"{subject}: {_IN_PLACE.format(printed)}")
                self._printed.add(i)
            elif stable and not (self._compared_otherwise(i, names) or self._is_read_again(i)):
                return CarriedColumn(entry.number, entry.clause is not None)
        cursor = _expression(column.generated, self._mode(i))
        expression, _, _ = column.generated.rpartition(" ")
        if self._is_escaped_twice(expression, i):
            return UnknownValue(f"{subject}: {_TWICE}")
        if (value := constant(cursor.again())) is not None:
            virtual = column.generated.endswith("VIRTUAL")
            default = in_own_charset(
                Default(constant=value, charset=self._charset(i, cursor)), column
            )
            if default.constant is None:
                return UnknownValue(f"{subject}: {default.unknown}")
            session = self._reading if virtual else self._session
            return _filled(default.constant, column, session, assigned=True)
        return self._computed(i, expression, subject)

    def _charset(self, i: int, cursor: Cursor) -> str:
        """Return the character set of an expression that is a string, as ``Default`` has it."""
        of_session = self._session.connection if self._entries[i].clause is not None else ""
        return cursor.charset() or of_session

    def _mode(self, i: int) -> int:
        """Return the sql_mode in which the column's expression was written; the server writes in
        mode 0."""
        return self._session.sql_mode if self._entries[i].clause is not None else 0

    def _is_escaped_twice(self, expression: str, i: int) -> bool:
        """Return whether the server writes the expression with escapes, and reads it without them
        (measured on 9.7.4)."""
        mode = self._mode(i)
        return bool(mode & NO_BACKSLASH_ESCAPES) and any(
            token.kind == STRING and "\\" in token.text for token in tokens(expression, mode)
        )

    def _computed(self, i: int, expression: str, subject: str) -> ColumnSource:
        column, session = self._columns[i], self._session
        virtual = column.generated.endswith("VIRTUAL")
        written = self._entries[i].clause is not None
        try:
            node = resolved(
                expression,
                session.sql_mode if written else None,
                self._columns,
                i,
                session,
                virtual=virtual,
            )
        except NotComputed as reason:
            return UnknownValue(f"{subject}: {reason}")
        for number in node.columns:
            if isinstance(origin := self._of(number), UnknownValue):
                return UnknownValue(f"{subject}: {origin.reason}")
        return ComputedValue(node, virtual)

    def _inputs(self, i: int, names: set[str]) -> list[int]:
        """Return the existing columns of these names, except ``i``."""
        numbers = [self._at[name] for name in sorted(names) if name in self._at]
        return [n for n in numbers if n != i and self._entries[n].before is not None]

    def _written(self, number: int) -> bool:
        """Return whether the statement names the column's type, or converts the column."""
        return self._converts or self._entries[number].clause is not None

    def _printed_otherwise(self, i: int, names: set[str]) -> str:
        """Return the name of an input of column ``i`` whose unchanged values may have another text
        now, or that is computed from such a column; "" if there is none."""
        for number in self._inputs(i, names):
            before, after = self._entries[number].before, self._columns[number]
            if number not in self._begun:
                self._of(number)
            alike = before is None or not self._written(number) or prints_alike(before, after)
            if number in self._printed or not alike:
                return after.name
        return ""

    def _is_read_again(self, i: int) -> bool:
        """Return whether the server computes the STORED column ``i`` again with an expression that
        depends on the session. The rows may have been written in another session."""
        stored = self._columns[i].generated.endswith("STORED")
        return self._copies and stored and self._reads_session(i)

    def _reads_session(self, i: int) -> bool:
        names = {word for kind, word in _inner(self._columns[i].generated, self._mode(i))}
        inputs = [self._at[name] for name in sorted(names) if name in self._at]
        return not names.isdisjoint(_OF_SESSION) or any(self._is_of_session(n) for n in inputs)

    def _is_of_session(self, number: int) -> bool:
        """Return whether an expression with the column may have other values in another session."""
        column = self._columns[number]
        if column.generated.endswith("VIRTUAL") and self._reads_session(number):
            return True
        pads = bool(self._session.sql_mode & PAD_CHAR_TO_FULL_LENGTH)
        return column.type == ColumnType.TIMESTAMP or (pads and column.type == ColumnType.STRING)

    def _compared_otherwise(self, i: int, names: set[str]) -> bool:
        """Return whether another collation may change the values of column ``i``, although its
        inputs are unchanged. If the values are then computed, no collation decides them: an
        expression that depends on a collation is refused."""
        inputs = set[int]()
        for number in self._inputs(i, names):
            before, after = self._entries[number].before, self._columns[number]
            written = self._written(number)
            if before is not None and not same_collation(before, after, written=written):
                inputs.add(number)
        return bool(inputs) and bool(inputs & self._compared(i))

    def _compared(self, i: int) -> set[int]:
        """Return the columns whose collations may decide the values of column ``i``."""
        expression, _, _ = self._columns[i].generated.rpartition(" ")
        mode = self._session.sql_mode if self._entries[i].clause is not None else None
        virtual = self._columns[i].generated.endswith("VIRTUAL")
        everything = set(range(len(self._columns)))
        try:
            if compares_nothing(read_expression(expression, mode)):
                return set()
            return compared(
                resolved(expression, mode, self._columns, i, self._session, virtual=virtual)
            )
        except (NotComputed, RecursionError):
            return everything

    def _is_stable(self, name: str, *, defaults: bool) -> bool:
        """Return whether the named column has the same values as before, and the same default if
        ``defaults``. A function's name counts as stable."""
        i = self._at.get(name)
        if i is None or (i in self._begun and i not in self._known):
            return True  # no column depends on itself
        before, after = self._entries[i].before, self._columns[i]
        if before is None or before.name.lower() != name:
            return False
        if defaults and (self._entries[i].new_default or before.default != after.default):
            return False
        origin = self._of(i)
        carried = isinstance(origin, CarriedColumn) and origin.number == self._entries[i].number
        alike = same_type(before, after) or is_longer(before, after)
        return carried and alike and after.nullable >= before.nullable


def _filled(
    literal: str, column: Column, session: Session, *, assigned: bool = False
) -> ConstantValue | UnknownValue:
    """Return the value that a literal gives existing rows. ``assigned``: it is an expression's
    constant."""
    try:
        if assigned and column.type == ColumnType.JSON and literal.startswith("'"):
            return ConstantValue(f"'{normal_json(literal[1:])}")
        return ConstantValue(normalize(literal, column, session, assigned=assigned))
    except (ValueError, RecursionError):
        # The message hides the literal: the column may be masked.
        reason = f"what column {column.name} stores of a literal is not known"
        if column.type in _TIMESTAMPS and session.time_zone in ("", "SYSTEM"):
            reason += ": the session's time zone is SYSTEM (set source.system_time_zone)"
        return UnknownValue(reason)


def _of_default(entry: PendingColumn, column: Column, session: Session) -> ColumnSource:
    default = entry.clause.default if entry.clause else None
    if default is None:
        filled = "NULL" if column.nullable else zero_of(column)
        kind = f"a NOT NULL column of type {column.type_name} has no default"
        return UnknownValue(f"{kind}: {column.name}") if filled is None else ConstantValue(filled)
    if default.now:
        return CurrentTimestamp()
    if default.literal is not None and column.default is not None:
        return _filled(column.default, column, session)
    if default.constant is None:
        return UnknownValue(f"the default of column {column.name} is an expression")
    return _filled(default.constant, column, session, assigned=True)


def _expression(generated: str, sql_mode: int) -> Cursor:
    inner = Cursor(tokens(generated, sql_mode)).parentheses()
    while inner.at_symbol("("):
        rest = inner.again()
        within = rest.parentheses()
        if not rest.at_end():
            break
        inner = within
    return inner


def _inner(generated: str, sql_mode: int) -> list[tuple[str, str]]:
    """Return the tokens of a generated column's expression in the form in which they are
    compared."""
    cursor, words = _expression(generated, sql_mode), []
    while not cursor.at_end():
        token = cursor.next()
        plain = token.kind in (NAME, WORD)
        words.append((NAME if plain else token.kind, token.text.lower() if plain else token.text))
    return words
