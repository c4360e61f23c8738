"""Damage of a JSON document: the codes that kernels return, and their texts."""

from __future__ import annotations

CUT, DEPTH, TYPE, LITERAL, OPAQUE, ENTRIES, DOUBLE, TEMPORAL, UTF8 = range(1, 10)
REASONS = (
    "",
    "a value lies outside it",
    "it is nested deeper than 100 levels",
    "a value has an unknown type",
    "a literal is none of null, true, false",
    "a decimal does not fit its precision",
    "its values overlap",
    "a double is not a number",
    "a date or time is out of range",
    "a string is not UTF-8",
)
