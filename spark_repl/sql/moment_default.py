"""is_moment: whether a new column's DEFAULT ( expression ) is the moment of the statement, as the
column keeps it: the session's date in a DATE, NOW(n) in a column of n digits."""

from __future__ import annotations

import re

from ..tables.column import Column, ColumnType

_DATE = re.compile(r"(?:CURRENT_DATE(?: \( \))?|CURDATE \( \))", re.IGNORECASE)
_NOW = re.compile(
    r"(?:NOW(?= \()|CURRENT_TIMESTAMP|LOCALTIMESTAMP|LOCALTIME)(?: \( (?:(\d) )?\))?",
    re.IGNORECASE,
)
_MOMENTS = (ColumnType.DATETIME, ColumnType.TIMESTAMP)


def is_moment(expression: str, column: Column) -> bool:
    """``expression``: its words, as ``Default`` has them."""
    while expression.startswith("( ") and expression.endswith(" )"):
        expression = expression[2:-2]
    if column.type == ColumnType.DATE:
        return bool(_DATE.fullmatch(expression))
    now = _NOW.fullmatch(expression) if column.type in _MOMENTS else None
    return now is not None and int(now[1] or 0) == column.meta
