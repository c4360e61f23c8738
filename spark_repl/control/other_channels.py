"""OtherChannels: the paths of a target's other channels, whose tables lie beside those of this one.

A name may go from the first channel to another: its reset frees all its names, and its upkeep those
of tables that are no more. A path doesn't go with it, since an applier of the first channel may
have chosen the folder for removal, and sleep. What a channel beside it has noted stays its own.
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
        self._rows: list[Row] = []
        self._given = GivenPaths()

    def given(self) -> GivenPaths:
        """Return what was given to the tables of the first channel; nothing where this is that one.
        Raise what reading its control table raises."""
        if self._first is not self._own:
            rows = [row for row in self._first.held().others if row["kind"] in _KINDS]
            if rows != self._rows:
                self._rows, self._given = rows, given_paths(self._first)
        return self._given

    def controls(self) -> list[Control]:
        """Return their control tables, each to be read anew."""
        homes = map(Layout.home_of, channels_beside(self._first))
        beside = (Layout(self._target, home=home).control for home in homes)
        others = [self._first, *(Control(path) for path in beside)]
        return [one for one in others if one.path != self._own.path]
