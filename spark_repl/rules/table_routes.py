"""TableRoutes: the names that ``to`` of ``[[tables]]`` gives to tables, one to one.

A route applies to the name after filters.rewrite_db. The rules by themselves determine the name
that a table of the target has before ``to``: the first rule that gives the name decides, or else
the table has its own name.
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
"""suffix of a table whose name in the target belongs to another table"""
# A dropped table that is kept because its name is used again (write.tracking).
_ASIDE = re.compile(r"(.+)(@dropped\d*)", re.DOTALL)
_NO_SHARD = ("", "__HIVE_DEFAULT_PARTITION__")  # Spark reads both as NULL
_HINT = (
    "give one of the two another name (to of [[tables]], filters.rewrite_db), or leave it out by"
    " the filters, which see names as they are before to"
)

_NO_SHARD_HINT = (
    "leave it out by [filters], or give it a rule of its own before that of the shards, without"
    " key_prefix"
)


def kept_from(name: str) -> str:
    """Return the former name of a dropped table that is kept under another name because its name
    was used again; "" for any other table."""
    aside = _ASIDE.fullmatch(name)
    return aside[1] if aside else ""


@dataclass(frozen=True)
class TableRoutes:
    """(match, to) of each ``[[tables]]`` rule, in order; the name stays if ``to`` is "".
    ``targets``, ``origins``: cached results, in both directions. ``fine``: the names that have
    passed ``check``."""

    entries: Entries = ()
    targets: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    origins: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    fine: set[str] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(cls, rules: Iterable[TableRule]) -> TableRoutes:
        """Return the routes of rules that the configuration has checked."""
        return cls(tuple((rule.match, rule.named) for rule in rules))

    @cached_property
    def any(self) -> bool:
        """Return whether a table may have another name in the target."""
        return any(to for _, to in self.entries)

    def trimmed(self) -> TableRoutes:
        """Return the routes without trailing entries on which no name depends."""
        last = max((number for number, (_, to) in enumerate(self.entries, 1) if to), default=0)
        return TableRoutes(self.entries[:last])

    def after(self, name: str) -> str:
        """Return the name in the target of the table ``name`` (db.table)."""
        if not self.any:
            return name
        if (target := self.targets.get(name)) is None:
            wanted = self._by_rule(name)
            is_owner = self._owner(wanted) == name
            target = self.targets[name] = wanted if is_owner else name + DISPLACED
        return target

    def before(self, name: str) -> str:
        """Return the name before ``to`` of the target's table ``name``."""
        if not self.any:
            return name
        if (origin := self.origins.get(name)) is None:
            plain = name.removesuffix(DISPLACED)
            if aside := _ASIDE.fullmatch(name):
                origin = self.before(aside[1]) + aside[2]
            elif plain != name and self._owner(self._by_rule(plain)) != plain:
                origin = plain
            else:
                origin = self._owner(name)
            self.origins[name] = origin
        return origin

    def check(self, name: str, logged: str) -> None:
        """Raise SchemaError if the table ``name``, which the log calls ``logged``, cannot have its
        name in the target."""
        if not self.any or name in self.fine:
            return
        target = self._by_rule(name)
        if target in self._wholes or (target == name and whole_of(target) in self._wholes):
            raise SchemaError(
                f"the source's table {logged} can't be {target} in the target, where many tables of"
                " the source are in one (key_prefix, or channels, of [[tables]])",
                table=target, hint=_HINT,
            )  # fmt: skip
        owner = self._owner(target)
        if owner == name:  # the table may have the name of a displaced one
            owner = self.before(target)
        if owner != name:
            raise SchemaError(
                f"the source's tables {owner} and {logged} would share {target} in the target",
                table=target, hint=_HINT,
            )  # fmt: skip
        is_shard = whole_of(target) in self._wholes
        if is_shard and shard_of(target) in _NO_SHARD:
            raise SchemaError(
                f"the source's table {logged} can't be {target} in the target: nothing tells it"
                " apart from the others that are in one table with it",
                table=target, hint=_NO_SHARD_HINT,
            )  # fmt: skip
        reason = (
            unusable(parts_of(whole_of(target) if is_shard else target)) if target != name else ""
        )
        if reason:
            raise SchemaError(
                f"the source's table {logged} can't be {target} in the target: {reason}",
                table=target, hint=_HINT,
            )  # fmt: skip
        self.fine.add(name)

    def is_shard(self, name: str) -> bool:
        """Return whether a table of the target is, or would be, one of several in one Delta
        table."""
        return SHARD in name and whole_of(name) in self._wholes and self.before(name) != name

    def deciding(self, name: str) -> int:
        """Return the number of the first entry that matches a name before ``to``; -1 for none."""
        plain, parts = plain_name(name), parts_of(name)
        for number, renaming in enumerate(self._renamings):
            if renaming is None:
                fitting = fits(self.entries[number][0], plain)
            else:
                fitting = renaming.there(parts) is not None
            if fitting:
                return number
        return -1

    def _by_rule(self, name: str) -> str:
        """Return the name that ``to`` gives the table, even if another table has it."""
        number = -1 if parts_of(name)[0] in OF_THE_SERVER else self.deciding(name)
        if number < 0 or (renaming := self._renamings[number]) is None:
            return name
        target = renaming.there(parts_of(name))
        assert target is not None
        return table_name(*target)

    def _owner(self, name: str) -> str:
        """Return the name before ``to`` of the table that owns ``name`` in the target; ``name``
        itself if no table does."""
        parts = parts_of(name)
        for renaming in filter(None, self._renamings):
            if (back := renaming.back(parts)) is not None:
                owner = table_name(*back)
                if self._by_rule(owner) == name:
                    return owner
        return name

    @cached_property
    def _wholes(self) -> frozenset[str]:
        """Return the names of the tables that many tables of the source share."""
        return frozenset(whole_of(to) for _, to in self.entries if SHARD in to)

    @cached_property
    def _renamings(self) -> tuple[Renaming | None, ...]:
        return tuple(Renaming(match, to) if to else None for match, to in self.entries)
