"""ChannelRun: one channel's receiver and applier, from the first copy until it is stopped.

Neither hurts the other: the receiver is started again when it dies, and the applier goes on with
what was received; when the applier dies, the receiver sees that its parent is gone and ends.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config, load
from ..control.records.channels import check_unowned, control_of
from ..control.records.copies import last_copy, logged_while_copied, standing
from ..errors import ConfigError, FencedError, PurgedError, SparkReplError, Stopped
from ..observe.reports.run_report import report_of
from ..observe.web.endpoint import check_free
from ..receiver.purge import clear
from ..receiver.report import has_received
from ..runtime.threads import channel_here
from .applied_purge import watch
from .command_process import Start, start
from .older_log import clear_older, clear_state_of_removed
from .reload import Reload
from .scheduled_verify import ScheduledVerify
from .snapshot_run import copy_page, copy_tables
from .supervisor import Supervisor, wait_for_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..apply.start.replica import Replica
    from ..copy.recopy import Recopier
    from ..observe.reports.applier_status import Result

log = logging.getLogger(__name__)

_POLL_S = 0.1


class ChannelRun:
    """``run`` goes on until ``stop``, which lets the group be finished. ``session`` gives the Spark
    session, once it is needed; ``bar``: whether progress is shown, which one can have for itself;
    ``start``: what starts the receiver."""

    def __init__(
        self, config: Config, config_file: str, session: Callable[[], SparkSession], *,
        take_over: bool = False, bar: bool = True, start: Start = start,
    ) -> None:  # fmt: skip
        self.config, self._file, self._session = config, config_file, session
        self._start = start
        self._take_over, self._bar = take_over, bar
        self._known = _of_file(config_file, config)
        self._stop, self._reload = threading.Event(), threading.Event()
        self._replica: Replica | None = None
        self._recopier: Recopier | None = None
        self._report, self._page = report_of(config), ""

    @property
    def has_claimed(self) -> bool:
        """Whether the channel in the target was this process's last, so that there is nobody whom
        it has to take it over from. False where that can't be asked."""
        with suppress(SparkReplError, OSError):
            owner = control_of(self.config).owner()
            return owner is not None and owner[1].is_this_process
        return False

    def stop(self) -> None:
        """Safe from any thread, and in a signal's handler."""
        self._stop.set()
        if (replica := self._replica) is not None:
            replica.stop()

    def reload(self) -> None:
        """Has the file read anew, once it follows; safe as ``stop`` is."""
        self._reload.set()

    def is_at_work(self, wait_s: float) -> bool:
        """Whether something of a run that has ended goes on after so long: a copy's chunk."""
        return self._recopier is not None and self._recopier.join(wait_s)

    def run(self) -> Result | None:
        """What was applied; None: stopped before there was a log.

        Raises FencedError where another one has the target, ConfigError where metrics can't be
        served, and what stopped either: with the receiver's refusal, all that was received is
        applied first.
        """
        config = self.config
        check_unowned(config, take_over=self._take_over)
        check_free(config.observe)
        try:
            result = self._followed(config)
        except FencedError:  # the other one has a report of its own
            raise
        except BaseException as error:
            self._report.failed(error)
            raise
        self._report.ended()
        return result

    def _followed(self, config: Config) -> Result | None:
        """``run`` where nobody has the target."""
        from ..copy.copy_plan import plan_copy

        first = is_new(config) and config.source.auto_position
        if first:
            clear_state_of_removed(config)
            source = f"{config.source.host}:{config.source.port}"
            self._begins(f"asking {source} what is to be copied")
            plan_copy(config)  # before the receiver starts: its log begins where that does
        clear_older(config)
        while True:
            try:
                return self._follow(first=first)
            except PurgedError as error:
                if config.source.on_purged != "snapshot" or self._stop.is_set():
                    raise
                log.warning("%s: all tables are copied anew", error)
            self._replica = None
            plan_copy(config, anew=True)
            clear(Path(config.relay.path))
            first = True

    def _begins(self, what: str) -> None:
        announce(self.config, what)
        self._report.begins(what)

    def _follow(self, *, first: bool) -> Result | None:
        """Follows until it is stopped, or until the receiver has refused and what it received is
        applied."""
        config, stop = self.config, self._stop
        with Supervisor(config, self._file, ending=stop, start=self._start) as receiver:
            if not wait_for_log(config, receiver, stop, self._begins):
                return None
            self._begins("starting Spark")
            spark = self._session()
            if first and not self._copied(spark):
                return None
            _wait_for_copied(config, receiver, stop)
            result = self._apply(spark, receiver)
            if receiver.error is not None:
                raise receiver.error
            return result

    def _copied(self, spark: SparkSession) -> bool:
        """Makes the first copy; False: it was stopped."""
        # By GTID it is known what a copy holds, so that a table may be left for later.
        lenient = self.config.source.auto_position and self.config.ddl.unknown == "copy"
        self._begins("copying the tables")
        try:
            with copy_page(self.config) as page:
                self._announce_page(page)
                copy_tables(
                    spark, self.config, take_over=self._take_over, stop=self._stop,
                    lenient=lenient, bar=self._bar, on_rows=self._report.copies,
                )  # fmt: skip
        except Stopped:
            announce(self.config, "the first copy is stopped: the next start goes on with it")
            return False
        return True

    def _announce_page(self, address: str) -> None:
        """Say where the page is, once for the first copy and the applier."""
        if address and address != self._page:
            announce(self.config, f"the page: {address}")
        self._page = address

    def _apply(self, spark: SparkSession, receiver: Supervisor) -> Result:
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
            if self._stop.is_set():  # since it was looked at last
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
                if receiver.error is not None:
                    result = applier.apply()
        return result


def is_new(config: Config) -> bool:
    """Return whether the target is empty, or holds no more than a first copy that isn't finished.
    The relay log doesn't count: it may be older than the target, and holds no rows from before."""
    control = control_of(config)
    copy = last_copy(control)
    if copy is not None and not copy.error:  # one that was given up was beside a running applier
        return copy.behind is None and not copy.is_done
    return not (control.exists() and (control.cut_count() or control.rows("table")))


def _of_file(file: str, config: Config) -> Config:
    """What the file says, without what the command line has said."""
    try:
        return load(file)
    except ConfigError:  # it has gone since
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


def announce(config: Config, text: str) -> None:
    """Print one line to standard error, or log it at level INFO if the log is JSON.

    The channel's name comes first if the channel is not the default one, or if the process runs
    several channels.
    """
    here, as_json = channel_here(), config.observe.log_format == "json"
    if config.channel != Config().channel or here:
        text = text if here and as_json else f"{config.channel}: {text}"
    if as_json:
        log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)
