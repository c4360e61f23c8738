"""ChannelRun: one channel's receiver and applier, from the first copy until it is stopped.

Neither end harms the other. A dead receiver is started again, and the applier continues with what
was received. After the applier's death the receiver sees that its parent no longer exists, and
ends.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config, load
from ..control.records.channels import check_unowned, control_of
from ..control.records.copies import last_copy, logged_while_copied, standing
from ..errors import ConfigError, FencedError, PurgedError, SparkReplError, Stopped
from ..observe.progress import print_progress
from ..observe.reports.run_report import report_of
from ..observe.web.endpoint import check_free
from ..receiver.identity import create_identity
from ..receiver.purge import clear
from ..receiver.report import has_received
from ..runtime.starting_session import starting
from .applied_purge import watch
from .archived_relay import forget_archived
from .command_process import Start, start
from .older_log import clear_older, clear_state_of_removed
from .reload import Reload
from .scheduled_verify import ScheduledVerify
from .snapshot_run import copy_page, copy_tables
from .supervisor import Supervisor, wait_for_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from ..apply.start.replica import Replica
    from ..copy.recopy import Recopier
    from ..observe.reports.applier_status import Result
    from ..runtime.starting_session import Session

logger = logging.getLogger(__name__)

_POLL_S = 0.1


class ChannelRun:
    """The run of a channel. ``run`` continues until ``stop``, after which the current group is
    finished.

    ``session`` returns the Spark session, and is called when it is needed; ``end`` ends the session
    while nothing needs it (StartingSession); ``bar``: whether to show progress, which only one
    channel of a process can do; ``start`` starts the receiver.
    """

    def __init__(
        self, config: Config, config_file: str, session: Callable[[], SparkSession], *,
        take_over: bool = False, bar: bool = True, start: Start = start,
        end: Callable[[SparkSession], None] | None = None,
    ) -> None:  # fmt: skip
        self.config, self._file, self._session, self._end = config, config_file, session, end
        self._start = start
        self._take_over, self._bar = take_over, bar
        self._known = _of_file(config_file, config)
        self._stop, self._reload = threading.Event(), threading.Event()
        self._replica: Replica | None = None
        self._recopier: Recopier | None = None
        self._report, self._page = report_of(config), ""

    @property
    def has_claimed(self) -> bool:
        """Return whether this process was the target's last owner, so that no take-over is needed.
        Return False if the target can't be read."""
        with suppress(SparkReplError, OSError):
            owner = control_of(self.config).owner()
            return owner is not None and owner[1].is_this_process
        return False

    def stop(self) -> None:
        """Stop after the current group. Safe from any thread, and in a signal's handler."""
        self._stop.set()
        if (replica := self._replica) is not None:
            replica.stop()

    def reload(self) -> None:
        """Read the file again, as soon as the first copy is done and the run follows the log. Safe
        from any thread and in a signal handler."""
        self._reload.set()

    def is_at_work(self, wait_s: float) -> bool:
        """Return whether a copy of an ended run is still running after ``wait_s`` seconds."""
        return self._recopier is not None and self._recopier.join(wait_s)

    def run(self) -> Result | None:
        """Run, and return the result; None if the run was stopped before there was a log.

        Raise FencedError if another process owns the target, ConfigError if the endpoint can't
        listen, and the error that stopped applier or receiver. Before the receiver's error is
        raised, everything that it received is applied.
        """
        config = self.config
        try:
            self._wait_for_target(config)
        except Stopped:
            return None
        check_free(config.observe)
        try:
            result = self._followed(config)
        except FencedError:  # the other process has a report of its own
            raise
        except BaseException as error:
            self._report.failed(error)
            raise
        self._report.ended()
        return result

    def _wait_for_target(self, config: Config) -> None:
        """Wait for the lease of an owner on another host. Raise FencedError, Stopped."""
        try:
            check_unowned(config, take_over=self._take_over, stopping=self._stop, say=self._begins)
        except BaseException:
            self._report.ended()
            raise

    def _followed(self, config: Config) -> Result | None:
        """Run on a target without another owner."""
        from ..copy.copy_plan import plan_copy

        create_identity(config)
        first = is_new(config) and config.source.auto_position
        if first:
            clear_state_of_removed(config)
            source = f"{config.source.host}:{config.source.port}"
            self._begins(f"asking {source} what is to be copied")
            plan_copy(config)  # before the receiver starts: its log begins where the copy does
        clear_older(config)
        while True:
            try:
                return self._follow(first=first)
            except PurgedError as error:
                if config.source.on_purged != "snapshot" or self._stop.is_set():
                    raise
                logger.warning("%s: all tables are copied again", error)
            self._replica = None
            plan_copy(config, again=True)
            forget_archived(config)  # first: the receiver would restore a cleared log from it
            clear(Path(config.relay.path))
            first = True

    def _begins(self, what: str) -> None:
        print_progress(self.config, what)
        self._report.begins(what)

    def _follow(self, *, first: bool) -> Result | None:
        """Follow until stopped, or until the receiver ended and all that it received is applied."""
        config, stop = self.config, self._stop
        with Supervisor(config, self._file, ending=stop, start=self._start) as receiver:
            if not wait_for_log(config, receiver, stop, self._begins):
                return None
            if self._end is None:
                self._begins("starting Spark")
            with starting(self._session, stop.is_set, end=self._end) as spark:
                if first and not self._copied(spark):
                    return None
                _wait_for_copied(config, receiver, stop)
                result = self._apply(spark, receiver)
            if receiver.error is not None:
                raise receiver.error
            return result

    def _copied(self, spark: Session) -> bool:
        """Make the first copy. Return False if it was stopped."""
        # GTIDs show what a copy holds, so that a table may be copied later.
        lenient = self.config.source.auto_position and self.config.ddl.unknown == "copy"
        self._begins("copying the tables")
        self._report.copies(0, 0)
        try:
            with copy_page(self.config) as page:
                self._announce_page(page)
                copied = copy_tables(
                    spark, self.config, take_over=self._take_over, stop=self._stop,
                    lenient=lenient, bar=self._bar, on_rows=self._report.copies,
                )  # fmt: skip
        except Stopped:
            print_progress(self.config, "the first copy is stopped: the next start goes on with it")
            return False
        if copied.seconds:  # it was not done before
            print_progress(self.config, f"copied {copied.summary}")
        return True

    def _announce_page(self, address: str) -> None:
        """Print the page's address, once for the first copy and the applier."""
        if address and address != self._page:
            print_progress(self.config, f"the page: {address}")
        self._page = address

    def _apply(self, spark: Session, receiver: Supervisor) -> Result:
        from ..apply.start.replica import Replica
        from ..copy.recopy import Recopier
        from ..observe.progress import Progress

        config = self.config
        self._report.ended()  # from now on the applier's own status counts
        with Progress(config, shown=self._bar) as progress:
            applier = Replica(
                spark, config, progress.group, take_over=self._take_over,
                copies=config.source.auto_position, serves=True,
            )  # fmt: skip
            self._replica = applier
            if self._stop.is_set():  # ``stop`` came before it could reach the applier
                applier.stop()
            self._recopier = recopier = Recopier(spark, config, applier)
            note = partial(applier.note, "verify")
            verify = ScheduledVerify(config, self._file, applier.fail, note)
            reload = Reload(
                self._known, self._file, self._reload, receiver, applier, recopier, verify
            )
            with applier, recopier, watch(receiver, applier), verify, reload:
                progress.begin(applier)
                self._announce_page(applier.page)
                result = applier.apply(follow=True)
                if receiver.error is not None:  # apply the rest of what it received
                    result = applier.apply()
        return result


def is_new(config: Config) -> bool:
    """Return whether the target is empty, or has only an unfinished first copy.

    The relay log is not considered: it may be older than the target, and lacks the earlier rows.
    """
    control = control_of(config)
    copy = last_copy(control)
    if copy is not None and not copy.error:  # a copy that was given up was beside a running applier
        return copy.behind is None and not copy.is_done
    return not (control.exists() and (control.cut_count() or control.rows("table")))


def _of_file(file: str, config: Config) -> Config:
    """Return the file's configuration, without the command line's values."""
    try:
        return load(file)
    except ConfigError:  # it was removed since
        return config


def _wait_for_copied(config: Config, receiver: Supervisor, stop: threading.Event) -> None:
    """Waits until the relay log holds all that was committed during a copy: the applier looks there
    for statements that make it useless."""
    control = control_of(config)
    copy = standing(control).copy
    if copy is None or copy.until is None:
        return
    wanted = logged_while_copied(control, copy)
    while receiver.error is None and not has_received(config.relay.path, wanted):
        if stop.wait(_POLL_S):
            return
