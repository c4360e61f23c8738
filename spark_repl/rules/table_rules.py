"""TableRules: find the ``[[tables]]`` rule of a table, once for each table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from ..config.tables import CHANNEL, TableRule
from ..config.wildcards import lacks_wildcards
from ..tables.case_folding import fold
from .table_routes import TableRoutes, kept_from
from .tool_names import may_have_rows_of

NO_RULE = TableRule()


@dataclass(frozen=True)
class TableRules:
    """The ``rules``, of which the first one that matches a name decides. ``by_name``, ``shapes``:
    cached results of ``of_table`` and ``shaping``."""

    rules: tuple[TableRule, ...] = ()
    by_name: dict[str, TableRule] = field(default_factory=dict, compare=False, repr=False)
    shapes: dict[str, TableRule] = field(default_factory=dict, compare=False, repr=False)

    def of_table(self, name: str) -> TableRule:
        """Return the rule of the target's table ``name`` (db.table), by its name before ``to``;
        NO_RULE if none matches."""
        if not self.rules:
            return NO_RULE
        if (rule := self.by_name.get(name)) is None:
            number = self._routes.deciding(self._routes.before(name))
            rule = self.by_name[name] = self.rules[number] if number >= 0 else NO_RULE
        return rule

    def shaping(self, name: str) -> TableRule:
        """Return the rule that gives the target's table ``name`` other rows or columns than the
        source's table.

        A table that an online schema-change tool creates for another table has rows of that table.
        The same holds for a table that was dropped and is kept because its name was used again. The
        other table's rule applies to it, regardless of which rule matches its own name, except for
        a rule that has its own name without wildcards.
        """
        if not self.rules:
            return NO_RULE
        if (rule := self.shapes.get(name)) is None:
            rule = self.shapes[name] = self._shaping(name)
        return rule

    def _shaping(self, name: str) -> TableRule:
        own = self.of_table(name)
        if own.shards_by or (own.match and lacks_wildcards(own.match)):
            return own
        former = kept_from(name)
        before = self._routes.before(former or name)
        lenders = [self.of_table(former)] if former else []
        lenders += map(_lending, map(self._lent, may_have_rows_of(before)))
        return next((rule for rule in lenders if rule.reshaping), own)

    def _lent(self, before: str) -> TableRule:
        """Return the rule of ``shaping`` for a name before ``to``, which may itself be a tool's."""
        number = self._routes.deciding(before)
        own = self.rules[number] if number >= 0 else NO_RULE
        if own.match and lacks_wildcards(own.match):
            return own
        lenders = map(self._lent, may_have_rows_of(before))
        return next((rule for rule in lenders if rule.reshaping), own)

    @cached_property
    def _routes(self) -> TableRoutes:
        return TableRoutes.of(self.rules)

    def differs_folded(self, name: str) -> bool:
        """Return whether a different rule would decide about the target's table if the source folds
        names."""
        folded, folded_name = self.folded(), fold(name)
        if not self.rules or (folded == self and folded_name == name):
            return False
        own, other = self.shaping(name), folded.shaping(folded_name)
        return replace(own, match="", to="") != replace(other, match="", to="")

    def folded(self) -> TableRules:
        """Return the rules for a source whose names are in lower case."""
        return _folded(self.rules)


def _lending(rule: TableRule) -> TableRule:
    """Return the part of a rule that counts for a tool's table. A tool's table is never a shard,
    even if it is a copy of one."""
    kept_columns = tuple(extra for extra in rule.extra_columns if extra != CHANNEL)
    return replace(rule, key_prefix="", extra_columns=kept_columns) if rule.shards_by else rule


@cache
def _folded(rules: tuple[TableRule, ...]) -> TableRules:
    return TableRules(
        tuple(replace(rule, match=fold(rule.match), to=fold(rule.to)) for rule in rules)
    )
