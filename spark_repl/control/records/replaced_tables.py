"""Replaced tables: folders that no row names any more.

That is so after a drop, a newer copy or a failed one. Kept cuts may still show a folder.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from ...config.renaming import SHARD, is_shared, whole_of
from ...crash_points import reach
from ...delta.log import log_state
from ...delta.log.committer import is_managed
from ...delta.store import storage
from ...delta.store.remover import Remover
from ...errors import TargetError
from ...runtime.wall_clock import JUMP_S
from .copies import standing
from .name_registry import OtherChannels
from .table_paths import announced_after, shown_paths, used_paths

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.layout import Layout

logger = logging.getLogger(__name__)

_OURS = "spark_repl."
"""prefix of the properties that mark a table as the applier's"""


def replaced_paths(control: Control) -> set[str]:
    """Return the paths, relative to the target, of tables that no cut shows and no process writes
    to."""
    used, in_use = _own_paths(control), _in_use(control)
    unused = _without(used, in_use)
    return _without(unused, paths_at_cuts(control)) if unused else set()


def _gone_shards(control: Control) -> set[str]:
    """Return the paths of dropped shards that no cut shows and whose Delta table still has others.
    The commit of DROP TABLE took their rows out."""
    used, in_use = used_paths(control), _in_use(control)
    wholes = set(map(whole_of, in_use))
    unused = {path for path in used - in_use if SHARD in path and whole_of(path) in wholes}
    return unused - paths_at_cuts(control) if unused else set()


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
    """Return which of the ``paths`` of Delta tables other channels name: in cuts, after them, or in
    a copy. Raise what reading their control tables raises."""
    wholes, named = set(map(whole_of, paths)), set[str]()
    for other in OtherChannels(control, target).controls() if wholes else ():
        used = used_paths(other)
        if not wholes.isdisjoint(map(whole_of, used)):
            named |= set(map(whole_of, used - replaced_paths(other)))
    return wholes & named


def _owner_beside(folder: str) -> str:
    """Return who, instead of the channel, decides about the Delta table in the folder, as the end
    of a warning; "" if nobody does. A table that can't be opened was damaged or partly removed, and
    counts as the channel's own. Raise OSError."""
    try:
        state = log_state.load(folder)
    except TargetError:
        return ""
    if state is None:
        return ""
    # Each channel gives properties of its own to its tables.
    if not any(name.startswith(_OURS) for name in state.metadata["configuration"]):
        return "the Delta table there was not made by an applier"
    if is_managed(state):
        return "a catalog manages it; drop the table in the catalog"
    return ""


def removes_folder(path: str, folder: str, beside: Collection[str]) -> bool:
    """Return whether the channel may remove the content of the ``folder`` at ``path``. Warn if the
    folder belongs to another channel (``beside``: the paths that other channels name) or to a user.
    """
    if whole_of(path) in beside:
        logger.warning("%s stays: another channel has its table there", folder)
    elif owner := _owner_beside(folder):
        logger.warning("%s stays: %s", folder, owner)
    else:
        return True
    return False


def remove_replaced(
    control: Control, layout: Layout, hours: int, make_durable: Callable[[], None]
) -> list[str]:
    """Remove tables that were first seen to be replaced ``hours`` ago: a reader may have opened the
    last cut that names one just before that cut was pruned. ``make_durable`` first makes the newer
    cuts
    durable. Tables of others stay. Return the removed paths. Raise OSError, FencedError, and what
    reading the control tables raises."""
    removed, remover = [], Remover(control.check_owner)
    for path in sorted(replaced_paths(control)):
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
            remover.folder(folder, make_durable)
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


def gone_paths(control: Control, layout: Layout) -> set[str]:
    """Return the paths that no row names any more and at which nothing exists: of tables that were
    removed or never created, and of shards that were dropped.

    Remove their working state: a process may have ended right after it removed the table, and the
    rows of these paths are pruned next.
    """
    replaced = replaced_paths(control)
    gone = {path for path in replaced if not storage.exists(layout.table(path))}
    for path in sorted(gone):
        _forget(layout, path)
    shards = _gone_shards(control)
    for path in filter(os.path.isdir, map(layout.keys, sorted(shards))):
        shutil.rmtree(path, ignore_errors=True)
    # Rows about a shared table record which of its rows were the channel's: they stay.
    return gone | {path for path in shards if not is_shared(path)}


def touch(path: str) -> None:
    """Create a file whose modification time is now."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii"):
        os.utime(path)


def paths_at_cuts(control: Control) -> set[str]:
    """Return the paths, relative to the target, of tables that a cut shows: of shards, and of their
    Delta tables. Raise as ``Control.rows``."""
    paths = {path for path, _ in control.snapshot().shown_versions}
    return paths | set(map(whole_of, paths))
