"""ShownPaths: which tables' folders cuts show, for who asks again and again beside thousands of
cuts: of each folder a cut that shows it is remembered, and not read again while it is kept."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..config.renaming import whole_of

if TYPE_CHECKING:
    from .control import Control
    from .held_rows import Place


class ShownPaths:
    """Not safe from several threads."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._shown_at: dict[str, Place] = {}
        """path -> the newest cut that was seen to show it"""

    def among(self, paths: Collection[str]) -> set[str]:
        """Those of the paths of Delta tables, or of shards, relative to the target, that cuts show.
        Reads the newest cuts first, and no more of them than it takes: what a cut shows its own row
        tells, or that of another one, which is kept as well. Raises as ``Control.rows``."""
        held = self._control.held()
        kept = held.cut_places()
        left = {path for path in paths if self._shown_at.get(path) not in kept}
        for row in held.cut_rows(newest_first=True) if left else ():
            for version in json.loads(row["detail"])["tables"].values():
                for path in {version["path"], whole_of(version["path"])} & left:
                    self._shown_at[path] = row["position"], row["at"]
                    left.discard(path)
            if not left:
                break
        for path in left:
            self._shown_at.pop(path, None)
        return set(paths) - left
