"""Names: whose each table is, where several channels have one target.

Invariant: no two channels feed tables of one name, whatever comes between and whoever is killed.
A name is noted before the first thing is written under it, and all notes are rows of one control
table, that of the channel which had the target first: each lands on the version that was asked
whose the name is, or is asked again. What that channel's control table says of its tables is its
note already; of the others, and of names that come by RENAME, there is a row of their own.

A name is given up only at a start, if the channel's own control table does not name it: no process
of the channel is about to make it then. A row that frees names counts for notes of its epoch and of
earlier ones. An owner that took over from one which may be alive notes its names again: where that
one sleeps and frees names later, it frees none of its successor's.

Names are compared without regard to case: so do many sources, and Spark.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from deltalake.exceptions import TableNotFoundError

from ...errors import BEGIN_AGAIN, OTHER_TARGET, OtherChannelError, SettingError, TargetError
from ...sql.case_folding import fold
from ..table.control import Control
from ..table.layout import Layout
from ..table.row_formats import CHANNELS, SHARED
from .name_registry import (
    KIND,
    NameNote,
    fed,
    fed_shards,
    first_channel,
    first_is_gone,
    noted,
    noted_names,
)
from .shared_tables import KIND as KIND_SHARED
from .shared_tables import SharedTable, shared_tables

_LISTED = 5


class Names:
    """The names of the tables below ``target`` of the channel whose control table is ``control``.
    ``sharing``: those that other channels may feed, too. Safe from any thread."""

    def __init__(self, control: Control, target: str, sharing: Iterable[SharedTable] = ()) -> None:
        self._control, self._target = control, target
        self._sharing = {fold(one.name): one for one in sharing}
        shared = Layout(target).control
        self._is_first = control.path == shared
        self._shared = control if self._is_first else Control(shared)
        self._held: set[str] = set()
        self._freed = 0  # the epoch whose start has given names up
        self._lock = threading.Lock()

    def load(self) -> None:
        """Takes what the channel has once more: a note may have been lost with the power. Gives up
        names that it has no more, once an epoch. Raises as ``take``."""
        own = fed(self._control)
        own -= self._load_shared()
        with self._lock:  # an announcement may be forgotten, a note stays
            self._held = {key for key, note in noted(self._shared).items() if self._holds(note)}
        if self._is_first:
            self.check(own)
        else:
            self.take(own)
        if self._freed != self._control.epoch:
            self._give_up(set(map(fold, own)))
            self._freed = self._control.epoch

    def _holds(self, note: NameNote | None) -> bool:
        """Whether the channel has noted the name, in an epoch that no sleeper can free."""
        least = self._control.epoch if self._control.took_over else 0
        return note is not None and note.channel == self._control.channel and note.epoch >= least

    def _give_up(self, own: set[str]) -> None:
        with self._lock:
            notes = noted(self._shared)
            unused = [
                k for k, n in notes.items() if n.channel == self._control.channel and k not in own
            ]
            if not unused:
                return
            self._note([], freed=sorted(notes[key].name for key in unused))
            self._held.difference_update(unused)

    def _load_shared(self) -> set[str]:
        """Looks whether what is on record of tables that several channels feed is what the
        configuration says, and writes it once more if it was lost; returns their names. Raises
        SettingError."""
        for name in sorted(fed_shards(self._control, shared=False)):
            self._check_alone(name)
        shared, faults = fed_shards(self._control, shared=True), list[SettingError]()
        for name, path in sorted(shared.items()):
            try:
                # The channel has the table: an earlier start has accepted its filter.
                wanted = replace(self._wanted(name), disjoint=True)
                stands = self.share(wanted, partial(str, path))
            except SettingError as error:
                faults.append(error)
                continue
            if stands.path != path:
                raise TargetError(
                    f"the channels that feed the table have it at {stands.path} on record",
                    table=name,
                    file=path,
                    hint=f"put the control tables (_repl) back as they were, or {OTHER_TARGET}",
                )
        raise_setting_errors(faults)
        return {*shared}

    def _check_alone(self, name: str) -> None:
        if fold(name) in self._sharing:
            raise SettingError(
                "the table was made for one channel: it is not fed by several",
                table=name,
                hint=f"take channels out of its rule ([[tables]]), or {BEGIN_AGAIN}",
            )

    def _wanted(self, name: str) -> SharedTable:
        """What the configuration says of a table that several channels feed."""
        if (wanted := self._sharing.get(fold(name))) is None:
            raise SettingError(
                "several channels feed the table, and the configuration does not say so",
                table=name,
                hint="give its rule ([[tables]]) the channels that it had, as the others' have it",
            )
        return wanted

    def share(self, wanted: SharedTable, new_path: Callable[[], str]) -> SharedTable:
        """What is on record of a table that several channels feed; the first to come records what
        is ``wanted`` of it, with a ``new_path``, and each one what is known of its rows. Raises
        OtherChannelError where the table is another channel's alone, SettingError where the record
        says something else, or where a new channel does not declare that its rows are disjoint."""
        made = wanted
        while True:
            stands = self._on_record(wanted)
            if stands is not None:
                wanted.check(stands)
                if (made := wanted.behind(stands)) == stands:
                    return stands
            elif not made.path:
                wanted.check_declared(None)
                self.check([wanted.name])
                try:
                    made = replace(wanted, path=new_path(), rows=wanted.known)
                except TargetError:  # another channel has just made the table
                    if self._on_record(wanted) is None:
                        raise
                    continue
            self._record(made, stands)

    def _on_record(self, wanted: SharedTable) -> SharedTable | None:
        return shared_tables(self._shared).get(fold(wanted.name))

    def _record(self, made: SharedTable, stands: SharedTable | None) -> None:
        """Writes what is ``made`` of what ``stands`` on record, if that does still."""
        same = partial(self._stands_still, made, stands)
        try:
            self._shared.write_beside(KIND_SHARED, same, detail=made.row, number=SHARED)
        except TableNotFoundError:
            raise first_is_gone(self._control.channel, self._shared.path) from None

    def _stands_still(self, made: SharedTable, stands: SharedTable | None) -> bool:
        if stands is None:
            self.check([made.name])
        return self._on_record(made) == stands

    def take(self, names: Iterable[str], *, later: bool = False) -> None:
        """Notes names as this channel's, all or none. ``later``: nothing is written under them
        before the next row of the control table, so that the first channel's note may come with
        that; the row's writer is told then if they are another's. Raises OtherChannelError for
        another's, and what ``Control.write`` raises."""
        with self._lock:
            wanted = {fold(name): name for name in names}
            new = {key: wanted[key] for key in sorted(wanted.keys() - self._held)}
            if not new:
                return
            self._note(list(new.values()), later=later)
            self._held.update(new)

    def _note(self, names: list[str], freed: Sequence[str] = (), *, later: bool = False) -> None:
        """Writes a row: names that are noted, or those that are given up. The lock is held."""
        own: dict[str, Any] = {"channel": self._control.channel, "names": names}
        own |= {"epoch": self._control.epoch, **({"freed": list(freed)} if freed else {})}
        said = json.dumps(own)
        if self._is_first and later:
            self.check(names)
            row = {"position": 0, "gtid_executed": "", "detail": said}
            self._control.hold_back(KIND, self.checking(names), **row)
        elif self._is_first:
            self._control.write(KIND, detail=said, check=self.checking(names))
        else:
            lacks = partial(self._is_owner if freed else self._lacks, names)
            try:
                self._shared.write_beside(KIND, lacks, detail=said, number=CHANNELS)
            except TableNotFoundError:
                raise first_is_gone(self._control.channel, self._shared.path) from None

    def _is_owner(self, _: list[str]) -> bool:
        self._control.check_owner()
        return True

    def before_making(self, names: Iterable[str]) -> Callable[[], None]:
        """Notes names whose tables' own row is going to be written next: with the check that this
        returns. Raises as ``take``."""
        wanted = list(names)
        if self._is_first:
            self.check(wanted)
        else:
            self.take(wanted)
        return self.checking(wanted)

    def checking(self, names: Iterable[str]) -> Callable[[], None]:
        """``check`` of these names, of the version that is the newest when it is called."""
        return partial(self.check, list(names))

    def check(self, names: Iterable[str]) -> None:
        """Raises OtherChannelError for names that are another channel's."""
        names, holders = list(names), noted_names(self._shared)
        shared = shared_tables(self._shared)
        for name in names:
            stands = shared.get(fold(name))
            if stands and fold(name) not in self._sharing:
                if self._control.channel in stands.channels:
                    self._wanted(name)  # which raises
                raise self._refused({name: '", "'.join(stands.channels)})
        names = [name for name in names if fold(name) not in shared]
        if not self._is_first:
            first = first_channel(self._shared)
            holders = {**dict.fromkeys(map(fold, fed(self._shared)), first), **holders}
        own = self._control.channel
        taken = {name: holders.get(fold(name), own) for name in names}
        taken = {name: holder for name, holder in taken.items() if holder != own}
        if taken:
            raise self._refused(taken)

    def _lacks(self, names: list[str]) -> bool:
        """Whether any name is not noted yet. Raises as ``check``."""
        self.check(names)
        notes = noted(self._shared)
        return not all(self._holds(notes.get(fold(name))) for name in names)

    def _refused(self, taken: dict[str, str]) -> OtherChannelError:
        own, (table, holder) = self._control.channel, min(taken.items())
        listed = ", ".join(sorted(taken)[:_LISTED]) + (", ..." if len(taken) > _LISTED else "")
        return OtherChannelError(
            f'the channel "{holder}" has {listed} of {self._target}: "{own}" can not feed it, too',
            table=table,
            hint="give it another name (to of [[tables]], or filters.rewrite_db), leave it out by"
            f' [filters], or take another target; channel = "{holder}" goes on with that channel',
        )


def raise_setting_errors(errors: Sequence[SettingError]) -> None:
    """Raises those of several tables as one SettingError; nothing where there are none."""
    errors = [*{one.table: one for one in errors}.values()]  # of one that is made anew once
    if len(errors) < 2:
        for error in errors:
            raise error
        return
    listed = "".join(f"\n  - {one.table}: {one.message}" for one in errors)
    hints = dict.fromkeys(one.hint for one in errors if one.hint)
    raise SettingError(
        f"{len(errors)} tables are not as [[tables]] would have them now{listed}",
        table=", ".join(str(one.table) for one in errors),
        hint="; ".join(hints),
    )
