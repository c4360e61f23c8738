"""The values of an expression, evaluated over rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ..errors import Unconvertible
from ..sql.session import STRICT, TIME_TRUNCATE_FRACTIONAL
from .assignment import assigned
from .coercions import COERCIONS
from .functions import COMPUTED, LAZY
from .input_rows import InputRows, column_values
from .literals import repeated
from .value_type import uncertain

if TYPE_CHECKING:
    from ..tables.column import Column
    from .value_type import Node

_ARROW = "Arrow has no room for them"
_OF_WRITER = STRICT | TIME_TRUNCATE_FRACTIONAL
_COMPUTED = {**COMPUTED, **COERCIONS}


def evaluate(node: Node, rows: InputRows) -> pa.Array:
    """Return the node's values. Raise Unconvertible if a value is not known."""
    if node.operator == "literal":
        return repeated(node, rows.count)
    if node.operator == "column":
        return column_values(rows.stored(node.detail), rows.columns[node.detail], rows.session)
    if (lazy := LAZY.get(node.operator)) is not None:
        return lazy(node, rows, evaluate)
    values = [evaluate(operand, rows) for operand in node.inputs]
    column = _COMPUTED[node.operator](node, *values)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def computed(node: Node, rows: InputRows, column: Column, *, virtual: bool) -> pa.Array:
    """Return the values of ``column`` in its Arrow type. A value that does not fit a virtual column
    is converted as on a server that is not strict. Raise Unconvertible, with the column's name."""
    session, convert = rows.session, rows.convert
    if virtual:
        session = replace(session, sql_mode=session.sql_mode & ~_OF_WRITER)
    try:
        if node.is_copy:
            number = node.detail
            return assigned(
                node, rows.stored(number), rows.columns[number], column, session, convert
            )
        return assigned(node, evaluate(node, rows), None, column, session, convert)
    except Unconvertible as error:
        message = f"the values of column {column.name}: {error.message}"
        raise Unconvertible(message, hint=error.hint) from error
    except pa.ArrowException as error:
        raise uncertain(f"the values of column {column.name}: {_ARROW}: {error}") from error
