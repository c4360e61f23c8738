"""Renaming: ``match`` and ``to`` of one of ``[[tables]]``, applied to a table's name in both
directions.

The parts of database and table are matched separately. The text that each ``%`` of one pattern
matches replaces the ``%`` of the other, in order. ``_`` and characters after a backslash are plain
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
"""in a shard's name or path, the text between the Delta table's name and the shard's own part"""
_SHARED = f"{SHARD}shared/"


@dataclass(frozen=True)
class Renaming:
    """A rule's ``match`` and ``to``, without ``renaming_faults``."""

    match: str
    to: str

    def there(self, name: Parts) -> Parts | None:
        """Return the name in the target; None if ``match`` does not match the table."""
        return _carried(self._match, self._to, name)

    def back(self, name: Parts) -> Parts | None:
        """Return the source's name of a target's table; None if there is none."""
        return _carried(self._to, self._match, name)

    @cached_property
    def _match(self) -> Parts:
        return halves(self.match)

    @cached_property
    def _to(self) -> Parts:
        return halves(self.to)


def whole_of(name: str) -> str:
    """Return the name, or path, of the Delta table to which a shard belongs."""
    return name.partition(SHARD)[0]


def shared_path(whole: str, number: int) -> str:
    """Return the path of shard ``number`` of a Delta table that several channels feed."""
    return f"{whole}{_SHARED}{number}"


def numbered(path: str) -> tuple[str, int]:
    """Return a table's path without its number, and the number: 1 for ``t/a``, 7 for ``t/a@7``.

    Folders encode the character @ of a name.
    """
    first, _, number = path.rpartition("@")
    return (first, int(number)) if number.isdecimal() and first else (path, 1)


def is_shared(path: str) -> bool:
    """Return whether several channels feed the Delta table of the shard at ``path``."""
    return _SHARED in path


def shard_of(name: str) -> str:
    """Return the part of a shard's name that identifies it; "" for another table."""
    return name.partition(SHARD)[2]


def halves(pattern: str) -> Parts:
    """Return a pattern's parts for the database and for the table."""
    database, _, table = pattern.partition(".")
    return database, table


def letters(pattern: str) -> list[str]:
    """Return the pattern's literal characters without backslashes, with "" for each ``%``."""
    return ["" if token == "%" else token[-1] for token in _TOKEN.findall(pattern)]


def has_bare_sign(pattern: str) -> bool:
    """Return whether the pattern has an unescaped ``_``."""
    return "_" in _TOKEN.findall(pattern)


def unusable(name: Parts) -> str:
    """Return the reason why a table of the target can't have this name; "" if it can."""
    database, table = name
    if not database or not table:
        return "a part of the name would be empty"
    if max(len(database), len(table)) > _LONGEST:
        return f"a part of the name would have more than {_LONGEST} characters"
    return unusable_database(database)


def unusable_database(name: str) -> str:
    """Return the reason why a database of the target can't have this name; "" if it can."""
    return f"the database {name} is not for tables" if name in _RESERVED else ""


def standing_for(pattern: Parts, name: Parts) -> list[str] | None:
    """Return the text that each ``%`` of the pattern matches in a name; None if the pattern does
    not match."""
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
        return None  # several tables become one, so the name cannot be reversed
    remaining = iter(values)
    database, table = ("".join(sign or next(remaining) for sign in letters(part)) for part in into)
    return database, table


@cache
def _compiled(part: str) -> re.Pattern[str]:
    return re.compile("".join(re.escape(sign) or "(.*)" for sign in letters(part)), re.DOTALL)
