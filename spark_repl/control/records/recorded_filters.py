"""FilterRules: the filters of now, and whether earlier ones have left out rows of a table.

The control table keeps each set of rules that a target was applied with. A table that was filtered
out once lacks rows, so later events alone must not create it. ``SourceNames`` maps the target's
table names to the source's where databases are renamed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...decode.renamed_tables import claim
from ...errors import BEGIN_AGAIN, SettingError
from ...rules.replication_filters import ReplicationFilters
from ...tables.table_name import database_of
from .name_case import ASK
from .table_paths import current_paths

if TYPE_CHECKING:
    from datetime import datetime

    from ...rules.table_routes import TableRoutes
    from ...tables.table_definition import TableDefinition
    from ..table.control import Control
    from .name_case import NameCase

log = logging.getLogger(__name__)

_KIND = "filters"


def recorded(control: Control) -> tuple[ReplicationFilters, datetime | None]:
    """The rules that were recorded last, and when that was; None: no rule was ever given."""
    rows = control.rows(_KIND)
    if not rows:
        return ReplicationFilters(), None
    return ReplicationFilters.from_json(rows[-1]["detail"]), rows[-1]["at"]


def record(control: Control, rules: ReplicationFilters) -> None:
    """Writes the rules that hold from here on, where they are others than before; the caller owns
    the target. Raises SettingError where tables have names that are rewritten otherwise now."""
    before, text = recorded(control)[0], rules.to_json()
    if text == before.to_json():
        return
    if tables := sorted(_meant_otherwise(before, rules, current_paths(control))):
        raise SettingError(
            "filters.rewrite_db, or to of [[tables]], is another one than the table was made with:"
            " the log's names would mean other tables of the target",
            table=", ".join(tables),
            hint=f"take the change back, or {BEGIN_AGAIN}",
        )
    control.write(_KIND, detail=text)


def _meant_otherwise(
    before: ReplicationFilters, rules: ReplicationFilters, tables: Iterable[str]
) -> Iterator[str]:
    """Those of the target's tables that other names of the log may mean now."""
    changed = {*before.rewrites.pairs} ^ {*rules.rewrites.pairs}
    named = {database for pair in changed for database in pair}
    # Nobody has to know yet whether the source's names are in lower case.
    pairs = [(before, rules), (before.folded(), rules.folded())]
    routes = [(old.rewrites.routes, new.rewrites.routes) for old, new in pairs]
    for name in tables:
        databases = {database_of(new.before(name)) for _, new in routes}
        if databases & named or any(_differ(old, new, name) for old, new in routes):
            yield name


def _differ(old: TableRoutes, new: TableRoutes, name: str) -> bool:
    """Whether the table that is ``name`` in the target is called otherwise now."""
    own = old.before(name)
    return new.after(own) != old.after(own)


class FilterRules:
    """The rules of one target. ``names``: how its source compares names."""

    def __init__(self, control: Control, rules: ReplicationFilters, names: NameCase) -> None:
        self._control, self._rules, self._names = control, rules, names
        self._earlier: tuple[ReplicationFilters, ...] = ()
        self.source_names = SourceNames()

    def load(self) -> None:
        """Takes in the rules of earlier times, and records those of now where they are others."""
        record(self._control, self._rules)
        texts = {str(row["detail"]) for row in self._control.rows(_KIND)}
        earlier = map(ReplicationFilters.from_json, sorted(texts - {self._rules.to_json()}))
        # They were asked about the same names, which another ``to`` has led to then.
        self._earlier = tuple(replace(rules, to=self._rules.to) for rules in earlier)

    @property
    def now(self) -> ReplicationFilters:
        return self._as_named(self._rules)

    def seen(self, made: TableDefinition) -> None:
        """Takes in whose the rows of a table are that the target has, where the source calls it
        otherwise."""
        if made.source_name:
            self.source_names.see(made.name, made.source_name)

    def ended(self, tables: Iterable[str]) -> list[str]:
        """Which of the target's tables the rules leave out since the last run: they would stay as
        they are while the source goes on, so no cut shows them from here on."""
        gone = [name for name in tables if not self.now.keeps(name)]
        if gone:
            log.warning("no cut shows %s from here on: the filters leave it out", ", ".join(gone))
        return gone

    def left_out_before(self, table: str) -> bool:
        """Whether rows of the table may have been left out by rules that hold no more."""
        return any(not self._as_named(rules).keeps(table) for rules in self._earlier)

    def _as_named(self, rules: ReplicationFilters) -> ReplicationFilters:
        if self._names.value == ASK:
            return rules.with_unknown_case()
        return rules.folded() if self._names.folds else rules


class SourceNames:
    """By the tables' names in the target, of those that have been seen so far."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._logged

    def of(self, name: str) -> str:
        """What the source calls the table ``name``: that, where nothing else has been seen."""
        return self._logged.get(name, name)

    def see(self, name: str, logged: str) -> None:
        """The table ``name`` is the log's ``logged`` from here on, whatever it was before."""
        self._logged[name] = logged

    def claim(self, name: str, logged: str) -> None:
        """Notes that the table ``name`` is the log's ``logged``. Raises SchemaError where it is
        another one."""
        claim(self._logged, name, logged)

    def check(self, name: str, logged: str) -> None:
        """Raises SchemaError where the table ``name`` is another one than the log's ``logged``."""
        claim({name: self._logged.get(name, logged)}, name, logged)

    def forget(self, name: str) -> None:
        """There is no such table any more."""
        self._logged.pop(name, None)
