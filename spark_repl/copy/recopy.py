"""Recopy: a new copy of some tables, requested by one process and made by the target's owner.

The applier continues meanwhile. When all rows are copied, it returns to the cut at which the copy
began. It applies the log from that cut on only to the copied tables; then a cut shows them.

``Queue`` determines what a running applier copies next. It copies a table because a user
requests it, because a copy has to begin again, or because the log does not contain what the table's
rows became. ``check_answers`` raises an error for a waiting user if the applier carries out no
requests.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JNetworkError

from .. import formats
from ..control.records.channels import control_of, layout_of
from ..control.records.copies import Copy, last_copy, record_copy, standing
from ..control.table.owner_lease import has_ended, wait_until_unclaimed
from ..errors import (
    ConcurrentChangeError,
    FencedError,
    JvmEndedError,
    NoTableError,
    SecretError,
    SourceError,
    SparkReplError,
    Stopped,
    TargetError,
)
from ..gtid import GtidSet
from ..observe.reports.applier_status import read_applier_status
from ..receiver.report import has_received
from ..relay.file_list import replace_file
from ..runtime.companion import Companion
from ..runtime.private_files import make_private_folder
from ..runtime.retry import disk_full, first_line, temporary
from ..runtime.starting_session import in_use
from ..runtime.workers import Workers
from ..source.dump import is_temporary
from .copy_plan import plan_again
from .first_copy import CopyResult, FirstCopy
from .repair_request import READ
from .repairer import Repairer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from typing import Self

    from pyspark.sql import SparkSession

    from ..apply.start.replica import Replica
    from ..config import Config
    from ..control.records.copies import Standing
    from ..control.table.control import Control
    from ..control.table.owner import Owner
    from ..errors import NoTableError
    from ..runtime.starting_session import Session

logger = logging.getLogger(__name__)

_NAME = "thread of new copies"
_FORMAT = 1
"""the number of a request's format"""
_POLL_S = 0.5
_LOG_S = 10.0


def running_owner(config: Config, control: Control) -> tuple[int, Owner] | None:
    """Return the epoch of the owner and the owner itself, if it can see requests of this process;
    None if no owner runs. Wait for the lease of an owner on another host.

    Raise FencedError, with the owner's name, if it runs on another host and does not share this
    process's working state, because it would not find the request. Otherwise raise as
    ``wait_until_unclaimed``.
    """
    row = control.owner()
    if row is None or row[1].is_dead:
        return None
    if row[1].is_here:
        return row
    try:
        wait_until_unclaimed(control)
    except FencedError:
        row = control.owner()
        status = read_applier_status(layout_of(config).status) or {}
        if row is None or status.get("epoch") != row[0]:
            raise
        return row
    return None


def ask(config: Config, tables: tuple[str, ...]) -> str:
    """Write a copy request for the applier that owns the target; return the request's name."""
    folder = Path(layout_of(config).requests)
    make_private_folder(folder)
    name = f"{time.time_ns()}-{os.getpid()}.json"
    request = formats.stamp(json.dumps({"tables": list(tables)}), _FORMAT)
    replace_file(folder / name, request.encode())
    return name


def ask_and_wait(config: Config, tables: tuple[str, ...]) -> CopyResult:
    """Request a copy from the applier, and wait until a cut shows it. Raise TargetError if the
    applier gave up the copy, or has ended."""
    began = time.perf_counter()
    control = control_of(config)
    request = ask(config, tables)
    while True:
        time.sleep(_POLL_S)
        copy = last_copy(control)
        if copy and copy.asked == request:
            if copy.error:
                raise TargetError(f"the copy was given up: {copy.error}", file=config.target.path)
            if copy.until is not None and standing(control).copy is None:
                seconds = time.perf_counter() - began
                return CopyResult(len(copy.bounds), copy.rows, seconds, copy.start, copy.until)
        owner = control.owner()
        if owner is None or has_ended(control.path, owner[1]):
            raise TargetError(
                "the applier has ended before a cut shows the copy", file=config.target.path,
                hint="start it again: it goes on with the copy",
            )  # fmt: skip
        check_answers(config, owner[0], request)


def copy_stopped(
    config: Config, tables: tuple[str, ...], session: Callable[[], SparkSession], *, take_over: bool
) -> CopyResult:
    """Copy in this process while no applier runs; the next applier then applies the log from there.
    Continue a copy of these tables that was begun before."""
    control = control_of(config)
    control.claim(take_over=take_over)
    try:
        before = standing(control).copy
        if (
            before is None or before.is_done or before.again or before.behind is None
            or not set(tables) <= before.bounds.keys()
        ):  # fmt: skip
            plan_again(config, control, tables)
        return _copy(session(), config, control)
    finally:
        control.release()


def _copy(
    spark: SparkSession,
    config: Config,
    control: Control,
    stop: threading.Event | None = None,
    *,
    lenient: bool = False,
    report: Callable[[int, int], None] = lambda rows, expected: None,
) -> CopyResult:
    last_logged = [time.monotonic()]

    def log_and_report(rows: int, expected: int) -> None:
        report(rows, expected)
        if time.monotonic() - last_logged[0] > _LOG_S:
            last_logged[0] = time.monotonic()
            logger.warning("copying again: %s of about %s rows", f"{rows:,}", f"{expected:,}")

    run = Workers(spark, config.apply.workers).run
    return FirstCopy(spark, config, run, log_and_report, control, stop, lenient=lenient).copy()


class Recopier(Companion):
    """A background task of a running applier that carries out copy and repair requests, one after
    the other, and copies the tables that wait for a copy.

    An interrupted copy continues after its last chunk at the next start. ``plan`` and ``copy`` are
    the functions that plan and make a copy.
    """

    def __init__(
        self,
        spark: Session,
        config: Config,
        applier: Replica,
        *,
        plan: Callable[..., Copy] = plan_again,
        copy: Callable[..., CopyResult] = _copy,
    ) -> None:
        attempts = config.apply.transaction_retries
        super().__init__(_NAME, self._next, applier.fail, pause_s=_POLL_S, attempts=attempts)
        self._plan, self._copy = plan, copy
        self.spark, self.config, self.applier = spark, config, applier
        self._queue = Queue(applier.requests)
        self._repairer = Repairer(spark, config, applier, self.stop)
        self._more = True  # a run before this one may have left something to do
        applier.answer()

    def __enter__(self) -> Self:
        self.applier.copying((), 0, 0)  # its status now shows that it carries out requests
        super().__enter__()
        return self

    def reload(self, config: Config) -> None:
        """Use new settings of the source and of the relay log."""
        self.config = replace(self.config, source=config.source, relay=config.relay)

    def _next(self) -> bool:
        try:
            if self._repairer.waits() and standing(self.applier.control).copy is None:
                self._repair()
            if self._more or self._queue.requests() or self.applier.opened.waiting:
                self._more = self._next_copy()
        except FencedError:  # the applier has ended, and gave the target back
            return False
        except (SourceError, SecretError) as error:
            if not is_temporary(error, reconnect=True):
                raise
            logger.warning("copying again: %s", error)
            self._more = True
        return True

    def _repair(self) -> None:
        """Repair rows of a table; record an error that is not temporary and continue without the
        repair."""
        try:
            self._repairer.carry_out()
        except Exception as error:
            if _not_the_copys(error):
                raise
            logger.error("rows are not repaired: %s", error, exc_info=error)
            self._repairer.fail(str(error))

    def _next_copy(self) -> bool:
        """Make one copy if one is wanted; return whether there may be more to do."""
        control = self.applier.control
        standing_copy = standing(control)
        copy = standing_copy.copy
        if copy is None or copy.again:
            wanted = self._queue.next(control, standing_copy)
            if wanted is None:
                return copy is not None
            # From here on no XA branch's bytes are removed: the applier will need them again.
            self.applier.keep_branches(True)
            if wanted.waits:
                self._queue.tried(wanted.tables)
            copy = self._begin(control, wanted)
            if copy is None:
                return True  # to retry after the statement that dropped or renamed the table
            if wanted.request:  # after a kill before this, ``Queue.next`` finds it answered
                wanted.request.unlink(missing_ok=True)
        if copy.error or copy.behind is None or copy.is_done:
            return True  # the applier has to show it first
        logger.warning("copying again: %s", ", ".join(copy.bounds))
        progress = partial(self.applier.copying, list(copy.bounds))
        with in_use(self.spark, self.stop.is_set) as session:
            try:
                result = self._copy(
                    session, self.config, control, self.stop, lenient=True, report=progress
                )
            except Exception as error:  # the applier continues without a copy that fails for good
                if _not_the_copys(error):
                    raise
                self._give_up(control, copy, error)
            else:
                self._take_in(result.until)
            finally:
                self.applier.copying((), 0, 0)
        return True

    def _take_in(self, until: GtidSet) -> None:
        """Have the applier go back once the log contains all that the copy may contain. Only then
        can it see whether a statement changed the tables meanwhile."""
        while not until.issubset(self.applier.executed):
            if has_received(self.config.relay.path, until):
                break
            if self.stop.wait(_POLL_S):
                raise Stopped
        self.applier.take_in()

    def _begin(self, control: Control, wanted: Wanted) -> Copy | None:
        try:
            if request := wanted.request:
                formats.unstamp(request.read_text("utf-8"), _FORMAT, "this request", request)
            copy = self._plan(
                self.config, control, wanted.tables, wanted.request_name, waits=wanted.waits
            )
            # Once more: the applier may have gone back meanwhile, with branches of its own.
            self.applier.keep_branches(True)
            self._queue.planned()
            return copy
        except SparkReplError as error:
            if _not_the_copys(error):
                raise
            if isinstance(error, NoTableError) and self._queue.ask_again(error, standing(control)):
                self.applier.keep_branches(False)
                return None
            copy = Copy(GtidSet(), dict.fromkeys(wanted.tables, ()), {}, asked=wanted.request_name)
            return self._give_up(control, copy, error)

    def _give_up(self, control: Control, copy: Copy, error: Exception) -> Copy:
        """Record for the requester why there will be no copy; a table that waits is retried
        later."""
        ours = isinstance(error, SparkReplError)
        logger.error("not copied again: %s", error, exc_info=None if ours else error)
        text = str(error) if ours else f"{type(error).__name__}: {first_line(error)}"
        given_up, last = replace(copy, error=text), last_copy(control)
        same = last is not None and last.error == text and last.bounds.keys() == copy.bounds.keys()
        if not same or copy.asked:
            record_copy(control, given_up)
        self.applier.keep_branches(False)
        return given_up


def _not_the_copys(error: Exception) -> bool:
    """Return whether the error concerns more than this copy: it is temporary, or ends the
    applier."""
    is_lost = isinstance(error, SparkReplError) and is_temporary(error, reconnect=True)
    return (
        is_lost
        or temporary(error)
        or disk_full(error)
        or isinstance(
            error,
            FencedError
            | JvmEndedError
            | Stopped
            | ConnectionError
            | Py4JNetworkError
            | ConcurrentChangeError,
        )
    )


def check_answers(config: Config, epoch: int, request_name: str) -> None:
    """Raise TargetError, and remove the request, if the owner of the target does not carry out
    requests.

    This depends on the status that the owner of that ``epoch`` reports. An applier of an earlier
    version does not report it, and no error is raised.
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
    """Tables to copy next. ``request_name``: the request for which the copy is made; ``waits``: no
    cut shows the tables until they are copied."""

    tables: tuple[str, ...]
    request_name: str = ""
    request: Path | None = None
    waits: bool = False


class Queue:
    """The queue of copies to make. Requests come first, in their order; then the tables that wait,
    one after the other. A table that can't be copied does not delay others: it is retried after 2
    s, and later after up to 10 minutes."""

    def __init__(self, requests: Path) -> None:
        self.folder = requests
        self._pause: dict[str, tuple[float, float]] = {}
        """table -> (time of its next attempt, wait in seconds before the one after)"""
        self._missed: GtidSet | None = None
        """GTID set that the source had executed when it lacked a table"""

    def requests(self) -> list[Path]:
        return sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []

    def next(self, control: Control, standing: Standing) -> Wanted | None:
        """Return what to copy, starting at the newest cut; None if there is currently nothing to
        copy."""
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
        the newest cut may have renamed or dropped the table, so one more query follows when a cut
        has passed that statement."""
        cut, missed = standing.cut, self._missed or GtidSet.parse(error.executed)
        self._missed = None
        if cut is None or error.table not in cut.tables:
            return False
        if missed.issubset(GtidSet.parse(cut.gtid_executed)):
            return False
        self._missed = missed
        return True

    def planned(self) -> None:
        """Clear the record of the missing table: the source has all tables of the plan."""
        self._missed = None

    def tried(self, tables: tuple[str, ...]) -> None:
        """Set the time of the next attempt for waiting tables whose copy begins, because this copy
        may turn out to be useless."""
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
