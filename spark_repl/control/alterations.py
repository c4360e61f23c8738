"""What statements have changed in tables' definitions since the tables were made: defaults and
foreign keys, which are no part of a Delta table's columns. Rows of the control table keep it."""

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
    """By the tables' paths, as a table that is copied again has its definition from the source."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._defaults: dict[str, list[Any]] = {}
        self._keys: dict[str, tuple[int, tuple[ForeignKey, ...]]] = {}
        self._names: dict[str, str] = {}  # of the tables whose keys these are

    def load(self) -> None:
        for row in self._control.rows(_DEFAULTS):
            found = json.loads(row["detail"])
            self._defaults.setdefault(found["path"], []).extend(found["defaults"])
        for row in self._control.rows(_FOREIGN_KEYS):
            found = json.loads(row["detail"])
            keys = foreign_keys_of(found["keys"])
            self._keys[found["path"]] = row["position"], keys or ()
            self._names[found["path"]] = found["name"]

    def of(self, path: str, definition: TableDefinition) -> TableDefinition:
        """The definition as it is now."""
        _, keys = self._keys.get(path, (0, definition.foreign_keys))
        now = definition.with_defaults(self._defaults.get(path, ()))
        return replace(now, foreign_keys=keys)

    def set_defaults(
        self, name: str, path: str, defaults: Sequence[tuple[str, str | None]], position: int
    ) -> None:
        """What an INSERT means from here on that leaves a column out. Everything before has been
        committed, so the table's one definition can just change."""
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
        """Of each table where a statement has made or changed some, as the last one left them."""
        return {self._names[path]: keys for path, (_, keys) in self._keys.items()}

    def has_foreign_keys_of(self, path: str, position: int) -> bool:
        """Whether a statement that ends there has been taken in, before a crash."""
        return path in self._keys and self._keys[path][0] >= position
