"""Which folder the table of each name is.

A cut records it for its place in the log. After the cut the statements do, in their order: RENAME
and DROP TABLE write nothing but the next cut, so a crash before that changes nothing. Before the
applier creates a table it writes a row with the table's path: after a crash it finds the unfinished
folder. No path is given twice (``given_paths``).
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
"""kinds of rows of the control table: a table to be created; paths of tables that were reset"""
MADE_BY_ROWS = ""


@dataclass(frozen=True)
class Announced:
    """A table that was created, or was going to be created. ``made_by``: the statement, by its GTID
    or else its position; MADE_BY_ROWS for a table that the log does not create."""

    name: str
    path: str
    position: int
    made_by: str
    at: datetime
    since: int = 0
    """for a shard in a table that other channels feed also: the version of that table before"""


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
    """Record that the table is going to be created; the caller owns the target. ``check``: as for
    ``Control.write``; ``since``: as in ``Announced``."""
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
    """Return the names of all tables whose announcement is kept, and of the Delta tables of
    shards."""
    rows = _announced(control)
    return {row.name for row in rows} | {whole_name(row.name, row.path) for row in rows}


def announced_paths(control: Control) -> list[tuple[str, str]]:
    """Return name and path of all tables whose announcement is kept."""
    return [(row.name, row.path) for row in _announced(control)]


def whole_name(name: str, path: str) -> str:
    """Return the name that readers use for the table ``name`` at the ``path``: for a shard, the
    name of its Delta table."""
    return whole_of(name) if SHARD in path else name


def announced_after(control: Control, cut: Cut | None) -> list[Announced]:
    """Return the tables that were announced after ``cut``, and after the beginning of a copy of all
    tables that no cut shows yet."""
    copy, position = standing(control).copy, cut.position if cut else -1
    rows = [row for row in _announced(control) if row.position >= position]
    if copy is not None and copy.behind is None:
        assert copy.at is not None
        rows = [row for row in rows if row.at > copy.at]
    return rows


def shown_paths(control: Control, cut: Cut | None) -> dict[str, str]:
    """Return table -> path at the cut, or in a finished copy that no cut shows yet."""
    copy = standing(control).copy
    paths = {name: version.path for name, version in cut.tables.items()} if cut else {}
    if copy is not None and copy.is_done:
        return {**(paths if copy.behind else {}), **copy.paths}
    return paths


def current_paths(control: Control) -> dict[str, str]:
    """Return table -> path at the newest cut, including tables that were created after it."""
    cut = standing(control).cut
    announced = {row.name: row.path for row in announced_after(control, cut)}
    return {**announced, **shown_paths(control, cut)}


def given_paths(control: Control, beside: Callable[[], GivenPaths] | None = None) -> GivenPaths:
    """Return every path that was ever used for a table of this channel. ``beside``: as in
    ``GivenPaths``."""
    return GivenPaths.of(control.snapshot(), used_paths(control), beside)


def used_paths(control: Control) -> set[str]:
    """Return every path that was used for a table of this channel and whose rows are kept."""
    reset = {path for row in control.rows(RESET) for path in json.loads(row["detail"])["paths"]}
    return copied_paths(control).union(reset, (row.path for row in _announced(control)))


def copied_paths(control: Control) -> set[str]:
    """Return every path that was used for a copy and whose rows are kept."""
    copies = [Copy.of(row) for row in control.rows(COPY)]
    return {path for copy in copies for path in copy.paths.values()}


def newest_copy(control: Control) -> datetime | None:
    """Return when the last row about a copy was written; None if there is none."""
    rows = control.rows(COPY)
    return rows[-1]["at"] if rows else None


def check_free(control: Control, paths: Iterable[str], given: Container[str] | None = None) -> None:
    """Raise ConcurrentChangeError if any of the paths is in use meanwhile: in ``given``, by default
    all paths that were ever used. The caller then has to choose again. As a ``check`` of
    ``Control.write`` it runs with the version that the row follows."""
    given = given_paths(control) if given is None else given
    if unavailable := sorted(path for path in paths if path in given):
        raise ConcurrentChangeError(
            f"the path {unavailable[0]} was given to another table meanwhile"
        )


def made_by_statements(control: Control) -> set[str]:
    """Return the paths of tables that the log creates."""
    return {row.path for row in _announced(control) if row.made_by != MADE_BY_ROWS}


def made_by_rows(control: Control) -> set[str]:
    """Return the paths of tables that were not created by a statement."""
    return {row.path for row in _announced(control) if row.made_by == MADE_BY_ROWS}
