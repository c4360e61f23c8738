"""Target move: the tables, cuts, pins, history and positions of a target go to an object store.

The mover claims every channel of the source target, so no applier changes it meanwhile. It copies
files. Then it creates the new target's control tables, each in one commit. Paths in control tables
and in Delta's logs are relative, so no content changes.

Invariants:

1. Readers find no target at the new place before all files are there and have their sizes: it has
   no control table. Appliers are refused there, because of the mover's note (``_repl/move.json``).
2. After a failure or a kill the source is as it was. After the move its control tables name the
   new place, and ``Control.claim`` refuses them.
3. The mover writes into an empty place only, or into one with a note of the same source. It removes
   only files of such a place that the source does not have.
4. A second call copies what is missing. If the new target is complete, it only writes the missing
   rows of the source. In that case the new target has a mover's claim, and no applier has claimed
   the source since then.

The lease, staged rows, the working state and the relay log's archive are not copied. The receiver
archives its log at the new place from the beginning.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import formats
from ...config.renaming import whole_of
from ...crash_points import reach
from ...delta.log import log_state
from ...delta.log.add_actions import live_files
from ...delta.log.committer import is_managed
from ...delta.log.table_log import TableLog
from ...delta.store import storage
from ...delta.store.remover import ASIDE, Remover
from ...errors import ConfigError, TargetError
from ...runtime.target_uri import canonical, is_remote
from ...runtime.threads import Pool
from ..table.control import Control
from ..table.control_rows import ControlRows
from ..table.cut import reader_tables
from ..table.layout import Layout
from ..table.owner_lease import wait_until_unclaimed
from .channels import NOTE_FORMAT, noted_source
from .replaced_tables import paths_at_cuts
from .table_paths import current_paths, used_paths

if TYPE_CHECKING:
    from ...runtime.store import StoredFile

logger = logging.getLogger(__name__)

_AT_ONCE = 8
"""files that are copied at once"""
_PART_BYTES = 8 << 20
"""read and written at once; a smaller file is copied in two requests"""
_LOG_EVERY = 1000


@dataclass(frozen=True)
class Moved:
    """What a call of ``move_target`` did. ``files``, ``size_bytes``: of the new target, without its
    control tables; ``copied``: the files that this call copied."""

    source: str
    target: str
    channels: int
    files: int
    size_bytes: int
    copied: int


def move_target(source: str, target: str, *, take_over: bool = False) -> Moved:
    """Move a target to an object store.

    Wait for the lease of an owner on another host. Raise FencedError if an applier runs, or if the
    source was moved elsewhere. Raise ConfigError and TargetError if a target can't be moved between
    these places, TargetError if the new place is in use, and OSError.
    """
    source, target = canonical(source), canonical(target)
    _check_places(source, target)
    ControlRows.existing(source)
    with ExitStack() as claims:
        channels = list[_MovedChannel]()
        for channel in _channels(source, target):
            if not _is_finished(channel.control, target):
                channel.claim(claims, take_over=take_over)
                channels.append(channel)
        copied = files = size = 0
        complete = [channel.is_complete() for channel in channels]
        if not all(complete):
            sizes = _files_of(source, channels)
            files, size = len(sizes), sum(sizes.values())
            copied = _copy(source, target, channels, sizes)
            for channel in reversed(channels):  # the first one makes the new target complete
                channel.create_copy()
                reach("target_moved")
        Remover().files([Layout(target).move_note])
        for channel in channels:
            channel.control.give_up()
            reach("target_moved")
    return Moved(source, target, len(channels), files, size, copied)


def _check_places(source: str, target: str) -> None:
    if not is_remote(target):
        raise ConfigError(
            "a target is moved to an object store only", file=target,
            hint="give s3://, gs:// or abfss://; move a folder by mv while no applier runs",
        )  # fmt: skip
    if f"{source}/".startswith(f"{target}/") or f"{target}/".startswith(f"{source}/"):
        raise ConfigError("one of the two places is in the other", file=target)


@dataclass(frozen=True)
class _MovedChannel:
    """A channel of the source. ``control``: its control table; ``copy``: the path of the new one;
    ``folders``: paths, relative to the target, of folders with its files beside tables."""

    control: Control
    copy: str
    folders: Sequence[str]

    @classmethod
    def at(cls, source: str, target: str, home: str) -> _MovedChannel:
        old, new = Layout(source, home=home), Layout(target, home=home)
        folders = [os.path.relpath(path, source) for path in (old.xa, old.quarantine)]
        control = Control(old.control)
        control.moving_to = target
        return cls(control, new.control, folders)

    def claim(self, claims: ExitStack, *, take_over: bool) -> None:
        """Own the source's channel until ``claims`` end, or until it is given up."""
        if not take_over:
            wait_until_unclaimed(self.control)
        self.control.claim(take_over=take_over)
        claims.callback(self.control.release)

    def is_complete(self) -> bool:
        """Return whether an earlier mover has created the new control table, and no applier has
        claimed the source since. Raise TargetError if the table is of another origin."""
        copy = ControlRows(self.copy)
        if not copy.exists():
            return False
        claims = {json.loads(row["detail"]).get("claim") for row in copy.rows("owner")}
        if not claims & set(_mover_claims(self.control)):
            raise TargetError(
                "the place to move to has a target already", file=self.copy,
                hint="give another place; see in status --target whether an applier works there:"
                " then that one is the target now, and this one is its former place",
            )  # fmt: skip
        return True

    def create_copy(self) -> None:
        """Create the new control table, unless an earlier call has."""
        if not self.is_complete():
            self.control.copy_to(self.copy)

    def table_paths(self) -> set[str]:
        """Return the paths of all Delta tables that the channel's rows name."""
        named = used_paths(self.control) | paths_at_cuts(self.control)
        return set(map(whole_of, named.union(current_paths(self.control).values())))


def _channels(source: str, target: str) -> Iterator[_MovedChannel]:
    """Yield the source's channels, the first one first. List the others when the caller has claimed
    the first one: since then no channel begins beside it, and none notes a name."""
    yield _MovedChannel.at(source, target, "")
    for name in sorted(storage.names(os.path.join(source, "_repl", "channels"))):
        channel = _MovedChannel.at(source, target, f"channels/{name}")
        if channel.control.exists():
            yield channel


def _is_finished(control: Control, target: str) -> bool:
    """Return whether an earlier call has given the channel up."""
    owner = control.owner()
    return owner is not None and owner[1].moved_to == target


def _mover_claims(control: Control) -> Iterator[str]:
    """Yield the claims of movers to the same place since which no applier has claimed the source,
    the newest first."""
    epochs: dict[int, list[str]] = {}
    for row in control.rows("owner"):
        owner = json.loads(row["detail"])
        claims = epochs.setdefault(row["epoch"], [])
        if owner.get("moving_to") == control.moving_to:
            claims.append(owner["claim"])
    for epoch in sorted(epochs, reverse=True):
        if not epochs[epoch]:
            return
        yield from epochs[epoch]


def _files_of(source: str, channels: Sequence[_MovedChannel]) -> dict[str, int]:
    """Return the files to copy, relative to the target, and their sizes in bytes. Raise TargetError
    for a table that refers to files by absolute paths."""
    tables = sorted({path for channel in channels for path in channel.table_paths()})
    folders = [*tables, *(folder for channel in channels for folder in channel.folders)]
    sizes = dict[str, int]()
    for folder in folders:
        for name, stored in _walk_log_first(os.path.join(source, folder)):
            if not _is_leftover(name) and stored.size:
                sizes[f"{folder}/{name}"] = stored.size
    for path in tables:
        _check_relative(os.path.join(source, path))
    return sizes


def _walk_log_first(folder: str) -> Iterator[tuple[str, StoredFile]]:
    """Yield as ``storage.walk``, the files of a table's log first. Another engine may commit
    meanwhile. It writes its data files before their commit, so a listed commit has its files."""
    for name, stored in storage.walk(os.path.join(folder, "_delta_log")):
        yield f"_delta_log/{name}", stored
    for name, stored in storage.walk(folder):
        if not name.startswith("_delta_log/"):
            yield name, stored


def _is_leftover(name: str) -> bool:
    """Return whether only a killed writer leaves a file of this name."""
    folder, base = os.path.split(name)
    return bool(storage.UNFINISHED.fullmatch(base)) or base.endswith(".new") or ASIDE in folder


def _check_relative(folder: str) -> None:
    state = log_state.load(folder)
    if state is not None and is_managed(state):
        raise TargetError(
            "a catalog manages the table, at a place that the catalog has chosen", file=folder,
            hint="leave the target where it is, or begin again at the new place: spark-repl run"
            " --config F with another target.path",
        )  # fmt: skip
    for add in live_files(folder, state.version).values() if state is not None else ():
        vector = add.get("deletionVector") or {}
        if storage.is_absolute(add["path"]) or vector.get("storageType") == "p":
            raise TargetError(
                f"the table refers to a file by its absolute path: {add['path']}", file=folder,
                hint="rewrite the table's files in place, for example by OPTIMIZE, then try again",
            )  # fmt: skip


def _copy(
    source: str, target: str, channels: Sequence[_MovedChannel], sizes: dict[str, int]
) -> int:
    """Copy the files that the new place lacks, and remove those that the source has no more.
    Return how many were copied. Raise TargetError if the new place is not the mover's."""
    storage.check_bucket(target)
    _write_note(source, target)
    existing = {name: stored.size for name, stored in storage.walk(target)}
    controls = tuple(os.path.join(channel.copy, "") for channel in channels)
    needless = (os.path.join(target, name) for name in existing if name not in sizes)
    Remover(lambda: _check_unused(channels)).files(
        path
        for path in needless
        if not path.startswith(controls) and path != Layout(target).move_note
    )
    missing = [
        name
        for name, size in sizes.items()  # a hint keeps its name and its size when it changes
        if existing.get(name) != size or name.endswith("/_last_checkpoint")
    ]
    missing.sort(key=lambda name: ("/_delta_log/" in name, name))

    def copy_file(name: str) -> None:
        _copy_file(os.path.join(source, name), os.path.join(target, name), sizes[name])

    with Pool(_AT_ONCE) as pool:
        for number, _ in enumerate(pool.map(copy_file, missing), 1):
            if number % _LOG_EVERY == 0:
                logger.warning("%d of %d files are copied", number, len(missing))
    _check_copied(target, channels, sizes)
    return len(missing)


def _write_note(source: str, target: str) -> None:
    """Claim the new place for a move from ``source``. Raise TargetError if it is in use."""
    path = Layout(target).move_note
    noted = noted_source(path)
    if noted == source:
        return
    if noted:
        raise TargetError(
            f"a move from {noted} has begun there", file=target,
            hint="end that one first, or give another place",
        )  # fmt: skip
    if storage.exists(target):
        raise TargetError(
            "the place to move to is not empty", file=target, hint="give a new, empty prefix"
        )
    storage.check_conditions(target)
    note = formats.stamp(json.dumps({"source": source}), NOTE_FORMAT)
    storage.put_if_absent(path, note.encode())


def _check_unused(channels: Sequence[_MovedChannel]) -> None:
    """Raise TargetError if an applier has begun a target at the new place."""
    for channel in channels:
        channel.is_complete()


def _copy_file(source: str, target: str, size: int) -> None:
    reach("moving_file")
    if size <= _PART_BYTES:
        storage.put(target, storage.read(source))
        return
    with storage.open_input(source) as content, storage.open_output(target) as out:
        shutil.copyfileobj(content, out, _PART_BYTES)


def _check_copied(target: str, channels: Sequence[_MovedChannel], sizes: dict[str, int]) -> None:
    """Raise TargetError if a file is missing at the new place or has another size, or if a table of
    a newest cut can't be opened there. Raise FencedError if the source is not owned any more."""
    existing = {name: stored.size for name, stored in storage.walk(target)}
    for name, size in sizes.items():
        if existing.get(name) != size:
            raise TargetError(
                f"the copied file has {existing.get(name, 0)} bytes instead of {size}",
                file=os.path.join(target, name), hint="call the command again",
            )  # fmt: skip
    for channel in channels:
        cut = channel.control.last_cut()
        for name, table in reader_tables(cut).items() if cut else ():
            folder = os.path.join(target, table.path)
            if TableLog().snapshot(folder, table.version) is None:
                raise TargetError("the moved table has no log", table=name, file=folder)
        channel.control.check_owner()
