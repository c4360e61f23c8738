"""A logged statement's text as messages have it where a literal may be what nobody may see."""

from __future__ import annotations

import re

from ..errors import StatementError
from .sql_tokens import tokens

_BEFORE, _BEHIND = re.compile(r" ([.,;)])"), re.compile(r"([.(]) ")


def without_literals(statement: str, sql_mode: int) -> str:
    """The words of ``statement``, ? for each literal, without comments; where it is not understood
    what is a literal, its first word alone."""
    try:
        words = [token.shown for token in tokens(statement, sql_mode)]
    except StatementError:
        return " ".join([*statement.split()[:1], "..."])
    return _BEHIND.sub(r"\1", _BEFORE.sub(r"\1", " ".join(words)))
