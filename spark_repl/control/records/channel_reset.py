"""Channel reset: a channel's tables begin again, all of them or some.

Invariants. The control table stays, with its owners and the paths that were given. So a sleeping
applier is fenced off, and no path is given again. A reset of all tables removes their rows in one
commit, which names their folders. It then removes the folders; after a crash in between the next
call continues. A table that is reset by itself waits for a copy from the next cut on. Its folder
stays for the cuts that show it, and upkeep removes it after them.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from ...config.renaming import SHARD, is_shared, whole_of
from ...delta.log.durable import Durable
from ...delta.store import storage
from ...errors import ConfigError, TargetError
from ..table.cut import Waiting
from ..table.given_paths import KIND as GIVEN
from ..table.given_paths import forgotten
from .copies import record_copy, standing
from .name_registry import KIND as CHANNEL_NAMES
from .operator_decisions import SKIP
from .replaced_tables import named_beside, removes_folder
from .retention import KIND as RETENTION
from .retention import pins, promised_until
from .shared_tables import KIND as SHARED_TABLE
from .table_paths import RESET, current_paths, used_paths, whole_name

if TYPE_CHECKING:
    from ...delta.store.remover import Remover
    from ..table.control import Control
    from ..table.layout import Layout
    from .channels import Channel

_STAY = ("owner", RETENTION, SKIP, CHANNEL_NAMES, SHARED_TABLE)
"""kinds of rows that a reset of all tables keeps"""
_WORKING = (
    "checkpoint", "durable", "forgotten", "index", "keys", "replaced", "requests", "staging",
    "vacuumed", "verify",
)  # fmt: skip
_REASON = "reset by hand"


@dataclass(frozen=True)
class Planned:
    """What a reset does. ``tables``: their names; ``folders``: the absolute paths of folders that
    it removes; ``notices``: a line for each thing that the user should know beforehand."""

    tables: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def plan_all(at: Channel) -> Planned:
    """Return what a reset of all of a channel's tables removes. Raise TargetError for a pinned cut,
    and for a table that several channels feed."""
    control, layout = at.control, at.layout
    if not control.exists():
        return Planned()
    _refuse_pinned(at)
    used = used_paths(control)
    _refuse_shared(used)
    tables = sorted({whole_name(name, path) for name, path in current_paths(control).items()})
    beside = named_beside(control, layout.target, used)
    own = {path: layout.table(path) for path in used if storage.exists(layout.table(path))}
    paths = sorted({own[path] for path in own if removes_folder(path, own[path], beside)})
    folders = [*paths, layout.quarantine, layout.xa]
    existing = tuple(folder for folder in folders if storage.exists(folder))
    notices = [f"{control.cut_count()} cuts"] if control.cut_count() else []
    return Planned(
        tuple(tables), existing, (*(f"folder {folder}" for folder in existing), *notices)
    )


def reset_all(at: Channel, remover: Remover) -> Planned:
    """Remove all tables of a channel, and their folders; the caller owns the target. If a former
    applier has written to a folder, so that it still exists, upkeep or the next reset removes it.
    Raise as ``plan_all``, and what ``Control.write`` and the ``remover`` raise."""
    planned, control = plan_all(at), at.control
    paths = sorted(used_paths(control))
    reset = {RESET: json.dumps({"paths": paths})}
    control.begin_again((*_STAY, GIVEN), reset, partial(_refuse_pinned, at))
    clear_state(at.layout)
    durable = Durable(at.layout.target, at.layout.durable)
    durable.sync(control.path, durable.newest(control.path))
    for folder in planned.folders:
        remover.folder(folder, bool)
    beside = named_beside(control, at.layout.target, paths)
    remaining = [
        path for path in paths
        if whole_of(path) not in beside and storage.exists(at.layout.table(path))
    ]  # fmt: skip
    details = {
        GIVEN: forgotten(control.snapshot()).with_paths(set(paths) - set(remaining)).to_detail()
    }
    if remaining:
        details[RESET] = json.dumps({"paths": remaining})
    control.begin_again(_STAY, details)
    return planned


def _refuse_pinned(at: Channel) -> None:
    if pinned := sorted(pins(at.control)):
        raise TargetError(
            f"cuts are pinned, and their tables would go: {', '.join(pinned)}",
            file=at.layout.target,
            hint=f"spark-repl cut unpin --name {pinned[0]} --target {at.layout.target}"
            + (f" --channel {at.name}" if at.name else ""),
        )


def clear_state(layout: Layout) -> None:
    """Remove the working state of a channel whose tables were removed."""
    for name in _WORKING:
        shutil.rmtree(os.path.join(layout.state, name), ignore_errors=True)
    for path in (layout.status, layout.run):
        storage.remove_if_there(path)


def plan_tables(at: Channel, names: Iterable[str]) -> Planned:
    """Return what a reset of some tables does. Raise ConfigError for a table that the newest cut
    doesn't have, TargetError if there is no cut, and for shards."""
    control, layout, now = at.control, at.layout, datetime.now(UTC)
    cut = standing(control).cut
    if cut is None:
        raise TargetError(
            "no cut shows the tables yet", file=layout.target,
            hint="begin again with all of them: spark-repl reset --all --config F",
        )  # fmt: skip
    notices, chosen = list[str](), tuple(dict.fromkeys(names))
    wholes = {whole_of(name) for name in cut.tables if SHARD in name}
    for name in chosen:
        if name in wholes or SHARD in name:
            raise TargetError(
                "several tables of the source are in this one: it is not reset alone", table=name,
                hint="begin again with all tables: spark-repl reset --all --config F",
            )  # fmt: skip
        if name not in cut.tables and name not in cut.waiting:
            near = difflib.get_close_matches(name, [*cut.tables, *cut.waiting], 1)
            raise ConfigError(
                "the target has no such table", table=name,
                hint=f"it has {near[0]}" if near else "see spark-repl cut show --config F",
            )  # fmt: skip
        if name in cut.tables:
            until = _kept_until(control, cut.tables[name].path, now)
            folder = layout.table(cut.tables[name].path)
            notices.append(f"{name} waits for a copy; {folder} is removed {until}")
    return Planned(chosen, (), tuple(notices))


def reset_tables(at: Channel, names: Iterable[str]) -> Planned:
    """Make tables wait for a copy from the next cut on; the caller owns the target. Give up a copy
    that no cut shows yet. Raise as ``plan_tables``, and what ``Control.write`` raises."""
    planned, control = plan_tables(at, names), at.control
    start = standing(control)
    if start.copy is not None:
        record_copy(control, replace(start.copy, error=_REASON))
    cut = start.cut
    assert cut is not None
    gone = set(planned.tables)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    waiting = {name: Waiting(_REASON, now) for name in planned.tables}
    control.publish(
        replace(
            cut,
            tables={name: table for name, table in cut.tables.items() if name not in gone},
            waiting={**cut.waiting, **waiting},
            quarantined={
                n: quarantine for n, quarantine in cut.quarantined.items() if n not in gone
            },
        )
    )
    return planned


def _kept_until(control: Control, path: str, now: datetime) -> str:
    """Return, for a message, when the folder of a table is removed."""
    snapshot = control.snapshot()
    cuts = snapshot.places_of(path)
    if cuts & {pin.cut for pin in pins(control).values()}:
        return "after the cuts that are pinned are unpinned"
    ends = [end for place, end in promised_until(control, snapshot, now).items() if place in cuts]
    last = max(ends, default=now)
    return f"after its last cut, {last:%Y-%m-%d %H:%M} UTC" if last > now else "soon"


def _refuse_shared(paths: Iterable[str]) -> None:
    if shared := sorted({whole_of(path) for path in paths if is_shared(path)}):
        raise TargetError(
            f"several channels feed the table at {shared[0]}: none of them begins again alone",
            hint="give all of its channels another target.path, and start them",
        )
