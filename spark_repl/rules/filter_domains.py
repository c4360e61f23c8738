"""Passing values: which ones of a column the rows have that a row filter lets pass, as far as its
words alone say it. A set has all of them at least; where it is of no kind that is known here, the
column has none.

Known are ``=``, ``<>``, ``<`` to ``>=``, ``IN`` and ``BETWEEN`` of a column, or of what it leaves
divided (``MOD``, ``%``), beside literals that are whole numbers; ``=``, ``<>`` and ``IN`` beside
texts; and ``AND``, ``OR``, ``NOT`` of these.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce

from ..expressions.reader import read
from ..expressions.syntax import Syntax
from .value_sets import Steps, Texts, Values, Wholes

Passing = Mapping[str, Values]
"""column, in lower case -> values"""
_SQL_MODE = 0
_NOT = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_TELLS = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_DIVISOR_MAX = 100
"""up to which the numbers that a division leaves are counted one by one"""


@lru_cache(256)
def passing_values(text: str) -> Passing:
    """Those of a row filter that is without ``row_filters.fault``."""
    return _passing(read(text, _SQL_MODE), True)


def _passing(syntax: Syntax, truth: bool) -> Passing:
    """Where the expression is true, or (not ``truth``) false."""
    name, inputs = syntax.name, syntax.inputs
    if name == "NOT":
        return _passing(inputs[0], not truth)
    if name in ("AND", "OR"):
        parts = [_passing(one, truth) for one in inputs]
        return reduce(_both if (name == "AND") == truth else _either, parts)
    if name == "IN":
        value, *literals = inputs
        parts = [_passing(Syntax("=", (value, one)), truth) for one in literals]
        # Nothing is in what is NULL, and it is never known that something is not.
        known = [part for part, one in zip(parts, literals, strict=True) if one.name != "null"]
        return reduce(_either if truth else _both, known) if known else {}
    if name == "BETWEEN":
        value, low, high = inputs
        if None in (_whole(low), _whole(high)):
            return {}  # All three are compared as doubles, which are not exact, where one is.
        within = Syntax("AND", (Syntax(">=", (value, low)), Syntax("<=", (value, high))))
        return _passing(within, truth)
    if name not in _NOT:
        return {}
    left, right = inputs
    compares = name if truth else _NOT[name]
    return _compared(left, compares, right) or _compared(right, _MIRRORED[compares], left)


def _compared(value: Syntax, compares: str, literal: Syntax) -> Passing:
    """``value`` is a column, or what one leaves divided; else nothing is known."""
    number = _whole(literal)
    if value.name == "name":
        made = _texts(compares, literal) if number is None else Wholes(_parts(compares, number))
        return {value.words[0].lower(): made} if made is not None else {}
    if value.name == "MOD" and number is not None and value.inputs[0].name == "name":
        divisor = _whole(value.inputs[1])
        parts = _divided(compares, number, abs(divisor)) if divisor else None
        return {value.inputs[0].words[0].lower(): Wholes(parts)} if parts is not None else {}
    return {}


def _whole(literal: Syntax) -> int | None:
    """The whole number that is written there; None for all else."""
    if literal.name == "NEGATE":
        number = _whole(literal.inputs[0])
        return None if number is None else -number
    written = literal.words[0] if literal.name == "number" else ""
    return int(written) if written.isascii() and written.isdecimal() else None


def _texts(compares: str, literal: Syntax) -> Texts | None:
    if literal.name != "string" or literal.words[1] or compares not in ("=", "<>"):
        return None
    return Texts(frozenset((literal.words[0],)), others=compares == "<>")


def _parts(compares: str, number: int) -> tuple[Steps, ...]:
    below, above = Steps(high=number - 1), Steps(low=number + 1)
    return {
        "=": (Steps(number, number),),
        "<>": (below, above),
        "<": (below,),
        "<=": (Steps(high=number),),
        ">": (above,),
        ">=": (Steps(low=number),),
    }[compares]


def _divided(compares: str, number: int, divisor: int) -> tuple[Steps, ...] | None:
    """What leaves, divided, something that compares so: it has the sign of what is divided. None:
    anything may."""
    if compares == "=":
        left: Sequence[int] = [number] if abs(number) < divisor else []
    elif divisor <= _DIVISOR_MAX:
        left = [one for one in range(1 - divisor, divisor) if _TELLS[compares](one, number)]
    else:
        return None
    return tuple(
        Steps(one if one > 0 else None, one if one < 0 else None, divisor, one % divisor)
        for one in left
    )


def _both(one: Passing, other: Passing) -> Passing:
    met = {name: _met(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **met}


def _either(one: Passing, other: Passing) -> Passing:
    made = {name: _united(one[name], other[name]) for name in one.keys() & other.keys()}
    return {name: values for name, values in made.items() if values is not None}


def _met(mine: Values, theirs: Values) -> Values:
    """At least what is in both; of two kinds any will do."""
    if isinstance(mine, Wholes):
        return mine.both(theirs) if isinstance(theirs, Wholes) else mine
    return mine if isinstance(theirs, Wholes) else mine.both(theirs)


def _united(mine: Values, theirs: Values) -> Values | None:
    """At least what is in any of the two; None: all there is."""
    if isinstance(mine, Wholes):
        return mine.either(theirs) if isinstance(theirs, Wholes) else None
    return None if isinstance(theirs, Wholes) else mine.either(theirs)
