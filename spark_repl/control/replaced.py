"""Replaced tables: folders that nothing names any more, as a copy took their place or failed."""

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
    """Paths, relative to the target, of tables that no cut shows and nobody writes to."""
    copies = [Copy.of(row) for row in control.rows(KIND)]
    paths = {json.loads(row["detail"])["path"] for row in control.rows("table")}
    paths.update(path for copy in copies for path in copy.paths.values())
    in_use = set(current_paths(control).values())
    cuts, copy = control.cuts(), standing(control).copy
    if copy:
        in_use.update(copy.paths.values())
        cuts += [copy.behind] if copy.behind else []
    in_use.update(version.path for cut in cuts for version in cut.tables.values())
    return paths - in_use


def remove_replaced(control: Control, layout: Layout, hours: int) -> list[str]:
    """Removes tables that were first seen to be replaced ``hours`` ago: somebody may have taken the
    last cut that names one just before it was pruned. Returns their paths."""
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
