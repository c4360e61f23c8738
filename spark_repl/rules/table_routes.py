"""Routes: the names that ``to`` of ``[[tables]]`` gives to tables, one to one.

A name is asked about behind filters.rewrite_db. Which one a table of the target has there is told
by the rules alone: of those that give it, the first one's, else its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..config.renaming import OF_THE_SERVER, SHARD, Renaming, shard_of, unusable, whole_of
from ..config.wildcards import fits
from ..errors import SchemaError
from ..tables.table_name import parts_of, plain_name, table_name

if TYPE_CHECKING:
    from ..config.tables import TableRule

Entries = tuple[tuple[str, str], ...]
DISPLACED = "@source"
"""behind the name of a table whose name in the target is another's"""
# A table that was dropped, and is kept, where its name is used again (write.tracking).
_ASIDE = re.compile(r"(.+)(@dropped\d*)", re.DOTALL)
_NO_SHARD = ("", "__HIVE_DEFAULT_PARTITION__")  # which Spark takes for NULL
_HINT = (
    "give one of the two another name (to of [[tables]], filters.rewrite_db), or leave it out by"
    " the filters, which see names as they are before to"
)

_NO_SHARD_HINT = (
    "leave it out by [filters], or give it a rule of its own before that of the shards, without"
    " key_prefix"
)


def kept_from(name: str) -> str:
    """The name that a table had before it was dropped, where it is kept under one of its own since
    that is used again; "" for any other."""
    aside = _ASIDE.fullmatch(name)
    return aside[1] if aside else ""


@dataclass(frozen=True)
class Routes:
    """(match, to) of each of ``[[tables]]``, in their order; to "": the name stays. ``asked``,
    ``origins``: what was found so far, there and back; ``fine``: what ``check`` passed."""

    entries: Entries = ()
    asked: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    origins: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    fine: set[str] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(cls, rules: Iterable[TableRule]) -> Routes:
        """Reads what the configuration has checked."""
        return cls(tuple((rule.match, rule.named) for rule in rules))

    @cached_property
    def any(self) -> bool:
        """Whether a table may have another name in the target."""
        return any(to for _, to in self.entries)

    def telling(self) -> Routes:
        """The same without what no name depends on."""
        last = max((number for number, (_, to) in enumerate(self.entries, 1) if to), default=0)
        return Routes(self.entries[:last])

    def after(self, name: str) -> str:
        """The name in the target of the table ``name`` (db.table)."""
        if not self.any:
            return name
        if (known := self.asked.get(name)) is None:
            there = self._there(name)
            mine = self._owner(there) == name
            known = self.asked[name] = there if mine else name + DISPLACED
        return known

    def before(self, name: str) -> str:
        """The name of the target's table ``name`` before ``to``."""
        if not self.any:
            return name
        if (known := self.origins.get(name)) is None:
            plain = name.removesuffix(DISPLACED)
            if aside := _ASIDE.fullmatch(name):
                known = self.before(aside[1]) + aside[2]
            elif plain != name and self._owner(self._there(plain)) != plain:
                known = plain
            else:
                known = self._owner(name)
            self.origins[name] = known
        return known

    def check(self, name: str, logged: str) -> None:
        """Raises SchemaError where the table ``name``, the log's ``logged``, can't have its name in
        the target."""
        if not self.any or name in self.fine:
            return
        there = self._there(name)
        if there in self._wholes or (there == name and whole_of(there) in self._wholes):
            raise SchemaError(
                f"the source's table {logged} can't be {there} in the target, where many tables of"
                " the source are in one (key_prefix, or channels, of [[tables]])",
                table=there, hint=_HINT,
            )  # fmt: skip
        owner = self._owner(there)
        if owner == name:  # a table may be called as one that is displaced is here
            owner = self.before(there)
        if owner != name:
            raise SchemaError(
                f"the source's tables {owner} and {logged} would share {there} in the target",
                table=there, hint=_HINT,
            )  # fmt: skip
        is_shard = whole_of(there) in self._wholes
        if is_shard and shard_of(there) in _NO_SHARD:
            raise SchemaError(
                f"the source's table {logged} can't be {there} in the target: nothing tells it"
                " apart from the others that are in one table with it",
                table=there, hint=_NO_SHARD_HINT,
            )  # fmt: skip
        reason = unusable(parts_of(whole_of(there) if is_shard else there)) if there != name else ""
        if reason:
            raise SchemaError(
                f"the source's table {logged} can't be {there} in the target: {reason}",
                table=there, hint=_HINT,
            )  # fmt: skip
        self.fine.add(name)

    def is_shard(self, name: str) -> bool:
        """Whether a table of the target is, or would be, one of many in one Delta table."""
        return SHARD in name and whole_of(name) in self._wholes and self.before(name) != name

    def deciding(self, name: str) -> int:
        """The number of the first entry that fits a name before ``to``; -1 for none."""
        plain, parts = plain_name(name), parts_of(name)
        for number, renaming in enumerate(self._renamings):
            if renaming is None:
                fitting = fits(self.entries[number][0], plain)
            else:
                fitting = renaming.there(parts) is not None
            if fitting:
                return number
        return -1

    def _there(self, name: str) -> str:
        """What ``to`` says of the table, whoever else is called so."""
        number = -1 if parts_of(name)[0] in OF_THE_SERVER else self.deciding(name)
        if number < 0 or (renaming := self._renamings[number]) is None:
            return name
        there = renaming.there(parts_of(name))
        assert there is not None
        return table_name(*there)

    def _owner(self, name: str) -> str:
        """Whose the name is in the target, by its name before ``to``; itself where nobody's."""
        parts = parts_of(name)
        for renaming in filter(None, self._renamings):
            if (back := renaming.back(parts)) is not None:
                owner = table_name(*back)
                if self._there(owner) == name:
                    return owner
        return name

    @cached_property
    def _wholes(self) -> frozenset[str]:
        """The names of tables that many of the source are in."""
        return frozenset(whole_of(to) for _, to in self.entries if SHARD in to)

    @cached_property
    def _renamings(self) -> tuple[Renaming | None, ...]:
        return tuple(Renaming(match, to) if to else None for match, to in self.entries)
