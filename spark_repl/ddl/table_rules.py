"""TableRules: which of the configuration's ``[[tables]]`` is about a table, asked once a table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from ..config.tables import TableRule
from .lower_names import fold
from .routes import Routes

NO_RULE = TableRule()


@dataclass(frozen=True)
class TableRules:
    """``rules``, of which the first that fits a name counts. ``asked``: what was found so far."""

    rules: tuple[TableRule, ...] = ()
    asked: dict[str, TableRule] = field(default_factory=dict, compare=False, repr=False)

    def of_table(self, name: str) -> TableRule:
        """The rule of the target's table ``name`` (db.table), by its name before ``to``; NO_RULE
        where none fits."""
        if not self.rules:
            return NO_RULE
        if (known := self.asked.get(name)) is None:
            number = self._routes.deciding(self._routes.before(name))
            known = self.asked[name] = self.rules[number] if number >= 0 else NO_RULE
        return known

    @cached_property
    def _routes(self) -> Routes:
        return Routes.of(self.rules)

    def folded(self) -> TableRules:
        """The same for a source whose names are in lower case."""
        return _folded(self.rules)


@cache
def _folded(rules: tuple[TableRule, ...]) -> TableRules:
    return TableRules(
        tuple(replace(rule, match=fold(rule.match), to=fold(rule.to)) for rule in rules)
    )
