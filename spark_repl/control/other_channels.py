"""OtherChannels: the paths of a target's other channels, whose tables lie beside those of this one.

A name may go from one channel to another: a start gives up the names that a channel has no more,
and upkeep of the first one those of tables that are gone. A path doesn't go with it, since an
applier may have chosen the folder for removal, and sleep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .control import Control
from .copies import KIND as COPY
from .given_paths import KIND as GIVEN
from .given_paths import GivenPaths
from .layout import Layout
from .noted_names import channels_beside
from .table_paths import KIND as TABLE
from .table_paths import RESET, given_paths

if TYPE_CHECKING:
    from .held_rows import Row

_KINDS = (COPY, GIVEN, RESET, TABLE)
"""kinds of rows that say which paths were given"""


class OtherChannels:
    """Those beside the channel whose control table is ``control``. Not safe from several
    threads."""

    def __init__(self, control: Control, target: str) -> None:
        self._own, self._target = control, target
        first = Layout(target).control
        self._first = control if control.path == first else Control(first)
        self._read = {self._first.path: self._first}
        self._seen: dict[str, tuple[list[Row], GivenPaths]] = {}
        self._given = GivenPaths()

    def given(self) -> GivenPaths:
        """Return what was given to the tables of all of them. Raise what reading their control
        tables raises."""
        changed = False
        for control in self._others():
            rows = [row for row in control.held().others if row["kind"] in _KINDS]
            before = self._seen.get(control.path)
            if before is None or before[0] != rows:
                self._seen[control.path], changed = (rows, given_paths(control)), True
        if changed:
            self._given = GivenPaths.union(given for _, given in self._seen.values())
        return self._given

    def _others(self) -> list[Control]:
        """Return their control tables, of which each is read further."""
        for control in self.controls():
            self._read.setdefault(control.path, control)
        return [one for path, one in self._read.items() if path != self._own.path]

    def controls(self) -> list[Control]:
        """Return their control tables, each to be read anew."""
        homes = map(Layout.home_of, channels_beside(self._first))
        beside = (Layout(self._target, home=home).control for home in homes)
        others = [self._first, *(Control(path) for path in beside)]
        return [one for one in others if one.path != self._own.path]
