"""MySQL's wildcards in names: ``%`` any characters, ``_`` one, a backslash escapes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_TOKEN = re.compile(r"\\.|.", re.DOTALL)
_ANY, _ONE = "\x00", "\x01"  # characters that no name holds


def first_fitting(patterns: Iterable[str], name: str) -> str:
    """Return the first pattern that matches the whole name; "" if none does."""
    return next((pattern for pattern in patterns if fits(pattern, name)), "")


def fits(pattern: str, name: str) -> bool:
    """Return whether the pattern matches the whole name."""
    return _compiled(pattern, ".").fullmatch(name) is not None


def covers(pattern: str, other: str) -> bool:
    """Return whether ``pattern`` certainly matches every name that ``other`` matches."""
    signs = {"%": _ANY, "_": _ONE}
    other = "".join(signs.get(token) or token[-1] for token in _TOKEN.findall(other))
    return _compiled(pattern, f"[^{_ANY}]").fullmatch(other) is not None


def lacks_wildcards(pattern: str) -> bool:
    """Return whether the pattern matches only one name."""
    return not {"%", "_"} & {*_TOKEN.findall(pattern)}


def without_escapes(pattern: str) -> str:
    """Return the name that a pattern without wildcards matches."""
    return "".join(token[-1] for token in _TOKEN.findall(pattern))


@cache
def _compiled(pattern: str, one: str) -> re.Pattern[str]:
    signs = {"%": ".*", "_": one}
    return re.compile(
        "".join(signs.get(t) or re.escape(t[-1]) for t in _TOKEN.findall(pattern)), re.DOTALL
    )
