"""Folders of tables that nothing names any more: a copy took their place, or was given up."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING

from ..delta import storage
from .copies import KIND, Copy, current_paths, standing

if TYPE_CHECKING:
    from .control import Control
    from .layout import Layout


def replaced_paths(control: Control) -> set[str]:
    """Paths of tables that are in no cut, and to which nobody writes: relative to the target."""
    copies = [Copy.of(row) for row in control.rows(KIND)]
    made = {json.loads(row["detail"])["path"] for row in control.rows("table")}
    made.update(path for copy in copies for path in copy.paths.values())
    named, cuts, copy = set(current_paths(control).values()), control.cuts(), standing(control).copy
    if copy:
        named.update(copy.paths.values())
        cuts += [copy.behind] if copy.behind else []
    named.update(version.path for cut in cuts for version in cut.tables.values())
    return made - named


def remove_replaced(control: Control, layout: Layout, hours: int) -> list[str]:
    """Removes those that were found so ``hours`` ago for the first time: somebody may have taken
    the last cut that names one just before it was pruned. Returns their paths."""
    removed = []
    for path in sorted(replaced_paths(control)):
        folder, noted = layout.table(path), layout.replaced(path)
        if not storage.exists(folder):
            continue
        if not os.path.exists(noted):
            touch(noted)
        elif time.time() - os.path.getmtime(noted) > 3600 * hours:
            shutil.rmtree(layout.keys(path), ignore_errors=True)
            storage.remove_folder(folder)
            os.remove(noted)
            removed.append(path)
    return removed


def touch(path: str) -> None:
    """Makes a file whose time is now."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii"):
        os.utime(path)
