"""Tables of a cut as readers see them: shards that are in one Delta table are one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..config.renaming import SHARD, whole_of
from ..errors import TargetError

if TYPE_CHECKING:
    from .cut import Cut, TableVersion


def shown_tables(cut: Cut) -> Mapping[str, TableVersion]:
    """Name -> the Delta table, and its version. All shards that are in one have its version. Raises
    TargetError where shards of one name are in two."""
    shown: dict[str, TableVersion] = {}
    for name, at in cut.tables.items():
        if SHARD in at.path:
            name, at = whole_of(name), replace(at, path=whole_of(at.path))
            if shown.get(name, at) != at:
                raise TargetError("the cut has shards of it at two places", table=name)
        shown[name] = at
    return shown
