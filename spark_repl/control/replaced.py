"""Replaced tables: folders that nothing names any more, as the table was dropped, a copy took its
place, or failed."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from ..delta import storage
from .copies import standing
from .table_paths import made_behind, shown_paths, used_paths

if TYPE_CHECKING:
    from .control import Control
    from .layout import Layout


def replaced_paths(control: Control) -> set[str]:
    """Paths, relative to the target, of tables that no cut shows and nobody writes to."""
    cuts, stands = control.cuts(), standing(control)
    in_use = {row.path for row in made_behind(control, stands.cut)}
    in_use.update(shown_paths(control, stands.cut).values())
    if stands.copy:
        in_use.update(stands.copy.paths.values())
        cuts += [stands.copy.behind] if stands.copy.behind else []
    in_use.update(version.path for cut in cuts for version in cut.tables.values())
    return used_paths(control) - in_use


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
