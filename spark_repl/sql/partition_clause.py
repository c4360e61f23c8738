"""Read PARTITION BY, and the partitions that ADD and REORGANIZE PARTITION list.

The server evaluates the bounds of partitions when it executes the statement. This module reads
bounds that need only the statement and its session's time zone. Other bounds are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StatementError
from ..tables.partitioning import Partition, Partitioning
from .partition_axis import FUNCTIONS, constant
from .sql_tokens import NUMBER, STRING, WORD

if TYPE_CHECKING:
    from ..tables.partitioning import Value
    from .session import Session
    from .sql_tokens import Cursor

_SYNONYMS = {"DAY": "DAYOFMONTH"}
_METHODS = ("RANGE", "LIST", "HASH", "KEY")


def at_partitioning(cursor: Cursor) -> bool:
    """Return whether PARTITION BY or REMOVE PARTITIONING comes next. They follow the last action of
    ALTER TABLE without a comma."""
    return cursor.at_phrase("PARTITION BY") or cursor.at_phrase("REMOVE PARTITIONING")


def read_partitioning(cursor: Cursor, session: Session) -> Partitioning:
    """Read on after ``PARTITION BY``. A clause that is not understood is ``unknown``, with the
    reason."""
    try:
        return _partitioning(cursor, session)
    except StatementError as error:
        return Partitioning(unknown=error.message)


def read_partitions(cursor: Cursor, session: Session) -> tuple[Partition, ...]:
    """Read ``(PARTITION name VALUES ..., ...)``. Raise StatementError."""
    return tuple(_partition(part, session) for part in cursor.parentheses().parts())


def _partitioning(cursor: Cursor, session: Session) -> Partitioning:
    linear = cursor.word("LINEAR")
    method = cursor.word(*_METHODS)
    if method not in ("RANGE", "LIST"):
        what = f"{linear} {method}".strip() or cursor.rest()
        raise StatementError(f"which rows a partition by {what} has is not known")
    if cursor.word("COLUMNS"):
        function = ""
        columns = tuple(_only_name(part) for part in cursor.parentheses().parts())
    else:
        column, function = _expression(cursor.parentheses())
        columns = (column,)
    if cursor.word("PARTITIONS"):
        cursor.number()
    if cursor.phrase("SUBPARTITION BY"):
        _skip_subpartitions(cursor)
    partitions = read_partitions(cursor, session)
    if any(len(value) != len(columns) for part in partitions for value in part.values):
        raise StatementError("a partition's values are not as many as its columns")
    return Partitioning(method, columns, function, partitions)


def _only_name(cursor: Cursor) -> str:
    name = cursor.name()
    if not cursor.at_end():
        raise StatementError(f"a partition's column is not understood from {cursor.rest()}")
    return name


def _expression(cursor: Cursor) -> tuple[str, str]:
    """Return (column, function of the column or '')."""
    text = cursor.rest(literals=True)
    name = cursor.name()
    if cursor.at_end():
        return name, ""
    function = _SYNONYMS.get(name.upper(), name.upper())
    if cursor.at_symbol("(") and function in FUNCTIONS:
        inner = cursor.parentheses()
        if cursor.at_end():
            return _only_name(inner), function
    raise StatementError(f"the partitions' expression {text} is not understood")


def _skip_subpartitions(cursor: Cursor) -> None:
    """Skip SUBPARTITION BY: subpartitions are dropped with their partition."""
    cursor.word("LINEAR")
    cursor.word("HASH", "KEY")
    if cursor.word("ALGORITHM"):
        cursor.expect("=")
        cursor.number()
    cursor.parentheses()
    if cursor.word("SUBPARTITIONS"):
        cursor.number()


def _partition(cursor: Cursor, session: Session) -> Partition:
    cursor.expect("PARTITION")
    name = cursor.name()
    if cursor.phrase("VALUES LESS THAN"):
        if cursor.word("MAXVALUE"):
            return Partition(name, ((None,),))
        return Partition(name, (_values(cursor.parentheses(), session),))
    if cursor.phrase("VALUES IN"):
        listed = []
        for part in cursor.parentheses().parts():
            listed.append(_values(part.parentheses() if part.at_symbol("(") else part, session))
        return Partition(name, tuple(listed))
    raise StatementError(f"the values of partition {name} are not understood")


def _values(cursor: Cursor, session: Session) -> tuple[Value, ...]:
    return tuple(_value(part, session) for part in cursor.parts())


def _value(cursor: Cursor, session: Session) -> Value:
    text = cursor.rest(literals=True)
    value: Value = None
    token = cursor.peek()
    if not cursor.word("MAXVALUE", "NULL"):
        following = cursor.peek(1)
        if token and token.kind == WORD and following and following.text == "(":
            function = _SYNONYMS.get(cursor.next().text, token.text)
            inner = cursor.parentheses()
            value = constant(function, _text(inner), session)
            if not inner.at_end():
                raise StatementError(f"a partition's value {text} is not understood")
        elif token and (token.kind == NUMBER or token.text in ("-", "+")):
            value = _number(cursor)
        else:
            value = _text(cursor)
    if not cursor.at_end():
        raise StatementError(f"a partition's value {text} is not understood")
    return value


def _number(cursor: Cursor) -> int:
    negative = cursor.symbol("-")
    cursor.symbol("+")
    token = cursor.next()
    if token.kind != NUMBER or not token.text.isdecimal():
        raise StatementError(f"a partition's value {token.raw} is not understood")
    return -int(token.text) if negative else int(token.text)


def _text(cursor: Cursor) -> str:
    token, following = cursor.peek(), cursor.peek(1)
    if cursor.at("DATE", "TIMESTAMP") and following and following.kind == STRING:
        cursor.next()
    elif token is None or token.kind != STRING:
        raise StatementError(f"a partition's value {cursor.rest(literals=True)} is not understood")
    return cursor.string()
