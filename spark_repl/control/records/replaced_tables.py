"""Replaced tables: folders that no row names any more after a drop, a newer copy or a failed one.

``CutPaths`` finds the folders that kept cuts still show. It remembers one cut for each folder and
reads no cut again while that one is kept, since a target may have thousands of cuts.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ...config.renaming import SHARD, is_shared, whole_of
from ...crash_points import reach
from ...delta.store import storage
from ...delta.store.delta_rs import delta_rs
from ...delta.store.remover import Remover
from ...errors import TargetError
from ...runtime.wall_clock import JUMP_S
from .copies import standing
from .name_registry import OtherChannels
from .table_paths import announced_after, shown_paths, used_paths

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.control_snapshot import Place
    from ..table.layout import Layout

logger = logging.getLogger(__name__)

_OURS = "spark_repl."
"""prefix of the properties that mark a table as the applier's"""


def replaced_paths(control: Control, cut_paths: CutPaths | None = None) -> set[str]:
    """Return the paths, relative to the target, of tables that no cut shows and no process writes
    to. ``cut_paths``: reused by callers that ask repeatedly."""
    used, in_use = _own_paths(control), _in_use(control)
    unused = _without(used, in_use)
    wholes = set(map(whole_of, unused))
    return _without(unused, (cut_paths or CutPaths(control)).among(wholes))


def _gone_shards(control: Control, cut_paths: CutPaths | None) -> set[str]:
    """Return the paths of dropped shards that no cut shows and whose Delta table still has others.
    The commit of DROP TABLE took their rows out."""
    used, in_use = used_paths(control), _in_use(control)
    wholes = set(map(whole_of, in_use))
    unused = {path for path in used - in_use if SHARD in path and whole_of(path) in wholes}
    return unused - (cut_paths or CutPaths(control)).among(unused)


def _own_paths(control: Control) -> set[str]:
    """Return the paths that were given to tables of this channel only: other channels' cuts may
    show shared tables. Call it before ``_in_use``: a table that is announced meanwhile is then not
    taken for a leftover."""
    return {path for path in used_paths(control) if not is_shared(path)}


def _in_use(control: Control) -> set[str]:
    """Return the paths at the newest cut, after it, and of a pending copy."""
    start = standing(control)
    in_use = {row.path for row in announced_after(control, start.cut)}
    in_use.update(shown_paths(control, start.cut).values())
    if start.copy:
        in_use.update(start.copy.paths.values())
        if start_cut := start.copy.behind:
            in_use.update(version.path for version in start_cut.tables.values())
    return in_use


def _without(paths: set[str], needed: Iterable[str]) -> set[str]:
    """Return the ``paths`` of Delta tables that no path of ``needed`` is in."""
    wholes = set(map(whole_of, needed))
    return {path for path in paths if whole_of(path) not in wholes}


def named_beside(control: Control, target: str, paths: Iterable[str]) -> set[str]:
    """Return which of the ``paths``, as paths of Delta tables, other channels name: at cuts, after
    them, or in a copy. Raise what reading their control tables raises."""
    wholes, named = set(map(whole_of, paths)), set[str]()
    for other in OtherChannels(control, target).controls() if wholes else ():
        used = used_paths(other)
        if not wholes.isdisjoint(map(whole_of, used)):
            named |= set(map(whole_of, used - replaced_paths(other)))
    return wholes & named


def is_foreign(folder: str) -> bool:
    """Return whether the folder has a Delta table without the properties that each channel gives to
    its own. A table that can't be opened was damaged, or partly removed, and counts as its own.
    Raise OSError."""
    try:
        with delta_rs("see whose a table is", folder):
            options = storage.options(folder)
            table = DeltaTable(folder, storage_options=options)
            return not any(key.startswith(_OURS) for key in table.metadata().configuration)
    except (TableNotFoundError, TargetError):
        return False


def removes_folder(path: str, folder: str, beside: Collection[str]) -> bool:
    """Return whether the channel may remove the content of the ``folder``, at the ``path``. Warn if
    it is another channel's (``beside``: the paths that other channels name), or a user's."""
    if whole_of(path) in beside:
        logger.warning("%s stays: another channel has its table there", folder)
    elif is_foreign(folder):
        logger.warning("%s stays: the Delta table there was not made by an applier", folder)
    else:
        return True
    return False


def remove_replaced(
    control: Control, layout: Layout, hours: int, settle: Callable[[], None],
    cut_paths: CutPaths | None = None,
) -> list[str]:  # fmt: skip
    """Remove tables that were first seen to be replaced ``hours`` ago: a reader may have opened the
    last cut that names one just before it was pruned. ``settle`` makes the newer cuts durable
    first. Tables of others stay. ``cut_paths``: as in ``replaced_paths``. Return the removed paths.
    Raise OSError, FencedError, and what reading the control tables raises."""
    removed, remover = [], Remover(control.check_owner)
    for path in sorted(replaced_paths(control, cut_paths)):
        folder, note = layout.table(path), layout.replaced(path)
        if not storage.exists(folder):
            continue
        age_s = time.time() - os.path.getmtime(note) if os.path.exists(note) else -math.inf
        if age_s < -JUMP_S:  # the note is from a clock that was ahead
            touch(note)
        elif age_s <= 3600 * hours:
            continue
        elif not removes_folder(path, folder, named_beside(control, layout.target, [path])):
            touch(note)
        else:
            remover.folder(folder, settle)
            reach("replaced_removed")
            _forget(layout, path)
            removed.append(path)
    return removed


def _forget(layout: Layout, path: str) -> None:
    """Remove the working state of a table that is gone."""
    shutil.rmtree(layout.keys(path), ignore_errors=True)
    whole = whole_of(path)
    synced = os.path.join(layout.durable, whole)
    notes = (layout.vacuumed(whole), layout.forgotten(whole), layout.replaced(path), synced)
    for note in notes:
        storage.remove_if_there(note)


def gone_paths(control: Control, layout: Layout, cut_paths: CutPaths | None = None) -> set[str]:
    """Return the paths that no row names any more and where nothing exists: of tables that were
    removed, or never created, and of shards that were dropped.

    Remove their working state: a process may have ended right after it removed the table, and the
    rows of these paths are pruned next. ``cut_paths``: as in ``replaced_paths``.
    """
    replaced = replaced_paths(control, cut_paths)
    gone = {path for path in replaced if not storage.exists(layout.table(path))}
    for path in sorted(gone):
        _forget(layout, path)
    shards = _gone_shards(control, cut_paths)
    for path in filter(os.path.isdir, map(layout.keys, sorted(shards))):
        shutil.rmtree(path, ignore_errors=True)
    # Rows about a shared table record which of its rows were the channel's: they stay.
    return gone | {path for path in shards if not is_shared(path)}


def touch(path: str) -> None:
    """Create a file whose time is now."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii"):
        os.utime(path)


class CutPaths:
    """Finds the folders that cuts show. Not thread-safe."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._shown_at: dict[str, Place] = {}
        """path -> the newest cut that was seen to show it"""

    def among(self, paths: Collection[str]) -> set[str]:
        """Return which of the paths of Delta tables, or of shards, relative to the target, cuts
        show. Read the newest cuts first, and only as many as necessary: a table that a cut shows is
        in its own row, or in that of another kept cut. Raise as ``Control.rows``."""
        snapshot = self._control.snapshot()
        places = snapshot.cut_places()
        missing = {path for path in paths if self._shown_at.get(path) not in places}
        for row in snapshot.cut_rows(newest_first=True) if missing else ():
            for version in json.loads(row["detail"])["tables"].values():
                for path in {version["path"], whole_of(version["path"])} & missing:
                    self._shown_at[path] = row["position"], row["at"]
                    missing.discard(path)
            if not missing:
                break
        for path in missing:
            self._shown_at.pop(path, None)
        return set(paths) - missing
