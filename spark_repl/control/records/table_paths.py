"""Which folder the table of each name is.

A cut says it for its place in the log; behind the cut the statements do, in their order: RENAME and
DROP TABLE write nothing but the next cut, so that a crash before it changes nothing. A table that
is made leaves a row with its path, before it is made: whoever makes it again, behind a crash, finds
what was begun. No path is given twice (``given_paths``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...config.renaming import SHARD, whole_of
from ...errors import ConcurrentChangeError
from ..table.given_paths import GivenPaths
from .copies import KIND as COPY
from .copies import Copy, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from datetime import datetime

    from ..table.control import Control
    from ..table.cut import Cut

KIND, RESET = "table", "reset"
"""kinds of rows of the control table: a table that is made; paths of tables that were reset"""
MADE_BY_ROWS = ""


@dataclass(frozen=True)
class Announced:
    """A table that was made, or was to be. ``made_by``: the statement, by its GTID or else its
    position; MADE_BY_ROWS of a table that the log does not create."""

    name: str
    path: str
    position: int
    made_by: str
    at: datetime
    since: int = 0
    """of a shard in a table that other channels feed, too: the version of it that was there"""


def announce(
    control: Control,
    name: str,
    path: str,
    position: int,
    made_by: str,
    check: Callable[[], object] = bool,
    *,
    since: int = 0,
) -> None:
    """Records that the table is going to be made; the caller owns the target. ``check``: as
    ``Control.write`` has it; ``since``: as ``Announced`` has it."""
    detail = {"name": name, "path": path, "made_by": made_by, **({"since": since} if since else {})}
    control.write(KIND, position=position, detail=json.dumps(detail), check=check)


def _announced(control: Control) -> list[Announced]:
    rows = [(row, json.loads(row["detail"])) for row in control.rows(KIND)]
    return [
        Announced(
            d["name"],
            d["path"],
            row["position"],
            d.get("made_by", MADE_BY_ROWS),
            row["at"],
            d.get("since", 0),
        )
        for row, d in rows
    ]


def announced_names(control: Control) -> set[str]:
    """The names of all tables that were announced, as far as their rows are kept, and of the tables
    that shards are in."""
    rows = _announced(control)
    return {row.name for row in rows} | {whole_name(row.name, row.path) for row in rows}


def announced_paths(control: Control) -> list[tuple[str, str]]:
    """Name and path of all tables that were announced, as far as their rows are kept."""
    return [(row.name, row.path) for row in _announced(control)]


def whole_name(name: str, path: str) -> str:
    """What readers call the table ``name`` at the ``path``: a shard as that which it is in."""
    return whole_of(name) if SHARD in path else name


def made_behind(control: Control, cut: Cut | None) -> list[Announced]:
    """The tables that were announced behind ``cut``, and behind the beginning of a copy of all
    tables that no cut shows yet."""
    copy, behind = standing(control).copy, cut.position if cut else -1
    rows = [row for row in _announced(control) if row.position >= behind]
    if copy is not None and copy.behind is None:
        assert copy.at is not None
        rows = [row for row in rows if row.at > copy.at]
    return rows


def shown_paths(control: Control, cut: Cut | None) -> dict[str, str]:
    """Table -> path, at the cut, or as a copy that is done, and that no cut shows yet, has it."""
    copy = standing(control).copy
    paths = {name: version.path for name, version in cut.tables.items()} if cut else {}
    if copy is not None and copy.is_done:
        return {**(paths if copy.behind else {}), **copy.paths}
    return paths


def current_paths(control: Control) -> dict[str, str]:
    """Table -> path, at the newest cut and behind it, as far as tables have been made there."""
    cut = standing(control).cut
    behind = {row.name: row.path for row in made_behind(control, cut)}
    return {**behind, **shown_paths(control, cut)}


def given_paths(control: Control, beside: Callable[[], GivenPaths] | None = None) -> GivenPaths:
    """Every path that was ever given to a table of this channel; ``beside``: as ``GivenPaths`` has
    it."""
    return GivenPaths.of(control.held(), used_paths(control), beside)


def used_paths(control: Control) -> set[str]:
    """Every path that was given to a table of this channel, as far as its rows are kept."""
    reset = {path for row in control.rows(RESET) for path in json.loads(row["detail"])["paths"]}
    return copied_paths(control).union(reset, (row.path for row in _announced(control)))


def copied_paths(control: Control) -> set[str]:
    """Every path that was given to a copy, as far as its rows are kept."""
    copies = [Copy.of(row) for row in control.rows(COPY)]
    return {path for copy in copies for path in copy.paths.values()}


def newest_copy(control: Control) -> datetime | None:
    """Return when the last row about a copy was written; None: there is none."""
    rows = control.rows(COPY)
    return rows[-1]["at"] if rows else None


def check_free(control: Control, paths: Iterable[str], given: Container[str] | None = None) -> None:
    """Raise ConcurrentChangeError if any of the paths is given by now, of ``given`` or by default
    of all that ever were: choose again. As a ``check`` of ``Control.write`` it is asked of the
    version behind which the row lands that gives them."""
    given = given_paths(control) if given is None else given
    if taken := sorted(path for path in paths if path in given):
        raise ConcurrentChangeError(f"the path {taken[0]} was given to another table meanwhile")


def made_by_statements(control: Control) -> set[str]:
    """The paths of tables that the log creates."""
    return {row.path for row in _announced(control) if row.made_by != MADE_BY_ROWS}


def made_by_rows(control: Control) -> set[str]:
    """The paths of tables that no statement has made."""
    return {row.path for row in _announced(control) if row.made_by == MADE_BY_ROWS}
