"""RecordedFilters: the filters of now, and whether earlier ones have left out rows of a table.

The control table keeps each set of rules that a target was applied with. A table that was filtered
out once lacks rows, so later events alone must not create it. ``SourceNames`` maps the target's
table names to the source's where databases are renamed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import BEGIN_AGAIN, SettingError
from ...rules.renamed_tables import claim
from ...rules.replication_filters import ReplicationFilters
from ...tables.table_name import database_of
from .name_case import ASK
from .table_paths import current_paths

if TYPE_CHECKING:
    from datetime import datetime

    from ...rules.table_routes import TableRoutes
    from ...tables.target_table import TargetTable
    from ..table.control import Control
    from .name_case import NameCase

logger = logging.getLogger(__name__)

_KIND = "filters"


def recorded(control: Control) -> tuple[ReplicationFilters, datetime | None]:
    """Return the rules that were recorded last, and their time; None if no rules were ever
    recorded."""
    rows = control.rows(_KIND)
    if not rows:
        return ReplicationFilters(), None
    return ReplicationFilters.from_json(rows[-1]["detail"]), rows[-1]["at"]


def record(control: Control, rules: ReplicationFilters) -> None:
    """Write the current rules if they differ from the last ones; the caller owns the target. Raise
    SettingError if the names of existing tables would be rewritten differently now."""
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
    """Return the target's tables that other names of the log may mean now."""
    changed = {*before.rewrites.pairs} ^ {*rules.rewrites.pairs}
    named = {database for pair in changed for database in pair}
    # It may be unknown yet whether the source's names are in lower case.
    pairs = [(before, rules), (before.folded(), rules.folded())]
    routes = [(old.rewrites.routes, new.rewrites.routes) for old, new in pairs]
    for name in tables:
        databases = {database_of(new.before(name)) for _, new in routes}
        if databases & named or any(_differ(old, new, name) for old, new in routes):
            yield name


def _differ(old: TableRoutes, new: TableRoutes, name: str) -> bool:
    """Return whether the source's table that is ``name`` in the target would get another name
    now."""
    own = old.before(name)
    return new.after(own) != old.after(own)


class RecordedFilters:
    """The filter rules that are recorded in one target. ``names``: how its source compares
    names."""

    def __init__(self, control: Control, rules: ReplicationFilters, names: NameCase) -> None:
        self._control, self._rules, self._names = control, rules, names
        self._earlier: tuple[ReplicationFilters, ...] = ()
        self.source_names = SourceNames()

    def load(self) -> None:
        """Read earlier rules, and record the current ones if they differ."""
        record(self._control, self._rules)
        texts = {str(row["detail"]) for row in self._control.rows(_KIND)}
        earlier = map(ReplicationFilters.from_json, sorted(texts - {self._rules.to_json()}))
        # Earlier rules are applied to the source's names of now, so ``to`` is the current one.
        self._earlier = tuple(replace(rules, to=self._rules.to) for rules in earlier)

    @property
    def now(self) -> ReplicationFilters:
        return self._as_named(self._rules)

    def seen(self, definition: TargetTable) -> None:
        """Record the source's name of a table in the target, if it differs."""
        if definition.source_name:
            self.source_names.see(definition.name, definition.source_name)

    def ended(self, tables: Iterable[str]) -> list[str]:
        """Return the target's tables that the rules exclude since the last run. Their rows no
        longer follow the source, so no cut shows them from now on."""
        gone = [name for name in tables if not self.now.keeps(name)]
        if gone:
            logger.warning(
                "no cut shows %s from here on: the filters leave it out", ", ".join(gone)
            )
        return gone

    def left_out_before(self, table: str) -> bool:
        """Return whether former rules may have excluded rows of the table."""
        return any(not self._as_named(rules).keeps(table) for rules in self._earlier)

    def _as_named(self, rules: ReplicationFilters) -> ReplicationFilters:
        if self._names.value == ASK:
            return rules.with_unknown_case()
        return rules.folded() if self._names.folds else rules


class SourceNames:
    """The source's names of tables seen so far, by their names in the target."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._logged

    def of(self, name: str) -> str:
        """Return the source's name of the table ``name``; ``name`` itself if no other has been
        seen."""
        return self._logged.get(name, name)

    def see(self, name: str, logged: str) -> None:
        """Map the table ``name`` to the log's name ``logged`` from now on, in place of any earlier
        name."""
        self._logged[name] = logged

    def claim(self, name: str, logged: str) -> None:
        """Map the table ``name`` to the log's name ``logged``. Raise SchemaError if it is mapped to
        a different name."""
        claim(self._logged, name, logged)

    def check(self, name: str, logged: str) -> None:
        """Raise SchemaError if the table ``name`` is mapped to a name other than the log's
        ``logged``."""
        claim({name: self._logged.get(name, logged)}, name, logged)

    def forget(self, name: str) -> None:
        """Drop the table ``name``, which no longer exists."""
        self._logged.pop(name, None)
