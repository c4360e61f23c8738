"""Replaced tables: folders that no row names any more after a drop, a newer copy or a failed one.

``ShownPaths`` finds the folders that kept cuts still show. It remembers one cut for each folder and
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
from ...delta import storage
from ...delta.delta_rs import delta_rs
from ...delta.removing import Remover
from ...errors import TargetError
from ...runtime.wall_clock import JUMP_S
from .copies import standing
from .name_registry import OtherChannels
from .table_paths import made_behind, shown_paths, used_paths

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.control_snapshot import Place
    from ..table.layout import Layout

log = logging.getLogger(__name__)

_OURS = "spark_repl."
"""what names of properties begin with that say what a table is"""


def replaced_paths(control: Control, shown: ShownPaths | None = None) -> set[str]:
    """Paths, relative to the target, of tables that no cut shows and nobody writes to. ``shown``:
    of who asks again and again."""
    used, in_use = _own_paths(control), _in_use(control)
    unused = _without(used, in_use)
    wholes = set(map(whole_of, unused))
    return _without(unused, (shown or ShownPaths(control)).among(wholes))


def _gone_shards(control: Control, shown: ShownPaths | None) -> set[str]:
    """Return the paths of shards that were dropped, that no cut shows, and whose Delta table others
    are in. The commit of DROP TABLE took their rows out."""
    used, in_use = used_paths(control), _in_use(control)
    wholes = set(map(whole_of, in_use))
    unused = {path for path in used - in_use if SHARD in path and whole_of(path) in wholes}
    return unused - (shown or ShownPaths(control)).among(unused)


def _own_paths(control: Control) -> set[str]:
    """Return the paths that were given to tables of the channel alone: others' cuts may show what
    several channels feed. Asked before ``_in_use``: what is announced meanwhile is nobody's
    leftover."""
    return {path for path in used_paths(control) if not is_shared(path)}


def _in_use(control: Control) -> set[str]:
    """Return the paths at the newest cut, after it, and of a copy that stands."""
    stands = standing(control)
    in_use = {row.path for row in made_behind(control, stands.cut)}
    in_use.update(shown_paths(control, stands.cut).values())
    if stands.copy:
        in_use.update(stands.copy.paths.values())
        if behind := stands.copy.behind:
            in_use.update(version.path for version in behind.tables.values())
    return in_use


def _without(paths: set[str], needed: Iterable[str]) -> set[str]:
    """The ``paths`` of Delta tables that no path of ``needed`` is in."""
    wholes = set(map(whole_of, needed))
    return {path for path in paths if whole_of(path) not in wholes}


def named_beside(control: Control, target: str, paths: Iterable[str]) -> set[str]:
    """Return those of the ``paths``, as paths of Delta tables, that other channels name: at cuts,
    behind them, or in a copy. Raise what reading their control tables raises."""
    wholes, named = set(map(whole_of, paths)), set[str]()
    for other in OtherChannels(control, target).controls() if wholes else ():
        used = used_paths(other)
        if not wholes.isdisjoint(map(whole_of, used)):
            named |= set(map(whole_of, used - replaced_paths(other)))
    return wholes & named


def is_foreign(folder: str) -> bool:
    """Whether the folder has a Delta table without the properties that each channel gives to its
    own. One that can't be opened was damaged, or partly removed. Raise OSError."""
    try:
        with delta_rs("see whose a table is", folder):
            options = storage.options(folder)
            table = DeltaTable(folder, storage_options=options)
            return not any(key.startswith(_OURS) for key in table.metadata().configuration)
    except (TableNotFoundError, TargetError):
        return False


def removes_folder(path: str, folder: str, beside: Collection[str]) -> bool:
    """Whether what is in the ``folder``, at the ``path``, is the channel's to remove; say so if it
    is another one's (``beside``: what those name), or a person's."""
    if whole_of(path) in beside:
        log.warning("%s stays: another channel has its table there", folder)
    elif is_foreign(folder):
        log.warning("%s stays: the Delta table there was not made by an applier", folder)
    else:
        return True
    return False


def remove_replaced(
    control: Control, layout: Layout, hours: int, settle: Callable[[], None],
    shown: ShownPaths | None = None,
) -> list[str]:  # fmt: skip
    """Removes tables that were first seen to be replaced ``hours`` ago: somebody may have taken the
    last cut that names one just before it was pruned; ``settle`` makes the cuts that don't durable.
    Tables of others there stay. ``shown``: as ``replaced_paths`` has it. Returns their paths.
    Raises OSError, FencedError, and what reading the control tables raises."""
    removed, remover = [], Remover(control.check_owner)
    for path in sorted(replaced_paths(control, shown)):
        folder, noted = layout.table(path), layout.replaced(path)
        if not storage.exists(folder):
            continue
        age_s = time.time() - os.path.getmtime(noted) if os.path.exists(noted) else -math.inf
        if age_s < -JUMP_S:  # or from a clock that was wrong
            touch(noted)
        elif age_s <= 3600 * hours:
            continue
        elif not removes_folder(path, folder, named_beside(control, layout.target, [path])):
            touch(noted)
        else:
            remover.folder(folder, settle)
            reach("replaced_removed")
            _forget(layout, path)
            removed.append(path)
    return removed


def _forget(layout: Layout, path: str) -> None:
    """Removes what the working state has of a table that is gone."""
    shutil.rmtree(layout.keys(path), ignore_errors=True)
    whole = whole_of(path)
    synced = os.path.join(layout.durable, whole)
    notes = (layout.vacuumed(whole), layout.forgotten(whole), layout.replaced(path), synced)
    for note in notes:
        storage.remove_if_there(note)


def gone_paths(control: Control, layout: Layout, shown: ShownPaths | None = None) -> set[str]:
    """Return the paths that nothing names any more and where nothing is: of tables that were
    removed, or never made, and of shards that were dropped.

    What the working state has of them is removed: a process may have ended right after it removed
    the table, and these paths are going to be forgotten. ``shown``: as ``replaced_paths`` has it.
    """
    replaced = replaced_paths(control, shown)
    gone = {path for path in replaced if not storage.exists(layout.table(path))}
    for path in sorted(gone):
        _forget(layout, path)
    shards = _gone_shards(control, shown)
    for path in filter(os.path.isdir, map(layout.keys, sorted(shards))):
        shutil.rmtree(path, ignore_errors=True)
    # The rows of a table that several channels feed say which of its rows were the channel's.
    return gone | {path for path in shards if not is_shared(path)}


def touch(path: str) -> None:
    """Makes a file whose time is now."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii"):
        os.utime(path)


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
