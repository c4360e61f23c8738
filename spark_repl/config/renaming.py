"""Renaming: ``match`` and ``to`` of one of ``[[tables]]``, as a table's name there and back.

Both are asked part by part, the database's and the table's. What each ``%`` of one stands for
comes, in order, where the other has its ``%``; ``_`` and what stands behind a backslash are plain
letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

Parts = tuple[str, str]
"""(the database's name, the table's), or patterns of them"""
OF_THE_SERVER = ("information_schema", "mysql", "performance_schema", "sys")
_RESERVED = (*OF_THE_SERVER, "_repl")  # the last is our own folder
_TOKEN = re.compile(r"\\.|.", re.DOTALL)
_LONGEST = 64
SHARD = "//"
"""in the name of a table that is one of many in one Delta table, between that table's name and what
tells it apart; a path has it likewise"""
_SHARED = f"{SHARD}shared/"


@dataclass(frozen=True)
class Renaming:
    """Has passed ``renaming_faults``."""

    match: str
    to: str

    def there(self, name: Parts) -> Parts | None:
        """The name in the target; None of a table that ``match`` does not fit."""
        return _carried(self._match, self._to, name)

    def back(self, name: Parts) -> Parts | None:
        """The name that becomes ``name`` in the target; None where none does."""
        return _carried(self._to, self._match, name)

    @cached_property
    def _match(self) -> Parts:
        return halves(self.match)

    @cached_property
    def _to(self) -> Parts:
        return halves(self.to)


def whole_of(name: str) -> str:
    """The name, or path, of the Delta table that a shard is in."""
    return name.partition(SHARD)[0]


def shared_path(whole: str, number: int) -> str:
    """The path of a shard, by its ``number``, of a Delta table that several channels feed."""
    return f"{whole}{_SHARED}{number}"


def numbered(path: str) -> tuple[str, int]:
    """The path of a table without its number, and the number: ``t/a`` is 1, ``t/a@7`` is 7. A name
    has no @ of its own, as folders have it encoded."""
    first, _, number = path.rpartition("@")
    return (first, int(number)) if number.isdecimal() and first else (path, 1)


def is_shared(path: str) -> bool:
    """Whether several channels feed the Delta table that the shard at the ``path`` is in."""
    return _SHARED in path


def shard_of(name: str) -> str:
    """What tells a shard apart, by its name; "" of a table that is none."""
    return name.partition(SHARD)[2]


def halves(pattern: str) -> Parts:
    """What a pattern says of the database, and of the table."""
    database, _, table = pattern.partition(".")
    return database, table


def letters(pattern: str) -> list[str]:
    """Those of a pattern as they stand in names, "" where a ``%`` is."""
    return ["" if token == "%" else token[-1] for token in _TOKEN.findall(pattern)]


def has_bare_sign(pattern: str) -> bool:
    """Whether there is a ``_`` without a backslash."""
    return "_" in _TOKEN.findall(pattern)


def unusable(name: Parts) -> str:
    """Why no table of the target can be called so; "" where one can."""
    database, table = name
    if not database or not table:
        return "a part of the name would be empty"
    if max(len(database), len(table)) > _LONGEST:
        return f"a part of the name would have more than {_LONGEST} characters"
    return unusable_database(database)


def unusable_database(name: str) -> str:
    """The same of a database's name alone."""
    return f"the database {name} is not for tables" if name in _RESERVED else ""


def standing_for(pattern: Parts, name: Parts) -> list[str] | None:
    """What each ``%`` of the pattern stands for in a name, in order; None where it does not fit."""
    values = list[str]()
    for part, text in zip(pattern, name, strict=True):
        fitting = _compiled(part).fullmatch(text)
        if fitting is None:
            return None
        values += fitting.groups()
    return values


def _carried(pattern: Parts, into: Parts, name: Parts) -> Parts | None:
    values = standing_for(pattern, name)
    if values is None:
        return None
    if len(values) != sum(letters(part).count("") for part in into):
        return None  # of many tables one: there is no way back
    left = iter(values)
    database, table = ("".join(sign or next(left) for sign in letters(part)) for part in into)
    return database, table


@cache
def _compiled(part: str) -> re.Pattern[str]:
    return re.compile("".join(re.escape(sign) or "(.*)" for sign in letters(part)), re.DOTALL)
