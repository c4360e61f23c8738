"""Registrar: a thread that keeps a catalog equal to the newest cut.

**Invariant**: nothing waits for the thread but the end of the process, and that for a bounded time.
``cut_published`` hands over a cut and returns. The thread carries out each task whose wanted state
differs from the one that it has carried out last; a cut that changes no state costs no request.
After a failure the thread waits, longer each time, and begins again from what the catalog has.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ..config import Config
from ..config.renaming import whole_of
from ..control.records.channels import channels
from ..control.records.shared_tables import does_register, record_registers
from ..errors import CatalogError, SparkReplError, Stopped
from ..observe.reports.applier_status import Notice
from ..runtime.retry import first_line
from ..runtime.starting_session import built
from ..runtime.threads import thread
from .cut_views import CutViews
from .entry import EntryOwner
from .naming import Naming
from .registration import TableRegistration
from .session_catalog import SessionCatalog

if TYPE_CHECKING:
    from ..control.records.channels import Channel
    from ..control.table.control import Control
    from ..control.table.cut import Cut
    from ..runtime.starting_session import Session
    from .session_catalog import CatalogClient

logger = logging.getLogger(__name__)

_FIRST_S, _LONGEST_S = 1.0, 30.0
"""waits after a failure, in seconds: the first, doubled each time, and the longest"""
_CLOSE_S = 20.0
"""seconds for which the end of the process waits for work in progress"""
SYNC_HINT = "the applier tries again; spark-repl catalog sync --config F shows the whole difference"


class CatalogTask(Protocol):
    """Something that the catalog has of a cut. ``every_s``: the task is carried out at most once in
    so many seconds; 0: after each cut."""

    every_s: float

    def wanted(self, cut: Cut) -> object:
        """Return the state that the cut wants. No request is made; equal states need no work."""
        ...

    def carry_out(
        self, catalog: CatalogClient, cut: Cut, is_stopping: Callable[[], bool] = bool
    ) -> list[Notice]:
        """Give the catalog the state that the cut wants. Return what can't be, for the status.
        Raise CatalogError to be called again, and Stopped."""
        ...


Note = Callable[[str, Notice | None], None]
"""shows a notice in the status under a name; None removes it"""


class Registrar:
    """Carries out ``tasks``, in their order, for the newest cut. If a later task takes long, the
    earlier ones are carried out between two of its requests. Without tasks there is no thread.

    ``connect`` returns the catalog; it may wait, and raises CatalogError, SparkReplError or
    Stopped. ``wait`` waits for seconds, or until the event is set."""

    def __init__(
        self,
        connect: Callable[[Callable[[], bool]], CatalogClient],
        tasks: Sequence[CatalogTask],
        note: Note,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._tasks, self._note, self._wait = connect, tasks, note, wait
        self._carried_out: list[object] = [None] * len(tasks)
        self._clock, self._begun = clock, [-math.inf] * len(tasks)
        self._due_s: float | None = None
        """seconds until a task is carried out that is not due yet"""
        self._notices = [0] * len(tasks)
        self._cut: Cut | None = None
        self._catalog: CatalogClient | None = None
        self._changed, self._idle = threading.Event(), threading.Event()
        self._stopping = threading.Event()
        self._is_last = False
        """whether no cut follows, so that every task is due"""
        self._failures, self._lock = 0, threading.Lock()
        self._idle.set()
        self._thread = thread(self._run, "catalog", daemon=True)

    def start(self, cut: Cut | None = None) -> None:
        """Start the thread. ``cut``: the newest cut, unless one has been handed over; None if there
        is none yet."""
        if cut is not None and self._cut is None:
            self.cut_published(cut)
        if self._tasks:
            self._thread.start()

    def cut_published(self, cut: Cut) -> None:
        """Hand over a published cut. Return at once; raise nothing."""
        with self._lock:
            self._cut = cut
            self._idle.clear()
        self._changed.set()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the newest cut is carried out. Return False after ``timeout_s`` seconds."""
        return self._idle.wait(timeout_s)

    def close(self, *, at_once: bool = False) -> None:
        """End the thread. A catalog that answers gets the newest cut first, for a bounded time,
        unless ``at_once``."""
        if not self._thread.is_alive():
            return
        if not at_once and not self._failures and self._cut is not None:
            with self._lock:
                self._is_last = True
                self._idle.clear()
            self._changed.set()
            self._idle.wait(_CLOSE_S)
        self._stopping.set()
        self._changed.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.wait(self._due_s)  # for a cut, or the end
            self._changed.clear()
            if (cut := self._cut) is None or self._stopping.is_set():
                continue
            try:
                self._carry_out(cut)
            except Stopped:
                return
            except Exception as error:  # noqa: BLE001 no fault of the catalog stops the applier
                self._failed(error)
                continue
            self._failures = 0
            with self._lock:
                if self._cut is cut:
                    self._idle.set()

    def _carry_out(self, cut: Cut) -> None:
        """Carry out the tasks whose wanted state has changed."""
        self._due_s = None
        for number in range(len(self._tasks)):
            self._carry_out_task(number, cut)
        self._note("catalog", None)

    def _carry_out_task(self, number: int, cut: Cut) -> None:
        task = self._tasks[number]
        wanted = task.wanted(cut)
        if wanted == self._carried_out[number]:
            return
        due_s = self._begun[number] + task.every_s - self._clock()
        if due_s > 0 and not self._is_last:
            self._due_s = min(due_s, self._due_s or math.inf)
            return
        self._carried_out[number] = None
        if self._catalog is None:
            self._catalog = self._connect(self._stopping.is_set)
        seen = cut

        def is_stopping() -> bool:
            """Return whether the thread ends, after the earlier tasks have a newer cut."""
            nonlocal seen
            newest = self._cut
            if newest is not None and newest is not seen and not self._stopping.is_set():
                seen = newest
                for earlier in range(number):
                    self._carry_out_task(earlier, newest)
            return self._stopping.is_set()

        self._show(number, task.carry_out(self._catalog, cut, is_stopping))
        self._carried_out[number], self._begun[number] = wanted, self._clock()

    def _show(self, number: int, notices: Sequence[Notice]) -> None:
        """Show a task's notices in place of its earlier ones."""
        for place in range(max(self._notices[number], len(notices))):
            notice = notices[place] if place < len(notices) else None
            self._note(f"catalog {number} {place}", notice)
        self._notices[number] = len(notices)
        for notice in notices:
            logger.warning("%s; %s", notice.what, notice.hint)

    def _failed(self, error: Exception) -> None:
        """Show the error, and wait before the next attempt."""
        message = error.message if isinstance(error, SparkReplError) else first_line(error)
        if not isinstance(error, CatalogError):
            message = f"the catalog is not up to date: {message}"
        hint = getattr(error, "hint", None) or SYNC_HINT
        self._note("catalog", Notice(message, hint))
        if not self._failures:
            logger.warning("%s; the applier tries again", message)
        earlier, self._failures = min(self._failures, 10), self._failures + 1
        self._wait(self._stopping, min(_FIRST_S * 2**earlier, _LONGEST_S))
        self._changed.set()


def table_registration(
    config: Config, at: Channel, former: Sequence[EntryOwner] = ()
) -> TableRegistration:
    """Return the registration of a channel's tables. ``former``: as in ``TableRegistration``."""

    def earlier() -> set[str]:
        """Return the names of the tables of all retained cuts."""
        return set(map(whole_of, at.control.snapshot().table_names()))

    def other_channels() -> Iterator[tuple[str, Cut]]:
        """Yield the other channels that register their tables, and their newest cuts, if several
        channels may feed a table."""
        for each in channels(at.layout.target) if shares_tables(config) else ():
            is_other = each.control.path != at.control.path
            if is_other and does_register(each.control) and (cut := each.control.last_cut()):
                yield each.name or Config.channel, cut

    owner = EntryOwner(at.layout.target, config.channel)
    return TableRegistration(at.layout, Naming.of(config), owner, earlier, former, other_channels)


def shares_tables(config: Config) -> bool:
    """Return whether other channels may feed the channel's tables."""
    return any(rule.channels for rule in config.tables)


def record_registration(config: Config, control: Control) -> None:
    """Record whether the channel registers its tables, if other channels may feed them. Other
    channels give an entry only to a channel that registers. Raise as ``Control.write``."""
    if shares_tables(config):
        record_registers(control, config.catalog.registers)


def cut_views(config: Config, at: Channel, former: Sequence[str] = ()) -> CutViews:
    """Return the views of a channel's cuts. ``former``: earlier places of the target."""
    return CutViews(at, Naming.of(config), config.catalog.cut_view_every_s, former)


def registrar_of(config: Config, at: Channel, spark: Session, note: Note) -> Registrar:
    """Return the registrar of a channel's applier. It has no task if the configuration names no
    catalog, or one that manages the tables: a managed table has its name from its creation."""
    registers = config.catalog.registers

    def connect(is_stopping: Callable[[], bool]) -> CatalogClient:
        catalog = SessionCatalog(built(spark, is_stopping))
        note("catalog kind", None if catalog.is_shared else _IN_MEMORY)
        return catalog

    tasks: list[CatalogTask] = [table_registration(config, at)] if registers else []
    if registers and config.catalog.cut_views:
        tasks.append(cut_views(config, at))
    return Registrar(connect, tasks, note)


_IN_MEMORY = Notice(
    "the session's catalog is in memory: no other session sees the registered tables",
    "set catalog.metastore, or spark.sql.catalogImplementation = hive in Spark's configuration",
)
