"""SchemaToolTables: tables of online schema-change tools, and their definitions; their rows are not
applied.

Each statement that creates, alters or ends one leaves a row. The rows up to a place determine the
tables at that place: by the statements' GTIDs, or by position if there are none.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ...gtid import GtidSet
from ..table.row_formats import known_fields
from .operator_decisions import of_statements
from .recorded_definition import recorded_definition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...tables.source_table import SourceTable
    from ..table.control import Control
    from ..table.cut import Cut

_KIND = "left_out"


@dataclass(frozen=True)
class SchemaToolTable:
    """A table that a tool created for another table.

    ``of``: that other table, of which this one is a ``copy`` or an auxiliary table. ``definition``:
    None if it is not known; ``altered``: whether a statement has altered this table; ``stale``:
    whether ``of`` was changed since.
    """

    name: str
    of: str
    definition: SourceTable | None = None
    copy: bool = False
    altered: bool = False
    stale: bool = False

    def _to_json(self) -> str:
        fields = asdict(replace(self, definition=None))
        text = self.definition.to_json() if self.definition else None
        return json.dumps(fields | {"definition": text}, ensure_ascii=False)

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> SchemaToolTable:
        text = fields["definition"]
        definition = recorded_definition(text) if text else None
        return cls(**{**known_fields(cls, fields), "definition": definition})


class SchemaToolTables:
    """The ``tables`` of tools at the log position that is being applied, by name."""

    def __init__(self, control: Control) -> None:
        self._control, self.tables = control, dict[str, SchemaToolTable]()
        self._recorded: set[tuple[int, str, str]] = set()

    def load(self, cut: Cut | None) -> None:
        """Read the tables as of ``cut``."""
        at, executed = (cut.position, GtidSet.parse(cut.gtid_executed)) if cut else (-1, GtidSet())
        self.tables = {}
        recorded = of_statements(self._control, _KIND)
        rows = sorted(recorded, key=lambda row: (row["position"], row["at"]))
        for row in rows:
            gtid, detail = row["gtid_executed"], json.loads(row["detail"])
            self._recorded.add((row["position"], gtid, row["detail"]))
            if not (GtidSet.parse(gtid).issubset(executed) if gtid else row["position"] <= at):
                continue
            if detail.get("ended"):
                self.tables.pop(detail["name"], None)
            else:
                table = SchemaToolTable._of(detail)
                self.tables[table.name] = table

    def put(self, table: SchemaToolTable, cut: Cut) -> None:
        """Record the table, which is ignored or has changed, with effect from the statement before
        ``cut``."""
        self._record(table._to_json(), cut)
        self.tables = {**self.tables, table.name: table}

    def end(self, name: str, cut: Cut) -> None:
        """Record that the table no longer exists, or is now an ordinary table, with effect from the
        statement before ``cut``."""
        if name in self.tables:
            self._record(json.dumps({"name": name, "ended": True}, ensure_ascii=False), cut)
            self.tables = {other: table for other, table in self.tables.items() if other != name}

    def _record(self, detail: str, cut: Cut) -> None:
        row = cut.position, cut.group_gtids, detail
        if row not in self._recorded:
            self._control.write(
                _KIND, position=cut.position, gtid_executed=cut.group_gtids, detail=detail
            )
            self._recorded.add(row)
