"""CopyRequests: what a running applier copies next.

A user asks for a copy, a copy has to begin again, or a table waits for a copy because the log does
not say what its rows became. ``check_answers`` tells a waiting user whether an applier carries out
requests at all.
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


def check_answers(config: Config, epoch: int, asked: str) -> None:
    """Takes the request of that name back, and raises TargetError, where the applier that owns the
    target in that ``epoch`` says that it carries out none. One of a version before says nothing."""
    layout = layout_of(config)
    status = read_applier_status(layout.status) or {}
    if status.get("epoch") != epoch or status.get("answers", True):
        return
    request = Path(layout.requests, asked)
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
    """``asked``: the request that it answers; ``waits``: no cut shows the tables before."""

    tables: tuple[str, ...]
    asked: str = ""
    request: Path | None = None
    waits: bool = False


class Queue:
    """Requests first, in their order; then the tables that wait, one after the other, so that one
    which can't be copied holds no other back: it is tried again after 2 s, later 10 minutes."""

    def __init__(self, requests: Path) -> None:
        self.folder = requests
        self._pause: dict[str, tuple[float, float]] = {}
        """table -> when it may be tried again, and how long it waits then"""
        self._missed: GtidSet | None = None
        """what the source had executed when a table was missing there"""

    def requests(self) -> list[Path]:
        return sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []

    def next(self, control: Control, stands: Standing) -> Wanted | None:
        """What to copy behind the newest cut; None: nothing now."""
        last, copy = last_copy(control), stands.copy
        if copy is not None:
            return Wanted(tuple(copy.bounds), copy.asked) if _is_behind(stands, copy) else None
        for request in self.requests():
            tables = _tables(request)
            if tables and not (last and last.asked == request.name):
                return Wanted(tables, request.name, request)
            # It was answered before a kill, or the file asks for nothing.
            request.unlink(missing_ok=True)
        if stands.cut is None or not _is_behind(stands, last):
            return None
        now, waiting = time.monotonic(), stands.cut.waiting
        self._pause = {name: pause for name, pause in self._pause.items() if name in waiting}
        due = {name: self._pause.get(name, (0.0, 0.0))[0] for name in waiting}
        ready = [name for name, at in due.items() if at <= now]
        return Wanted((min(ready, key=due.__getitem__),), waits=True) if ready else None

    def ask_again(self, error: NoTableError, stands: Standing) -> bool:
        """Whether a statement that the newest cut doesn't hold yet may have renamed or dropped the
        table that is missing: once the cut has passed it, the source is asked again, once."""
        cut, missed = stands.cut, self._missed or GtidSet.parse(error.executed)
        self._missed = None
        if cut is None or error.table not in cut.tables:
            return False
        if missed.issubset(GtidSet.parse(cut.gtid_executed)):
            return False
        self._missed = missed
        return True

    def planned(self) -> None:
        """The tables are there: what was missing before is not looked at any more."""
        self._missed = None

    def tried(self, tables: tuple[str, ...]) -> None:
        """A copy of tables that wait is begun, of which nobody knows yet whether it can be used."""
        for name in tables:
            wait = min(2 * self._pause.get(name, (0.0, 0.0))[1], _WAIT_MAX_S) or _FIRST_WAIT_S
            self._pause[name] = time.monotonic() + wait, wait


def _is_behind(stands: Standing, copy: Copy | None) -> bool:
    """Whether the newest cut holds what made the copy useless, if something did: another one from
    before that would be as useless."""
    if copy is None or copy.until is None or stands.cut is None or not (copy.error or copy.again):
        return True
    return copy.until.issubset(GtidSet.parse(stands.cut.gtid_executed))


def _tables(request: Path) -> tuple[str, ...]:
    """The tables that a request names; () for a file that ``ask`` did not write."""
    try:
        tables = json.loads(request.read_text("utf-8"))["tables"]
        return tuple(str(name) for name in tables)
    except (ValueError, KeyError, TypeError):
        logger.error("%s asks for no tables: it is removed", request)
        return ()
