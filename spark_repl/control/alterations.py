"""Alterations: what statements have changed in tables' definitions since the tables were created:
defaults and foreign keys, which no Delta table's columns have. The control table keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ..binlog.definition import ForeignKey, TableDefinition, foreign_keys_of

if TYPE_CHECKING:
    from .control import Control

_DEFAULTS, _FOREIGN_KEYS = "defaults", "foreign_keys"


class Alterations:
    """Keeps them by the tables' paths: a table that is copied again has its definition from the
    source, and a new path."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._defaults: dict[str, list[Any]] = {}
        self._keys: dict[str, tuple[int, tuple[ForeignKey, ...]]] = {}
        self._names: dict[str, str] = {}  # of the tables whose keys these are

    def load(self) -> None:
        for row in self._control.rows(_DEFAULTS):
            detail = json.loads(row["detail"])
            self._defaults.setdefault(detail["path"], []).extend(detail["defaults"])
        for row in self._control.rows(_FOREIGN_KEYS):
            detail = json.loads(row["detail"])
            keys = foreign_keys_of(detail["keys"])
            self._keys[detail["path"]] = row["position"], keys or ()
            self._names[detail["path"]] = detail["name"]

    def of(self, path: str, definition: TableDefinition) -> TableDefinition:
        """The definition with all alterations of the table at ``path``."""
        _, keys = self._keys.get(path, (0, definition.foreign_keys))
        altered = definition.with_defaults(self._defaults.get(path, ()))
        return replace(altered, foreign_keys=keys)

    def set_defaults(
        self, name: str, path: str, defaults: Sequence[tuple[str, str | None]], position: int
    ) -> None:
        """Records what an INSERT that leaves columns out means from here on. Everything before has
        been committed, so the table's one definition can just change."""
        detail = json.dumps({"name": name, "path": path, "defaults": defaults})
        self._control.write(_DEFAULTS, position=position, detail=detail)
        self._defaults.setdefault(path, []).extend(defaults)

    def set_foreign_keys(
        self, name: str, path: str, keys: Sequence[ForeignKey], position: int
    ) -> None:
        listed = [asdict(key) for key in keys]
        detail = json.dumps({"name": name, "path": path, "keys": listed}, ensure_ascii=False)
        self._control.write(_FOREIGN_KEYS, position=position, detail=detail)
        self._keys[path], self._names[path] = (position, tuple(keys)), name

    def foreign_keys(self) -> dict[str, tuple[ForeignKey, ...] | None]:
        """Foreign keys by table, as the last statement that made or changed some left them."""
        return {self._names[path]: keys for path, (_, keys) in self._keys.items()}

    def has_foreign_keys_of(self, path: str, position: int) -> bool:
        """Whether a statement that ends at ``position`` was taken in already, before a crash."""
        return path in self._keys and self._keys[path][0] >= position
