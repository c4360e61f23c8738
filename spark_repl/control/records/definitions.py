"""Definitions: the target's schema history, each definition with the position from which it holds.

A statement that changes a table's definition leaves a row here, before the table's own commit. A
table as it was created says its definition itself. What rows of the log mean at a place is the last
definition up to it: by the statements' GTIDs, as a log that is fetched again has other places; by
position where there are none. Foreign keys of a table that no row has made yet are kept by name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...alter.recorded_definition import recorded_definition
from ...gtid import GtidSet
from ...tables.table_keys import ForeignKey, foreign_keys_of
from .operator_decisions import of_statements
from .table_paths import made_by_rows

if TYPE_CHECKING:
    from ...tables.table_definition import TableDefinition
    from ..table.control import Control

_DEFINITION, _FOREIGN_KEYS = "definition", "foreign_keys"


class Definitions:
    """Kept by the tables' paths: a table that is copied again has its definition from the source,
    and a new path; one that is renamed keeps both."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._held: dict[str, list[tuple[int, str, str]]] = {}
        """path -> positions, ascending, with the statement's GTID and the definition's JSON"""
        self._expected: dict[str, tuple[int, tuple[ForeignKey, ...]]] = {}

    def load(self) -> None:
        """Reads what is recorded."""
        self._held, self._expected = {}, {}
        for row in of_statements(self._control, _DEFINITION):
            detail = json.loads(row["detail"])
            held = self._held.setdefault(detail["path"], [])
            held.append((row["position"], row["gtid_executed"], detail["definition"]))
            held.sort(key=lambda one: one[0])
        for row in self._control.rows(_FOREIGN_KEYS):
            detail = json.loads(row["detail"])
            keys = foreign_keys_of(detail["keys"]) or ()
            self._expected[detail["name"]] = row["position"], keys

    def has(self, path: str) -> bool:
        """Whether a statement has changed the table since it was created."""
        return path in self._held

    def first(self, path: str) -> TableDefinition | None:
        """The first definition that is kept of the table at ``path``: of a shard that which it was
        made with, while nothing has superseded it."""
        held = self._held.get(path)
        return recorded_definition(held[0][2]) if held else None

    def at(self, path: str, position: int, executed: GtidSet) -> TableDefinition | None:
        """The definition of the table at ``path`` where ``executed`` was, up to ``position``; None:
        it is as it was created."""
        held = [
            text
            for at, gtid, text in self._held.get(path, ())
            if (GtidSet.parse(gtid).issubset(executed) if gtid else at <= position)
        ]
        return recorded_definition(held[-1]) if held else None

    def record(
        self,
        path: str,
        definition: TableDefinition,
        position: int,
        gtid: str = "",
        *,
        by_rows: bool = False,
        with_next: bool = False,
    ) -> None:
        """Records what the statement ``gtid``, which ends at ``position``, makes of the table, or
        what the rows behind it say (``by_rows``); once, if it is carried out again behind a
        crash. ``with_next``: in the commit of the control table's next row."""
        held, text = self._held.setdefault(path, []), definition.to_json()
        if (position, gtid, text) in held:
            return
        fields = {"path": path, "definition": text} | ({"by_rows": True} if by_rows else {})
        detail = json.dumps(fields, ensure_ascii=False)
        put = self._control.hold_back if with_next else self._control.write
        put(_DEFINITION, position=position, gtid_executed=gtid, detail=detail)
        held.append((position, gtid, text))
        held.sort(key=lambda one: one[0])

    def expect_keys(self, name: str, keys: Sequence[ForeignKey], position: int) -> None:
        """Records the foreign keys that a table will have once a row makes it."""
        before = self._expected.get(name)
        if before is not None and before[0] >= position:
            return
        listed = [asdict(key) for key in keys]
        detail = json.dumps({"name": name, "keys": listed}, ensure_ascii=False)
        self._control.write(_FOREIGN_KEYS, position=position, detail=detail)
        self._expected[name] = position, tuple(keys)

    def expected_keys(self) -> dict[str, tuple[ForeignKey, ...]]:
        """Foreign keys by the names of tables that were not made when they were recorded."""
        return {name: keys for name, (_, keys) in self._expected.items()}


def shown_by_rows(control: Control) -> set[str]:
    """The paths of tables of whose definition a TABLE_MAP has said something, and no statement."""
    details = [json.loads(row["detail"]) for row in control.rows(_DEFINITION)]
    taken = {detail["path"] for detail in details if detail.get("by_rows")}
    return taken | made_by_rows(control)
