"""TableRules: which of the configuration's ``[[tables]]`` is about a table, asked once a table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

from ..binlog.table_name import plain_name
from ..config.tables import TableRule
from ..config.wildcards import fits
from .lower_names import fold

NO_RULE = TableRule()


@dataclass(frozen=True)
class TableRules:
    """``rules``, of which the first that fits a name counts. ``asked``: what was found so far."""

    rules: tuple[TableRule, ...] = ()
    asked: dict[str, TableRule] = field(default_factory=dict, compare=False, repr=False)

    def of_table(self, name: str) -> TableRule:
        """The rule of the table ``name`` (db.table); NO_RULE where none fits."""
        if not self.rules:
            return NO_RULE
        if (known := self.asked.get(name)) is None:
            plain = plain_name(name)
            fitting = (rule for rule in self.rules if fits(rule.match, plain))
            known = self.asked[name] = next(fitting, NO_RULE)
        return known

    def folded(self) -> TableRules:
        """The same for a source whose names are in lower case."""
        return _folded(self.rules)


@cache
def _folded(rules: tuple[TableRule, ...]) -> TableRules:
    return TableRules(tuple(replace(rule, match=fold(rule.match)) for rule in rules))
