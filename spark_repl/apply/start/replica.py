"""Replica: the applier of one channel, from the claim of its target to its release.

The commands ``apply`` and ``run``, and the bench, use it as a context manager. ``start`` opens the
log, claims the target and finds the place to resume at; ``apply`` runs the stream; ``close``
releases the target. ``_open`` builds all other parts from the target's state, and is also the way
back: after a former owner's late commit, a finished copy, or a quarantine, ``apply`` opens the
target again and continues from what the tables hold.

Invariants: one owner has a target, and an owner that was succeeded can't commit (``control``).
Everything before an error is committed when the error is raised. ``stop``, ``fail`` and ``take_in``
may be called from any thread. Tests inject I/O, clocks and workers through ``Parts``. Raises
ConfigError before the target is touched, then LogError, FencedError, HistoryError, TargetError.
Design: docs/design/groups.md, docs/design/owner-lease.md, docs/design/positions.md.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...catalog.managed import managed_tables
from ...catalog.registrar import record_registration, registrar_of
from ...config.rules import LISTEN
from ...control.records.channels import opened, warn_if_new
from ...control.records.copies import CatchUp
from ...control.records.log_identity import NOWHERE, Begin
from ...control.table.control import Control
from ...control.table.cut import Waiting
from ...control.table.owner import succeed
from ...decode.cascades.logged_changes import read_logged_changes
from ...decode.stage_worker import stage
from ...delta.log.table_log import TableLog
from ...errors import FormerOwnerError, SparkReplError, StaleCopyError, Stopped
from ...observe.reports.applier_status import (
    ApplierStatus,
    Counters,
    Notice,
    Result,
    lost_file_notice,
)
from ...observe.web.endpoint import endpoint_snapshots, open_endpoint
from ...relay.log import open_log
from ...rules.row_filters import check_row_filters
from ...runtime.part_files import remove_dead_parts
from ...runtime.private_files import make_private_folder
from ...runtime.retry import Retries, until_stopped
from ...runtime.spark_session import own_session
from ...runtime.store_requests import each_pause
from ...runtime.workers import Workers
from ...write.alter.table_changes import TableChanges
from ...write.cascades.emulated_cascades import emulate
from ...write.rows.group_writer import GroupWriter
from ...write.tables.target_options import TargetOptions
from ...write.tables.tracking import Tracking, left_out_before
from ...write.upkeep.statistics_check import check_statistics
from ..group.coordinator import Coordinator
from ..group.gaps import Gaps
from ..group.pipeline import Pipeline
from ..group.stager import Stager
from ..statements.statements import Statements
from ..stream.stream import RelayStream
from ..stream.stream_checkpoint import resume_offset
from .applier import RunningApplier
from .quarantine_replay import QuarantineReplay
from .repair_rows import RowRepairs
from .resume import resume, show_absent, show_copy

if TYPE_CHECKING:
    from typing import Self

    from ...config import Apply, Config
    from ...control.table.control import Control
    from ...control.table.layout import Layout
    from ...decode.stage_task import Staged, StageTask
    from ...delta.log.committer import TableCatalog
    from ...gtid import GtidSet
    from ...observe.web.endpoint import Endpoint
    from ...relay.index import TransactionIndex
    from ...runtime.retry import Wait
    from ...runtime.starting_session import Session
    from ...schedule.until import Until
    from ...write.cascades.emulated_cascades import Cascaded, CascadeTask
    from ...write.rows.row_repair import RowsToRepair
    from ..applied.quarantine_changes import Fault

logger = logging.getLogger(__name__)

_NOT_COPIED = "no cut shows the tables until they are copied, by run or by snapshot --table"

OnGroup = Callable[[Counters, int], None]


class Replica:
    """Applies the log in ``config.relay.path`` to the tables below ``config.target.path``.

    ``apply()`` ends at the log's end, or with ``follow=True`` when ``stop()`` is called. The
    replica owns the target from ``start()`` to ``close()``; use it as a context manager. If
    ``starting`` is still building a session, the first work that needs the session waits for it.
    The replica creates its own session next to another program's session, which it does not change.
    ``on_group`` is called after each committed group, with the counters and the group's packed end.
    ``copies``: whether tables that wait for a copy are copied while the applier runs
    (``copy.recopy``). ``serves``: whether it serves a page even if the configuration has no
    address.
    """

    def __init__(
        self, spark: Session, config: Config, on_group: OnGroup | None = None, *,
        take_over: bool = False, until: Until | None = None, copies: bool = False,
        serves: bool = False, parts: Parts | None = None,
    ) -> None:  # fmt: skip
        config.check_supported()
        check_row_filters(config.tables)
        self._copies = copies and config.ddl.unknown == "copy"
        self.config, self.counters = config, Counters()
        self.spark, self._parts, self._on_group = own_session(spark), parts or Parts(), on_group
        self._take_over, self._until, self._serves = take_over, until, serves
        source = config.source  # its receiver begins the log at the configured place
        at_place = (source.log_file, source.log_position)
        self._begin: Begin = NOWHERE if source.auto_position else at_place
        self._notes: dict[str, Notice] = {}
        self._answers = False
        self._rows: RowsToRepair | None = None  # committed when the target is opened next
        self._at = opened(config, self._parts.control)
        self._registrar = registrar_of(config, self._at, self.spark, self.note)
        self._relay_path = os.path.abspath(config.relay.path)
        self._control: Control | None = None
        self._opened: RunningApplier | None = None
        self._endpoint: Endpoint | None = None
        self.page = ""  # its address, after it is served
        self._beside: SparkReplError | None = None
        self._waits: dict[str, Waiting] = {}  # tables that wait for a copy after the next opening
        self._fault: Fault | None = None  # its table goes into quarantine
        self._faults = set[tuple[str, str | None, str | None]]()  # the places of all faults
        self._stop, self._copied = threading.Event(), threading.Event()
        self._late_at: tuple[int, ...] | None = None  # table positions at the last late commit

    def begin_here(self) -> Self:
        """Accept, for an empty target, a log without the source's first transactions: the tables
        lack their rows. Call it before ``start``."""
        self._begin = None
        return self

    def __enter__(self) -> Replica:
        try:
            self.start()
        except BaseException:
            self.close()  # it may have claimed the target already
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(error)

    def start(self) -> None:
        """Open the log, claim the target, and read the tables' positions.

        Raise LogError, FencedError, HistoryError and TargetError. Raise ConfigError if metrics
        can't be served as configured.
        """
        # First: if the configured port is in use, the start ends before it touches the target.
        self._endpoint, missing = open_endpoint(
            self.config.observe, serves=self._serves, automatic=self._parts.listen
        )
        self.note("page", missing)
        relay = open_log(self._relay_path)
        if self._until is not None:
            self._until.check_file(relay)
        self._control = control = self._at.control
        warn_if_new(self._at)
        control.on_taken = self.fail
        with control.one_look():
            control.claim(take_over=self._take_over)
            # A former owner that was taken over may still be alive and write its checkpoint.
            succeed(self.layout.checkpoint(control.epoch), inherit=not control.took_over)
            remove_dead_parts(*self.layout.written_to(control.epoch))
            self._open(control)
            record_registration(self.config, control)
        if self._endpoint is not None:
            self._endpoint.serve(endpoint_snapshots(self.config, self._relay_path, self._at))
            self.page = self._endpoint.address
        self._registrar.start(self.opened.pipeline.cuts.last_cut)

    def _open(self, control: Control) -> None:
        """Find the place to resume at, and build the parts that apply from it."""
        config, delta = self.config, self._parts.delta_log(managed_tables(self.config))
        make_private_folder(self.layout.keys(""))
        tracking = Tracking(self.layout, control, delta, TargetOptions.of(config))
        applied, point = resume(
            tracking, self._relay_path, copies=self._copies, begin=self._begin
        )  # fmt: skip
        check_statistics(tracking)
        while self._waits:
            tracking.wait(*self._waits.popitem())
        applied.hold(point.position)
        if tracking.waiting and not self._copies:
            logger.warning("%s: %s", ", ".join(tracking.waiting), _NOT_COPIED)
        status = self._parts.status(
            self.layout.status, config, control.epoch, self.counters, self._on_group,
            applied.ahead, self._notes, lambda: self._answers,
        )  # fmt: skip
        status.stands_at(point.position)
        stopping = threading.Event()
        parts, catch_up = self._parts, CatchUp(point.copy)
        attempts = config.apply.transaction_retries
        retries = Retries(attempts, stopping, status.transient, wait=parts.wait)
        workers = parts.workers(self.spark, config.apply.workers, config)
        stager = Stager(config, applied, tracking, workers, parts.stage, parts.emulate, catch_up)
        writer = GroupWriter(
            tracking, workers, config,
            lambda name, why: self.note(name, lost_file_notice(name, why)),
        )  # fmt: skip
        stager.quarantining.load(self._fault)
        self._fault = None
        point = QuarantineReplay(stager, writer, config.apply).carry_out(point)
        point = RowRepairs(stager, writer, applied).carry_out(self._rows, point)
        changes = TableChanges(tracking, workers, status.rewrites)
        statements = Statements(tracking, applied, changes, catch_up, point)
        pipeline = Pipeline(applied, tracking, point, status, retries, stager, writer, statements)
        coordinator = Coordinator(
            config.apply, applied, pipeline, status, stopping,
            gaps=Gaps(tracking, applied, pipeline.mark, catch_up.until(point.executed)),
            skip=point.skip, until=self._until,
        )  # fmt: skip
        checkpoint = self.layout.checkpoint(control.epoch)
        self._opened = RunningApplier(
            tracking, applied, coordinator, pipeline, retries, checkpoint, status
        )
        pipeline.cuts.on_published = self._registrar.cut_published
        for cut in (show_absent(point, tracking), show_copy(point, applied, tracking)):
            if cut is not None:  # an idle source brings no other cut
                self._registrar.cut_published(cut)

    @property
    def opened(self) -> RunningApplier:
        """Return the running applier. Raise SparkReplError before ``start()``."""
        if self._opened is None:
            raise SparkReplError("the replica is not started", hint="use it in a with statement")
        return self._opened

    @property
    def tracking(self) -> Tracking:
        return self.opened.tracking

    @property
    def coordinator(self) -> Coordinator:
        return self.opened.coordinator

    @property
    def layout(self) -> Layout:
        """Return the layout of the channel's own files."""
        return self._at.layout

    @property
    def requests(self) -> Path:
        """Return the folder of requests to this applier."""
        return Path(self.layout.requests)

    @property
    def control(self) -> Control:
        return self.opened.tracking.control

    @property
    def executed(self) -> GtidSet:
        """Return the GTIDs of everything that is in the tables."""
        return self.opened.pipeline.mark.executed

    @property
    def position(self) -> int:
        """Return the packed position up to which the tables have applied the log."""
        return self.opened.position

    @property
    def index(self) -> TransactionIndex:
        """Return the index of the log's transactions, as far as the log was read."""
        return self.opened.applied.view.index

    def apply(self, *, follow: bool = False) -> Result:
        """Apply what the log has now; with ``follow`` also later transactions, through a stream,
        until ``stop``. Raise the error that stopped it; everything before that has been
        committed."""
        began = time.perf_counter()
        while True:
            late: FormerOwnerError | None = None
            try:
                self._run(follow=follow)
            except FormerOwnerError as error:
                late = error
            except StaleCopyError as error:  # the copy is given up already
                logger.warning("%s", error)
                self._copied.set()
            except SparkReplError as error:
                self._pass_over(error)
            if self._stop.is_set() or (late is None and not self._copied.is_set()):
                break
            if late is not None:
                self._note_late(late)
            try:
                # The coordinator's own retries are stopping, for a copy that is to be taken in.
                # These retry no group, so they appear only in the log and not in the status.
                attempts, wait = self.config.apply.transaction_retries, self._parts.wait
                Retries(attempts, self._stop, lambda retry: None, wait=wait).run(self._go_back)
            except Stopped:
                late = None
                break
        if (failure := late or self._beside) is not None:
            raise failure
        return self.result(time.perf_counter() - began)

    def _run(self, *, follow: bool) -> None:
        opened = self.opened
        stream = RelayStream(
            self.spark, opened.applied, opened.coordinator, opened.checkpoint, opened.retries,
            lambda: self._stop.is_set() or self._copied.is_set(),
            config=self.config,
            status=opened.status if self._endpoint else None,
        )  # fmt: skip
        opened.pipeline.end_by_hand()
        opened.coordinator.apply_before_checkpoint(resume_offset(opened.checkpoint))
        if not stream.has_met_until():
            with each_pause(opened.status.pauses):
                stream.run(follow=follow)
        if opened.coordinator.reached_until:
            self._stop.set()

    def result(self, seconds: float) -> Result:
        """Return the result, ``seconds`` after the start. Raise LogError if the log is damaged
        after it."""
        return self.opened.result(self.counters, seconds, self._stop)

    def keep_branches(self, keep: bool) -> None:
        """Set whether the bytes of ended XA branches are kept, because a copy will need them
        again."""
        self.opened.pipeline.xa.store.keep_ended(keep)

    def copying(self, tables: Sequence[str], rows: int, expected: int) -> None:
        """Show the progress of a new copy of these tables in the status. Without tables no copy is
        in progress."""
        self.opened.status.copies(tables, rows, expected)

    def take_rows(self, rows: RowsToRepair) -> None:
        """Store rows that were read from the source; they are committed when the target is opened
        next."""
        self._rows = rows

    def take_in(self) -> None:
        """Make ``apply`` go back to the cut from which a finished copy of some tables, or repaired
        rows, can be included. Safe from any thread."""
        self._copied.set()  # first: ``apply`` checks it when the coordinator has stopped
        self.coordinator.stopping.set()

    def answer(self) -> None:
        """Show in the status that this process carries out requests of other processes
        (copy/recopy)."""
        self._answers = True

    def note(self, name: str, note: Notice | None) -> None:
        """Show in the status that something differs from the configuration. None removes the
        note."""
        if self._notes.get(name) == note:
            return
        if note is None:
            self._notes.pop(name, None)
        else:
            self._notes[name] = note
        if self._opened is not None:
            self._opened.status.write_notes()

    def reload(self, apply: Apply) -> None:
        """Apply new values of the settings that may change while the applier runs."""
        self.config = self.config.override({"apply.xa_age_limit_s": apply.xa_age_limit_s})
        self.opened.status.reload(apply)

    def _note_late(self, late: FormerOwnerError) -> None:
        """Raise the error if positions were read again before, and no group was committed since."""
        positions = tuple(table.position for table in self.tracking.tables.values())
        if self._late_at == positions:
            raise late
        self._late_at = positions
        logger.warning("%s: reading again what the tables hold", late)

    def _pass_over(self, error: SparkReplError) -> None:
        """Have the table of an error wait for a copy, or have its changes kept, from here on. Raise
        the error if neither is possible. Also raise it if the applier has gone back for this change
        before: it would do so for ever."""
        if self._left_out(error):
            return
        fault = self.opened.pipeline.fault_of(error)
        if fault is None or fault.place in self._faults:
            raise error
        self._faults.add(fault.place)
        self._fault = fault
        self._copied.set()

    def _left_out(self, error: SparkReplError) -> bool:
        """Have a table wait for a copy if filters left it out before and no longer do. Return
        whether the error concerns such a table. Raise SchemaError if tables are not copied."""
        name = self.tracking.lacking(error)
        if not name:
            return False
        if not self._copies:
            raise left_out_before(name).at(
                file=error.file, position=error.position, gtid=error.gtid
            ) from error
        logger.warning("%s waits for a copy: earlier filters have left rows of it out", name)
        self._waits = {name: Waiting("earlier filters have left rows of it out", error.gtid or "")}
        self._copied.set()
        return True

    def _go_back(self) -> None:
        self._copied.clear()  # first: what is set while the target is opened needs another turn
        before = self.opened
        before.coordinator.close()
        self._open(self.control)
        before.applied.close()  # else a purge waits for Python's garbage collector
        if self._stop.is_set():  # ``stop`` may have stopped only the previous coordinator
            self.coordinator.stopping.set()

    def stop(self) -> None:
        """End ``apply`` after the group that is being committed. Safe from any thread."""
        self._stop.set()
        if self._opened is not None:
            self._opened.coordinator.stopping.set()

    def fail(self, error: SparkReplError) -> None:
        """End ``apply``, which then raises this error of a background task. Safe from any
        thread."""
        self._beside = self._beside or error
        self.stop()

    def close(self, error: BaseException | None = None) -> None:
        """Release the target: another applier, also in this process, may then start on it.
        ``error``: the error that ended the run, for the status."""
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None
        try:
            if self._opened is not None:
                self._opened.coordinator.close(error)
                self._opened.applied.close()
            self._registrar.close(at_once=error is not None)
        finally:
            if self._control is not None:
                self._control.release()


_EMULATE = partial(emulate, read_logged_changes)


@dataclass(frozen=True)
class Parts:
    """Injectable dependencies of a ``Replica``: I/O, clocks and workers. Every run uses the
    defaults."""

    workers: Callable[[Session, int, Config], Workers] = Workers
    delta_log: Callable[[TableCatalog | None], TableLog] = TableLog
    stage: Callable[[StageTask], Staged] = stage
    """the worker's function that reads its part of a group"""
    emulate: Callable[[CascadeTask], Cascaded] = _EMULATE
    """the worker's function that follows a group's changes by foreign keys"""
    control: Callable[[str, str], Control] = Control
    """opens the control table of a channel at a path"""
    wait: Wait = until_stopped
    """how the applier waits before it retries"""
    status: Callable[..., ApplierStatus] = ApplierStatus
    listen: str = LISTEN
    """where it serves its page if the configuration names no address"""
