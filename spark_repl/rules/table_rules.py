"""TableRules: which of the configuration's ``[[tables]]`` is about a table, asked once a table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from ..config.tables import CHANNEL, TableRule
from ..config.wildcards import is_plain
from ..sql.case_folding import fold
from .table_routes import TableRoutes, kept_from
from .tool_names import may_have_rows_of

NO_RULE = TableRule()


@dataclass(frozen=True)
class TableRules:
    """``rules``, of which the first that fits a name counts. ``by_name``, ``shapes``: what
    ``of_table`` and ``shaping`` have found so far."""

    rules: tuple[TableRule, ...] = ()
    by_name: dict[str, TableRule] = field(default_factory=dict, compare=False, repr=False)
    shapes: dict[str, TableRule] = field(default_factory=dict, compare=False, repr=False)

    def of_table(self, name: str) -> TableRule:
        """The rule of the target's table ``name`` (db.table), by its name before ``to``; NO_RULE
        where none fits."""
        if not self.rules:
            return NO_RULE
        if (rule := self.by_name.get(name)) is None:
            number = self._routes.deciding(self._routes.before(name))
            rule = self.by_name[name] = self.rules[number] if number >= 0 else NO_RULE
        return rule

    def shaping(self, name: str) -> TableRule:
        """The rule by which the target's table ``name`` has other rows or columns than the source.

        A table that an online schema-change tool makes of another, by its name, or that is kept
        since another of its name came, has rows of a table that a rule may be about: that rule
        counts, whichever fits its own name, but for one that has it without wildcards."""
        if not self.rules:
            return NO_RULE
        if (rule := self.shapes.get(name)) is None:
            rule = self.shapes[name] = self._shaping(name)
        return rule

    def _shaping(self, name: str) -> TableRule:
        own = self.of_table(name)
        if own.shards_by or (own.match and is_plain(own.match)):
            return own
        former = kept_from(name)
        before = self._routes.before(former or name)
        lenders = [self.of_table(former)] if former else []
        lenders += map(_lending, map(self._lent, may_have_rows_of(before)))
        return next((rule for rule in lenders if rule.reshaping), own)

    def _lent(self, before: str) -> TableRule:
        """The same of a table by its name before ``to``, which may be a tool's itself."""
        number = self._routes.deciding(before)
        own = self.rules[number] if number >= 0 else NO_RULE
        if own.match and is_plain(own.match):
            return own
        lenders = map(self._lent, may_have_rows_of(before))
        return next((rule for rule in lenders if rule.reshaping), own)

    @cached_property
    def _routes(self) -> TableRoutes:
        return TableRoutes.of(self.rules)

    def differs_folded(self, name: str) -> bool:
        """Whether another rule is about the target's table where the source folds names."""
        folded, folded_name = self.folded(), fold(name)
        if not self.rules or (folded == self and folded_name == name):
            return False
        own, other = self.shaping(name), folded.shaping(folded_name)
        return replace(own, match="", to="") != replace(other, match="", to="")

    def folded(self) -> TableRules:
        """The same for a source whose names are in lower case."""
        return _folded(self.rules)


def _lending(rule: TableRule) -> TableRule:
    """What of a rule counts for a tool's table: it is by itself, whatever it is a copy of."""
    kept_columns = tuple(extra for extra in rule.extra_columns if extra != CHANNEL)
    return replace(rule, key_prefix="", extra_columns=kept_columns) if rule.shards_by else rule


@cache
def _folded(rules: tuple[TableRule, ...]) -> TableRules:
    return TableRules(
        tuple(replace(rule, match=fold(rule.match), to=fold(rule.to)) for rule in rules)
    )
