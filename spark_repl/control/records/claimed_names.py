"""Claimed names: which channel each table belongs to, where several channels have one target.

Invariant: no two channels feed tables of one name, whatever happens in between and whichever
process is killed. A channel notes a name before it writes anything under it. All notes are rows of
one control table, which belongs to the channel that had the target first. A note commits on the
version in which the name was looked up, or the look-up is repeated. Rows of the first channel's
control table that name its tables count as notes. The other channels, and names that come by
RENAME, have rows of their own.

A channel gives up a name only at a start, if its own control table does not name it. Then no
process of the channel will create the table. A row that frees names applies to notes of its epoch
and of earlier ones. An owner that took over from one which may be alive notes its names again. If
the former owner sleeps and frees names later, it frees none of its successor's.

Names are compared without regard to case, as many sources and Spark do.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import BEGIN_AGAIN, OTHER_TARGET, OtherChannelError, SettingError, TargetError
from ...tables.case_folding import fold
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


class ClaimedNames:
    """The table names below ``target`` that the channel with the control table ``control`` has
    claimed. ``sharing``: tables that other channels may also feed. Thread-safe."""

    def __init__(self, control: Control, target: str, sharing: Iterable[SharedTable] = ()) -> None:
        self._control, self._target = control, target
        self._sharing = {fold(table.name): table for table in sharing}
        shared = Layout(target).control
        self._is_first = control.path == shared
        self._shared = control if self._is_first else Control(shared)
        self._noted: set[str] = set()
        self._freed = 0  # the epoch whose start has given up names
        self._lock = threading.Lock()

    def load(self) -> None:
        """Record the claims of the channel's names again, because a power failure may have lost a
        record. Give up names that the channel no longer has, once per epoch. Raise as ``claim``."""
        own = fed(self._control)
        own -= self._load_shared()
        with self._lock:  # an announcement may be pruned, a note stays
            self._noted = {key for key, note in noted(self._shared).items() if self._holds(note)}
        if self._is_first:
            self.check(own)
        else:
            self.claim(own)
        if self._freed != self._control.epoch:
            self._give_up(set(map(fold, own)))
            self._freed = self._control.epoch

    def _holds(self, note: NameNote | None) -> bool:
        """Return whether the channel has noted the name in an epoch that no sleeping owner can
        free."""
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
            self._noted.difference_update(unused)

    def _load_shared(self) -> set[str]:
        """Compare the record of tables that several channels feed with the configuration, and write
        it again if it was lost. Return their names. Raise SettingError."""
        for name in sorted(fed_shards(self._control, shared=False)):
            self._check_alone(name)
        shared, faults = fed_shards(self._control, shared=True), list[SettingError]()
        for name, path in sorted(shared.items()):
            try:
                # The channel has the table: an earlier start has accepted its filter.
                wanted = replace(self._wanted(name), disjoint=True)
                recorded = self.share(wanted, partial(str, path))
            except SettingError as error:
                faults.append(error)
                continue
            if recorded.path != path:
                raise TargetError(
                    f"the channels that feed the table have it at {recorded.path} on record",
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
        """Return what the configuration declares of a table that several channels feed."""
        if (wanted := self._sharing.get(fold(name))) is None:
            raise SettingError(
                "several channels feed the table, and the configuration does not say so",
                table=name,
                hint="give its rule ([[tables]]) the channels that it had, as the others' have it",
            )
        return wanted

    def share(self, wanted: SharedTable, new_path: Callable[[], str]) -> SharedTable:
        """Return the record of a table that several channels feed. The first channel records
        ``wanted``, with a ``new_path``; each channel adds the known properties of its rows. Raise
        OtherChannelError if the table belongs to a single other channel, SettingError if the record
        differs, or if a new channel does not declare that its rows are disjoint."""
        new = wanted
        while True:
            recorded = self._on_record(wanted)
            if recorded is not None:
                wanted.check(recorded)
                if (new := wanted.with_record(recorded)) == recorded:
                    return recorded
            elif not new.path:
                wanted.check_declared(None)
                self.check([wanted.name])
                try:
                    new = replace(wanted, path=new_path(), rows=wanted.known)
                except TargetError:  # another channel has just created the table
                    if self._on_record(wanted) is None:
                        raise
                    continue
            self._record(new, recorded)

    def _on_record(self, wanted: SharedTable) -> SharedTable | None:
        return shared_tables(self._shared).get(fold(wanted.name))

    def _record(self, new: SharedTable, recorded: SharedTable | None) -> None:
        """Write the ``new`` record if ``recorded`` is still the current one."""
        is_current = partial(self._is_current, new, recorded)
        self._write_beside(KIND_SHARED, is_current, detail=new.row, number=SHARED)

    def _write_beside(
        self, kind: str, check: Callable[[], bool], *, detail: str, number: int
    ) -> None:
        """Append a row to the first channel's control table, as ``Control.write_beside``. Raise
        also what ``first_is_gone`` returns."""
        try:
            self._shared.write_beside(kind, check, detail=detail, number=number)
        except TargetError:
            if self._shared.exists():
                raise
            raise first_is_gone(self._control.channel, self._shared.path) from None

    def _is_current(self, new: SharedTable, recorded: SharedTable | None) -> bool:
        if recorded is None:
            self.check([new.name])
        return self._on_record(new) == recorded

    def claim(self, names: Iterable[str], *, later: bool = False) -> None:
        """Record names as claimed by this channel: all of them or none. Raise OtherChannelError if
        a name belongs to another channel, and what ``Control.write`` raises.

        ``later``: nothing is written under the names before the next row of the control table. The
        first channel may then write its record together with that row; the writer of that row gets
        the error if a name belongs to another channel.
        """
        with self._lock:
            wanted = {fold(name): name for name in names}
            new = {key: wanted[key] for key in sorted(wanted.keys() - self._noted)}
            if not new:
                return
            self._note(list(new.values()), later=later)
            self._noted.update(new)

    def _note(self, names: list[str], freed: Sequence[str] = (), *, later: bool = False) -> None:
        """Write a row of names that are noted, or given up. The caller holds the lock."""
        own: dict[str, Any] = {"channel": self._control.channel, "names": names}
        own |= {"epoch": self._control.epoch, **({"freed": list(freed)} if freed else {})}
        detail = json.dumps(own)
        if self._is_first and later:
            self.check(names)
            self._control.add_pending(KIND, self.checking(names), detail=detail)
        elif self._is_first:
            self._control.write(KIND, detail=detail, check=self.checking(names))
        else:
            lacks = partial(self._is_owner if freed else self._lacks, names)
            self._write_beside(KIND, lacks, detail=detail, number=CHANNELS)

    def _is_owner(self, _: list[str]) -> bool:
        self._control.check_owner()
        return True

    def before_creating(self, names: Iterable[str]) -> Callable[[], None]:
        """Record the claims of names whose tables' own row is written next, with the check that
        this returns. Raise as ``claim``."""
        wanted = list(names)
        if self._is_first:
            self.check(wanted)
        else:
            self.claim(wanted)
        return self.checking(wanted)

    def checking(self, names: Iterable[str]) -> Callable[[], None]:
        """Return a function that makes the ``check`` of these names, for the version that is the
        newest when it is called."""
        return partial(self.check, list(names))

    def check(self, names: Iterable[str]) -> None:
        """Raise OtherChannelError for names that belong to another channel."""
        names, holders = list(names), noted_names(self._shared)
        shared = shared_tables(self._shared)
        for name in names:
            recorded = shared.get(fold(name))
            if recorded and fold(name) not in self._sharing:
                if self._control.channel in recorded.channels:
                    self._wanted(name)  # raises, as the configuration does not share the table
                raise self._refused({name: '", "'.join(recorded.channels)})
        names = [name for name in names if fold(name) not in shared]
        if not self._is_first:
            first = first_channel(self._shared)
            holders = {**dict.fromkeys(map(fold, fed(self._shared)), first), **holders}
        own = self._control.channel
        of_others = {name: holders.get(fold(name), own) for name in names}
        of_others = {name: holder for name, holder in of_others.items() if holder != own}
        if of_others:
            raise self._refused(of_others)

    def _lacks(self, names: list[str]) -> bool:
        """Return whether any name is not noted yet. Raise as ``check``."""
        self.check(names)
        notes = noted(self._shared)
        return not all(self._holds(notes.get(fold(name))) for name in names)

    def _refused(self, of_others: dict[str, str]) -> OtherChannelError:
        own, (table, holder) = self._control.channel, min(of_others.items())
        listed = ", ".join(sorted(of_others)[:_LISTED]) + (
            ", ..." if len(of_others) > _LISTED else ""
        )
        return OtherChannelError(
            f'the channel "{holder}" has {listed} of {self._target}: "{own}" can not feed it, too',
            table=table,
            hint="give it another name (to of [[tables]], or filters.rewrite_db), leave it out by"
            f' [filters], or take another target; channel = "{holder}" goes on with that channel',
        )


def raise_setting_errors(errors: Sequence[SettingError]) -> None:
    """Raise the errors of several tables as one SettingError. Do nothing if there are none."""
    errors = [*{error.table: error for error in errors}.values()]  # one error for each table
    if len(errors) < 2:
        for error in errors:
            raise error
        return
    listed = "".join(f"\n  - {error.table}: {error.message}" for error in errors)
    hints = dict.fromkeys(error.hint for error in errors if error.hint)
    raise SettingError(
        f"{len(errors)} tables are not as [[tables]] would have them now{listed}",
        table=", ".join(str(error.table) for error in errors),
        hint="; ".join(hints),
    )
