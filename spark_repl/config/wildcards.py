"""MySQL's wildcards in names: ``%`` any characters, ``_`` one, a backslash takes their meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_TOKEN = re.compile(r"\\.|.", re.DOTALL)
_ANY, _ONE = "\x00", "\x01"  # what no name holds


def first_fitting(patterns: Iterable[str], name: str) -> str:
    """The first pattern that fits the whole name; "" for none."""
    return next((pattern for pattern in patterns if fits(pattern, name)), "")


def fits(pattern: str, name: str) -> bool:
    """Whether the pattern fits the whole name."""
    return _compiled(pattern, ".").fullmatch(name) is not None


def covers(pattern: str, other: str) -> bool:
    """Whether ``pattern`` surely fits every name that the pattern ``other`` fits."""
    signs = {"%": _ANY, "_": _ONE}
    other = "".join(signs.get(token) or token[-1] for token in _TOKEN.findall(other))
    return _compiled(pattern, f"[^{_ANY}]").fullmatch(other) is not None


def lacks_wildcards(pattern: str) -> bool:
    """Whether the pattern fits one name alone."""
    return not {"%", "_"} & {*_TOKEN.findall(pattern)}


def without_escapes(pattern: str) -> str:
    """The one name that a pattern without wildcards fits."""
    return "".join(token[-1] for token in _TOKEN.findall(pattern))


@cache
def _compiled(pattern: str, one: str) -> re.Pattern[str]:
    signs = {"%": ".*", "_": one}
    return re.compile(
        "".join(signs.get(t) or re.escape(t[-1]) for t in _TOKEN.findall(pattern)), re.DOTALL
    )
