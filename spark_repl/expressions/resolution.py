"""Resolve Syntax to Node: find the column of each name, and the types of each operator's inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..convert.type_change import TypeFamily, family_of
from ..errors import NotComputed
from ..sql.charsets import WIDE
from ..sql.new_columns import same_type
from ..sql.session import TIME_TRUNCATE_FRACTIONAL
from ..tables.column import ColumnType
from .assignment import check
from .expression_reader import read_expression
from .functions import build
from .input_rows import type_of
from .literals import literal
from .value_type import NULL_TYPE, REAL_TYPE, Node, ResultType

if TYPE_CHECKING:
    from ..sql.session import Session
    from ..tables.column import Column
    from .syntax import Syntax

_NUMBERS = {
    ResultType.INTEGER: re.compile("-?[0-9]+"),
    ResultType.REAL: re.compile("-?[0-9]+(\\.[0-9]+)?"),
}
_LITERALS = ("number", "string", "hex", "null", "moment")
_NO_UNSIGNED_SUBTRACTION = 1 << 6


def resolved(
    text: str,
    sql_mode: int | None,
    columns: Sequence[Column],
    target: int,
    session: Session,
    *,
    virtual: bool,
) -> Node:
    """Return the expression of column ``target`` in ``columns``. ``text`` and ``sql_mode`` are as
    in ``expression_reader``; ``virtual`` is set for a generated column that is not stored. Raise
    NotComputed."""
    try:
        syntax, resolver = read_expression(text, sql_mode), _Resolver(columns, session, virtual)
        if (copied := resolver.copied(syntax, columns[target])) is not None:
            return copied
        node = resolver.node(syntax)
    except RecursionError as error:
        raise NotComputed("it is too deep") from error
    if virtual and family_of(columns[target]) == TypeFamily.TIMESTAMP:
        raise NotComputed("what it is depends on the time zone of who reads it")
    _check_modes(node, session)
    check(node, columns[target])
    return node


def row_wise(text: str, sql_mode: int | None, columns: Sequence[Column], session: Session) -> Node:
    """Return an expression of a row's values that does not define a column. Its values must not
    depend on the reader's time zone. Raise NotComputed."""
    node = _Resolver(columns, session, True, collates=True).node(read_expression(text, sql_mode))
    _check_modes(node, session)
    return node


class _Resolver:
    def __init__(
        self, columns: Sequence[Column], session: Session, virtual: bool, *, collates: bool = False
    ) -> None:
        self._columns, self._session, self._virtual = columns, session, virtual
        self._collates = collates
        self._at = {column.name.lower(): i for i, column in enumerate(columns)}

    def copied(self, syntax: Syntax, column: Column) -> Node | None:
        """Return the column that the expression names if it has the type of ``column``, even a type
        that is not computed with; otherwise None."""
        number = self._at.get(syntax.words[0].lower()) if syntax.name == "name" else None
        if number is None or not same_type(self._columns[number], column):
            return None
        return Node("column", NULL_TYPE, detail=number)

    def node(self, syntax: Syntax) -> Node:
        if syntax.name in _LITERALS:
            return literal(syntax)
        if syntax.name == "name":
            return self._column(syntax.words[0])
        if syntax.name == "DEFAULT":
            return self._default(syntax)
        return build(syntax.name, [self.node(operand) for operand in syntax.inputs], syntax.words)

    def _column(self, name: str) -> Node:
        number = self._at.get(name.lower())
        if number is None:
            raise NotComputed(f"there is no column {name}")
        column = self._columns[number]
        kind = type_of(column, self._session, virtual=self._virtual)
        if self._collates and kind.result == ResultType.TEXT:
            kind = replace(kind, collation=column.compares)
        return Node("column", kind, detail=number)

    def _default(self, syntax: Syntax) -> Node:
        """Return the column's DEFAULT after the statement. Raise NotComputed unless it is a plain
        number or NULL."""
        named = syntax.inputs[0] if len(syntax.inputs) == 1 else syntax
        number = self._at.get(named.words[0].lower()) if named.name == "name" else None
        if number is None:
            raise NotComputed("DEFAULT() is not understood")
        column = self._columns[number]
        literal, kind = column.default, type_of(column, self._session, virtual=self._virtual)
        if literal == "NULL":
            return Node("literal", kind)
        plain = kind.source == "" and column.type != ColumnType.FLOAT and column.detail == ""
        if not plain or literal is None or kind.result not in _NUMBERS:
            raise NotComputed("DEFAULT() of what is no integer or double is not computed here")
        if not _NUMBERS[kind.result].fullmatch(literal):
            raise NotComputed("DEFAULT() of what is no number is not computed here")
        return Node("literal", kind, detail=(float if kind == REAL_TYPE else int)(literal))


def _check_modes(node: Node, session: Session) -> None:
    """Raise NotComputed if the session's sql_mode or connection, or the source's version, changes a
    result."""
    if node.is_literal and node.type.charset == "" and session.connection in WIDE:
        raise NotComputed("literals of wide letters are not computed here")
    mode = session.sql_mode
    if node.operator == "-" and node.type.unsigned and mode & _NO_UNSIGNED_SUBTRACTION:
        raise NotComputed("- with NO_UNSIGNED_SUBTRACTION is not computed here")
    if node.operator == "CAST DATETIME" and mode & TIME_TRUNCATE_FRACTIONAL:
        raise NotComputed("CAST with TIME_TRUNCATE_FRACTIONAL is not computed here")
    if node.operator == "/" and node.type.result == ResultType.DECIMAL and not session.quotients:
        raise NotComputed("how the source's version rounds a quotient is not known")
    for operand in node.inputs:
        _check_modes(operand, session)
