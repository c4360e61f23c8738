"""Name registry: which channel has which table names, as the control tables of a target record it.

``claimed_names`` writes the notes. ``OtherChannels`` has the paths of a target's other channels. A
name may move to another channel. A start gives up the names that a channel has no more, and upkeep
of the first channel gives up the names of tables that no longer exist. A path never moves with its
name, since a sleeping applier may have chosen the folder for removal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import formats
from ...config import Config
from ...config.renaming import SHARD, is_shared, shard_of, whole_of
from ...errors import TargetError
from ...tables.case_folding import fold
from ..table.control import Control
from ..table.cut import reader_tables
from ..table.given_paths import KIND as GIVEN
from ..table.given_paths import GivenPaths
from ..table.layout import Layout
from .copies import KIND as COPY
from .copies import Copy
from .table_paths import KIND as TABLE
from .table_paths import RESET, announced_names, announced_paths, given_paths, whole_name

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.control_snapshot import Row

KIND = "channel_names"


def channels_beside(first: Control) -> list[str]:
    """Return all channels except the first one that have or had tables, in the order in which they
    were added. ``first``: the first channel's control table."""
    names = dict.fromkeys(json.loads(row["detail"])["channel"] for row in first.rows(KIND))
    return [name for name in names if name != first_channel(first)]


def fed(control: Control) -> set[str]:
    """Return the tables that a channel's own control table names: the tables of the newest cut, and
    all created or planned tables whose folder exists."""
    cut = control.last_cut()
    names = {*cut.tables, *reader_tables(cut), *cut.waiting} if cut else set()
    copies = [Copy.of(row) for row in control.rows(COPY)]
    if copies and (start_cut := copies[-1].behind):  # a start may go back there
        names |= {*start_cut.tables, *start_cut.waiting}
    paths = [pair for copy in copies for pair in copy.paths.items()]
    copied = {name for name, _ in paths} | {whole_name(*pair) for pair in paths}
    return names | copied | announced_names(control)


def fed_shards(control: Control, *, shared: bool) -> dict[str, str]:
    """Return the paths of Delta tables in which the channel has or had shards, by name. ``shared``:
    those that other channels also feed; otherwise those that only this channel feeds."""
    return {
        whole_of(name): whole_of(path)
        for name, path in _fed_paths(control)
        if SHARD in path and is_shared(path) == shared
    }


def shards_had(control: Control, whole: str) -> set[str]:
    """Return the name parts of the shards that the channel has or had in the Delta table at
    ``whole``."""
    return {shard_of(name) for name, path in _fed_paths(control) if whole_of(path) == whole}


def _fed_paths(control: Control) -> list[tuple[str, str]]:
    """Return names and paths of the newest cut, and of all tables that were created or copied, or
    were to be."""
    cut = control.last_cut()
    pairs = [(name, at.path) for name, at in cut.tables.items()] if cut else []
    pairs += [pair for row in control.rows(COPY) for pair in Copy.of(row).paths.items()]
    return pairs + announced_paths(control)


@dataclass(frozen=True)
class NameNote:
    """A record that ``channel`` claimed ``name`` when its owner had the ``epoch``."""

    name: str
    channel: str
    epoch: int = 0

    @property
    def key(self) -> str:
        return fold(self.name)


def notes_of(rows: Iterable[Row]) -> dict[str, NameNote]:
    """Return the claims in the rows, by folded name. A row that frees names frees those that the
    channel claimed before, in its own epoch or an earlier one."""
    notes = dict[str, NameNote]()
    for row in rows:
        detail = json.loads(row["detail"])
        channel, epoch = detail["channel"], detail.get("epoch", 0)
        for note in (NameNote(name, channel, epoch) for name in detail["names"]):
            notes[note.key] = note
        for name in map(fold, detail.get("freed", ())):
            if (noted := notes.get(name)) and noted.channel == channel and noted.epoch <= epoch:
                del notes[name]
    return notes


def merged(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the same claims, and the same channels in their order: one row for each
    channel and epoch."""
    first = {json.loads(row["detail"])["channel"]: row for row in reversed(rows)}
    notes = {(channel, 0): list[str]() for channel in first}
    for note in notes_of(rows).values():
        notes.setdefault((note.channel, note.epoch), []).append(note.name)
    merged_rows: list[Row] = []
    for (channel, epoch), names in notes.items():
        detail = {"channel": channel, "names": names, "epoch": epoch}
        number = json.loads(first[channel]["detail"]).get("format", 1)
        merged_rows.append(first[channel] | {"detail": formats.stamp(json.dumps(detail), number)})
    return merged_rows


def noted(shared: Control) -> dict[str, NameNote]:
    """Return the claims by folded name. Raise as ``Control.rows``."""
    return notes_of(shared.rows(KIND))


def noted_names(shared: Control) -> dict[str, str]:
    """Return folded name -> the channel that has claimed it."""
    return {name: note.channel for name, note in noted(shared).items()}


def first_is_gone(channel: str, path: str) -> TargetError:
    """Return the error for a ``channel`` if the first channel's control table, at ``path``, no
    longer exists."""
    return TargetError(
        f'the channel "{channel}" came beside another one, which is gone', file=path,
        hint="put that control table back: it says which tables are whose",
    )  # fmt: skip


def first_channel(first: Control) -> str:
    """Return the name of the target's first channel."""
    owner = first.owner()
    return (owner and owner[1].channel) or Config.channel


_KINDS = (COPY, GIVEN, RESET, TABLE)
"""kinds of rows that record which paths were given"""


class OtherChannels:
    """The other channels of a target, for the channel whose control table is ``control``. Not
    thread-safe."""

    def __init__(self, control: Control, target: str) -> None:
        self._own, self._target = control, target
        first = Layout(target).control
        self._first = control if control.path == first else Control(first)
        self._read = {self._first.path: self._first}
        self._seen: dict[str, tuple[list[Row], GivenPaths]] = {}
        self._given = GivenPaths()

    def given(self) -> GivenPaths:
        """Return the paths that were given to tables of all other channels. Raise what reading
        their control tables raises."""
        changed = False
        for control in self._others():
            rows = [row for row in control.snapshot().other_rows if row["kind"] in _KINDS]
            before = self._seen.get(control.path)
            if before is None or before[0] != rows:
                self._seen[control.path], changed = (rows, given_paths(control)), True
        if changed:
            self._given = GivenPaths.union(given for _, given in self._seen.values())
        return self._given

    def _others(self) -> list[Control]:
        """Return their control tables, which are read incrementally."""
        for control in self.controls():
            self._read.setdefault(control.path, control)
        return [table for path, table in self._read.items() if path != self._own.path]

    def controls(self) -> list[Control]:
        """Return their control tables, each to be read from the beginning."""
        homes = map(Layout.home_of, channels_beside(self._first))
        beside = (Layout(self._target, home=home).control for home in homes)
        controls = [self._first, *(Control(path) for path in beside)]
        return [control for control in controls if control.path != self._own.path]
