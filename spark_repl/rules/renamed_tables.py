"""Tables of a log under the names that they have in the target, if these differ."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import SchemaError
from ..tables.table_definition import SYSTEM_SCHEMAS

if TYPE_CHECKING:
    from ..binlog.types.forms import Forms
    from ..tables.source_table import SourceTable
    from .rewrites import Rewrites

SHARED = (
    "leave one of the two out (filters.ignore_table has names as they are behind"
    " filters.rewrite_db), or give their databases different names there"
)


@dataclass
class RenamedTables:
    """Renames the definition of each TABLE_MAP. ``origins``: for each renamed table, by its name in
    the target, its name in the log."""

    rewrites: Rewrites
    forms: Forms
    left_out: Container[str] = ()
    origins: dict[str, str] = field(default_factory=dict)

    def apply(self, definition: SourceTable) -> SourceTable:
        """Return the definition in these forms, under its name in the target.

        Raise SchemaError if another table also has that name, SettingError if the name depends on
        the source's lower_case_table_names, which is not known.
        """
        logged = self.forms.apply(definition)
        if logged.database in SYSTEM_SCHEMAS:
            return logged
        own = self.rewrites.definition(logged)
        if own.name not in self.left_out:
            self.rewrites.check_letters([logged.name], rows=True)
            self.rewrites.check(logged.name)
            claim(self.origins, own.name, logged.name)
        return own


def claim(origins: dict[str, str], name: str, logged: str) -> None:
    """Record that the table ``name`` is the log's ``logged``. Raise SchemaError if another table of
    the log is recorded for the name."""
    other = origins.setdefault(name, logged)
    if other != logged:
        raise SchemaError(
            f"the source's tables {other} and {logged} would share {name} in the target",
            table=name,
            hint=SHARED,
        )
