"""Requests for copies: what a running applier copies next.

An applier copies a table because a user requests it, because a copy has to begin again, or because
the log does not contain what the table's rows became. ``check_answers`` raises an error for a
waiting user if the applier carries out no requests.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..control.records.channels import layout_of
from ..control.records.copies import Copy, last_copy
from ..errors import TargetError
from ..gtid import GtidSet
from ..observe.reports.applier_status import read_applier_status
from .repair_request import READ

if TYPE_CHECKING:
    from ..config import Config
    from ..control.records.copies import Standing
    from ..control.table.control import Control
    from ..errors import NoTableError

logger = logging.getLogger(__name__)


def check_answers(config: Config, epoch: int, request_name: str) -> None:
    """Raise TargetError, and remove the request, if the owner of the target carries out none.

    The status that the owner of that ``epoch`` reports decides. An applier of an earlier version
    reports nothing, and no error is raised.
    """
    layout = layout_of(config)
    status = read_applier_status(layout.status) or {}
    if status.get("epoch") != epoch or status.get("answers", True):
        return
    request = Path(layout.requests, request_name)
    request.unlink(missing_ok=True)
    shutil.rmtree(request.with_suffix(READ), ignore_errors=True)  # of a run that was killed
    raise TargetError(
        "the applier that owns the target copies and repairs nothing beside its work",
        file=config.target.path,
        hint="stop it (apply, or a job of yours) and ask again: it is done here then; or let"
        " spark-repl run follow the source, which does so beside its work",
    )


_FIRST_WAIT_S, _WAIT_MAX_S = 2.0, 600.0


@dataclass(frozen=True)
class Wanted:
    """Tables to copy next. ``request_name``: the request that the copy answers; ``waits``: no cut
    shows the tables until they are copied."""

    tables: tuple[str, ...]
    request_name: str = ""
    request: Path | None = None
    waits: bool = False


class Queue:
    """Queue of the copies to make. Requests come first, in their order; then the tables that wait,
    one after the other. A table that can't be copied delays no other: it is retried after 2 s,
    later after up to 10 minutes."""

    def __init__(self, requests: Path) -> None:
        self.folder = requests
        self._pause: dict[str, tuple[float, float]] = {}
        """table -> (time of its next attempt, wait in seconds before the one after)"""
        self._missed: GtidSet | None = None
        """GTID set that the source had executed when it lacked a table"""

    def requests(self) -> list[Path]:
        return sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []

    def next(self, control: Control, standing: Standing) -> Wanted | None:
        """Return what to copy from the newest cut on; None if there is nothing now."""
        last, copy = last_copy(control), standing.copy
        if copy is not None:
            return Wanted(tuple(copy.bounds), copy.asked) if _is_behind(standing, copy) else None
        for request in self.requests():
            tables = _tables(request)
            if tables and not (last and last.asked == request.name):
                return Wanted(tables, request.name, request)
            # It was answered before a kill, or the file asks for nothing.
            request.unlink(missing_ok=True)
        if standing.cut is None or not _is_behind(standing, last):
            return None
        now, waiting = time.monotonic(), standing.cut.waiting
        self._pause = {name: pause for name, pause in self._pause.items() if name in waiting}
        due = {name: self._pause.get(name, (0.0, 0.0))[0] for name in waiting}
        ready = [name for name, at in due.items() if at <= now]
        return Wanted((min(ready, key=due.__getitem__),), waits=True) if ready else None

    def ask_again(self, error: NoTableError, standing: Standing) -> bool:
        """Return whether to query the source once more for a table that it lacks. A statement after
        the newest cut may have renamed or dropped the table: one more query follows when the cut
        has passed it."""
        cut, missed = standing.cut, self._missed or GtidSet.parse(error.executed)
        self._missed = None
        if cut is None or error.table not in cut.tables:
            return False
        if missed.issubset(GtidSet.parse(cut.gtid_executed)):
            return False
        self._missed = missed
        return True

    def planned(self) -> None:
        """Forget the missing table: the source has all tables of the plan."""
        self._missed = None

    def tried(self, tables: tuple[str, ...]) -> None:
        """Set the next attempt of waiting tables whose copy begins: it may turn out to be
        useless."""
        for name in tables:
            wait = min(2 * self._pause.get(name, (0.0, 0.0))[1], _WAIT_MAX_S) or _FIRST_WAIT_S
            self._pause[name] = time.monotonic() + wait, wait


def _is_behind(standing: Standing, copy: Copy | None) -> bool:
    """Return whether the newest cut contains what made the copy useless, or nothing did. A new copy
    that starts at an earlier cut would be useless again."""
    if copy is None or copy.until is None or standing.cut is None or not (copy.error or copy.again):
        return True
    return copy.until.issubset(GtidSet.parse(standing.cut.gtid_executed))


def _tables(request: Path) -> tuple[str, ...]:
    """Return the tables that a request names; () for a file that ``ask`` did not write."""
    try:
        tables = json.loads(request.read_text("utf-8"))["tables"]
        return tuple(str(name) for name in tables)
    except (ValueError, KeyError, TypeError):
        logger.error("%s asks for no tables: it is removed", request)
        return ()
