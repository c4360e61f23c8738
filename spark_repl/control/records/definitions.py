"""Definitions: the target's schema history, each definition with the position from which it holds.

A statement that changes a table's definition leaves a row here before the table's own commit. A new
table's own metadata has its definition. Rows of the log at a place have the last definition up to
it. The statements' GTIDs decide that, since a log that is fetched again has other places; positions
do if there are no GTIDs. Foreign keys of a table that no row has created yet are kept by name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...gtid import GtidSet
from ...tables.table_keys import ForeignKey, foreign_keys_of
from .operator_decisions import of_statements
from .recorded_definition import recorded_definition
from .table_paths import made_by_rows

if TYPE_CHECKING:
    from ...tables.target_table import TargetTable
    from ..table.control import Control

_DEFINITION, _FOREIGN_KEYS = "definition", "foreign_keys"


class Definitions:
    """Definitions by the tables' paths. A table that is copied again has a new path, and its
    definition from the source; a renamed table keeps both."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._recorded: dict[str, list[tuple[int, str, str]]] = {}
        """path -> positions, ascending, with the statement's GTID and the definition's JSON"""
        self._expected: dict[str, tuple[int, tuple[ForeignKey, ...]]] = {}

    def load(self) -> None:
        """Read the recorded definitions."""
        self._recorded, self._expected = {}, {}
        for row in of_statements(self._control, _DEFINITION):
            detail = json.loads(row["detail"])
            history = self._recorded.setdefault(detail["path"], [])
            history.append((row["position"], row["gtid_executed"], detail["definition"]))
            history.sort(key=lambda entry: entry[0])
        for row in self._control.rows(_FOREIGN_KEYS):
            detail = json.loads(row["detail"])
            keys = foreign_keys_of(detail["keys"]) or ()
            self._expected[detail["name"]] = row["position"], keys

    def has(self, path: str) -> bool:
        """Return whether a statement has changed the table since it was created."""
        return path in self._recorded

    def first(self, path: str) -> TargetTable | None:
        """Return the first kept definition of the table at ``path``. For a shard this is the
        definition with which it was created, until a later one replaces it."""
        history = self._recorded.get(path)
        return recorded_definition(history[0][2]) if history else None

    def at(self, path: str, position: int, executed: GtidSet) -> TargetTable | None:
        """Return the definition of the table at ``path`` after ``executed``, up to ``position``;
        None if the table has not changed since it was created."""
        texts = [
            text
            for at, gtid, text in self._recorded.get(path, ())
            if (GtidSet.parse(gtid).issubset(executed) if gtid else at <= position)
        ]
        return recorded_definition(texts[-1]) if texts else None

    def record(
        self,
        path: str,
        definition: TargetTable,
        position: int,
        gtid: str = "",
        *,
        by_rows: bool = False,
        with_next: bool = False,
    ) -> None:
        """Record the table's definition after the statement ``gtid``, which ends at ``position``,
        or the definition that the rows after it show (``by_rows``). If a statement is executed
        again after a crash, it is recorded once. ``with_next``: write it in the commit of the
        control table's next row."""
        history, text = self._recorded.setdefault(path, []), definition.to_json()
        if (position, gtid, text) in history:
            return
        fields = {"path": path, "definition": text} | ({"by_rows": True} if by_rows else {})
        detail = json.dumps(fields, ensure_ascii=False)
        put = self._control.add_pending if with_next else self._control.write
        put(_DEFINITION, position=position, gtid_executed=gtid, detail=detail)
        history.append((position, gtid, text))
        history.sort(key=lambda entry: entry[0])

    def expect_keys(self, name: str, keys: Sequence[ForeignKey], position: int) -> None:
        """Record the foreign keys that a table will have when a row creates it."""
        before = self._expected.get(name)
        if before is not None and before[0] >= position:
            return
        listed = [asdict(key) for key in keys]
        detail = json.dumps({"name": name, "keys": listed}, ensure_ascii=False)
        self._control.write(_FOREIGN_KEYS, position=position, detail=detail)
        self._expected[name] = position, tuple(keys)

    def expected_keys(self) -> dict[str, tuple[ForeignKey, ...]]:
        """Return foreign keys by the names of tables that did not exist when they were recorded."""
        return {name: keys for name, (_, keys) in self._expected.items()}


def shown_by_rows(control: Control) -> set[str]:
    """Return the paths of tables whose definition came from a TABLE_MAP instead of a statement."""
    details = [json.loads(row["detail"]) for row in control.rows(_DEFINITION)]
    paths = {detail["path"] for detail in details if detail.get("by_rows")}
    return paths | made_by_rows(control)
