"""Following a live server: the receiver in a process of its own, the applier in this one.

Neither hurts the other: the receiver is started again when it dies, and the applier goes on with
what was received; when the applier dies, the receiver sees that its parent is gone and ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import Config
from .errors import LogError, PurgedError, SourceError, SparkReplError
from .gtid import GtidSet
from .position import OFFSET_BITS
from .relay.connection import DumpConnection
from .relay.log import RelayLog, open_log
from .relay.published import read_end
from .relay.purge import Purged, clear, deciding, purge
from .relay.receiver import Receiver
from .relay.report import read_report
from .retry import Stopped
from .sink.control import Control
from .sink.copies import last_copy, standing
from .sink.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .copy.first_copy import CopyResult
    from .replica import Replica, Result

log = logging.getLogger(__name__)

_STEADY_S = 60.0
_POLL_S = 0.1
_STOP_S = 30.0
_PURGE_EVERY_S = 5.0
# The receiver's own exit codes: it said what is wrong, and would say it again.
_REFUSED = (1, 2)
_PURGED = PurgedError.__name__


def executed_of(config: Config) -> GtidSet | None:
    """What the target has: a new relay log begins behind it. None: there is no target yet."""
    return standing(Control(Layout(config.target.path).control, config.channel)).executed


def present_gtids(config: Config) -> tuple[GtidSet, GtidSet]:
    """What the source has executed, and purged. Raises SourceError."""
    connection = DumpConnection(config.source)
    try:
        server = connection.server()
        return server.executed, server.purged
    finally:
        connection.close()


def applied_file(config: Config, relay: RelayLog) -> int:
    """The number of the file where the applier stands: those before are not needed any more.

    0 when that can't be told. The last cut lists every table, so an idle one holds nothing back.
    """
    control = Control(Layout(config.target.path).control, config.channel)
    last = standing(control).needed
    if last is None:
        return 0
    for row in reversed(control.rows("history")):
        known = json.loads(row["detail"])
        number = (last.position >> OFFSET_BITS) - known["base"]
        if known["log_id"] == last.log_id and relay.holds(number):
            same = known["fingerprints"].get(str(number)) == relay.fingerprint(number)
            return number if same else 0
    return 0


def purge_applied(config: Config) -> Purged:
    """Removes what every table has passed. Raises ConfigError where no receiver writes."""
    folder = Path(config.relay.path)
    with deciding(folder):
        return purge(folder, applied_file(config, open_log(config.relay.path)))


def receive(config: Config, *, parent: int = 0, from_end: bool = False) -> dict[str, Any]:
    """Runs the receiver in this process until SIGTERM, or until ``parent`` is gone. A new log
    begins behind what the target has; with ``from_end`` behind what the source has.

    Raises SourceError when the source refuses, LogError when the relay log can't be written.
    """
    begin = present_gtids(config)[0] if from_end else executed_of(config)
    receiver = Receiver(config, begin, keep_on=lambda: not parent or os.getppid() == parent)
    _at_signals(lambda *_: receiver.stop())
    began = time.perf_counter()
    receiver.run()
    return {
        "transactions": receiver.writer.transactions,
        "seconds": round(time.perf_counter() - began, 3),
        "received_transaction_set": str(receiver.writer.received),
        "relay_position": f"{receiver.writer.number:06d}:{receiver.writer.whole}",
    }


class Supervisor:
    """Keeps the receiver's process running; ``error`` is set when it refused to go on. ``ending``:
    this process was asked to end, and whoever asked may have asked the receiver too."""

    def __init__(
        self,
        config: Config,
        config_file: str,
        *options: str,
        ending: threading.Event | None = None,
    ) -> None:
        self.config, self.config_file, self.options = config, config_file, options
        self._ending = ending or threading.Event()
        self.error: SourceError | None = None
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="receiver", daemon=True)

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._thread.join(_STOP_S)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _keep(self) -> None:
        wait = self.config.source.connect_retry_s / 1.0
        while not self._stop.is_set():
            began = time.monotonic()
            code = self._run_once()
            if self._stop.is_set():
                return
            if code in _REFUSED:
                said = read_report(self.config.relay.path) or {}
                text = said.get("LAST_ERROR_MESSAGE") or f"the receiver ended with {code}"
                kind = PurgedError if said.get("LAST_ERROR_KIND") == _PURGED else SourceError
                self.error = kind(
                    f"the receiver stopped: {text}",
                    hint=said.get("LAST_ERROR_HINT") or "see its message above",
                )
                return
            if code == 0 and self._ending.wait(_POLL_S):
                return
            log.warning("the receiver ended with %s: it is started again", code)
            if time.monotonic() - began > _STEADY_S:
                wait = self.config.source.connect_retry_s / 1.0
            self._stop.wait(wait)
            wait = min(wait * 2, self.config.source.connect_retry_max_s)

    def _run_once(self) -> int:
        command = [sys.executable, "-m", "spark_repl", "receive", "--config", self.config_file]
        self._process = subprocess.Popen(
            [*command, "--supervised", str(os.getpid()), *self.options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            process_group=0,  # a terminal's Ctrl-C is the parent's to hear
        )
        self.starts += 1
        return self._process.wait()


def snapshot(
    config: Config,
    only: tuple[str, ...] = (),
    *,
    master: str | None = None,
    take_over: bool = False,
) -> CopyResult:
    """The first copy, alone, or a new one of some tables that the target has.

    Raises SourceError, SchemaError, TargetError, FencedError.
    """
    from .copy.first_copy import plan_copy

    def session() -> SparkSession:
        from .session import build_session

        return build_session(
            master=master or f"local[{config.apply.workers}]", target=config.target.path
        )

    control = Control(Layout(config.target.path).control, config.channel)
    if only and standing(control).cut is not None:
        from .recopy import ask_and_wait, copy_stopped

        owner = control.owner()
        if owner and not owner[1].is_dead and not take_over:
            return ask_and_wait(config, only)
        return copy_stopped(config, only, session, take_over=take_over)
    plan_copy(config, only)
    return _copy(session(), config, take_over=take_over)


def _copy(
    spark: SparkSession, config: Config, *, take_over: bool, stop: threading.Event | None = None
) -> CopyResult:
    from .copy.first_copy import FirstCopy
    from .progress import CopyProgress
    from .workers import Workers

    workers = Workers(spark, config.apply.workers)
    with CopyProgress() as progress:
        copy = FirstCopy(spark, config, workers.run, progress.told, stop=stop)
        return copy.copy(take_over=take_over)


def _is_new(config: Config) -> bool:
    """Whether neither target nor relay log hold anything, or a copy that isn't finished."""
    control = Control(Layout(config.target.path).control, config.channel)
    copy = last_copy(control)
    if copy is not None:
        return copy.behind is None and not copy.is_done
    if control.exists() and (control.cuts() or control.rows("table")):
        return False
    return read_end(config.relay.path) is None


def run(
    config: Config, config_file: str, *, master: str | None = None, take_over: bool = False
) -> Result | None:
    """Receiver and applier until SIGTERM, which finishes the group; None: stopped before any log.

    Raises what stopped either: with the receiver's refusal, all that was received is applied first.
    """
    stop = threading.Event()
    replica: list[Replica] = []

    def end(*_: object) -> None:
        stop.set()
        for one in replica:
            one.stop()

    _at_signals(end)
    from .copy.first_copy import plan_copy

    first = _is_new(config) and config.source.auto_position
    if first:
        plan_copy(config)  # before the receiver starts: its log begins where the copy does
    while True:
        try:
            return _follow(config, config_file, stop, replica, master, take_over, first=first)
        except PurgedError as error:
            if config.source.on_purged != "snapshot" or stop.is_set():
                raise
            log.warning("%s: all tables are copied anew", error)
        replica.clear()
        plan_copy(config, anew=True)
        clear(Path(config.relay.path))
        first = True


def _at_signals(do: Callable[..., None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, do)


def _follow(
    config: Config,
    config_file: str,
    stop: threading.Event,
    replica: list[Replica],
    master: str | None,
    take_over: bool,
    *,
    first: bool,
) -> Result | None:
    """Until ``stop``, or until the receiver has refused and what it received is applied."""
    with Supervisor(config, config_file, ending=stop) as receiver:
        if not wait_for_log(config, receiver, stop):
            return None
        from .progress import Progress
        from .recopy import Recopier
        from .replica import Replica
        from .session import build_session

        spark = build_session(
            master=master or f"local[{config.apply.workers}]", target=config.target.path
        )
        if first:
            try:
                _copy(spark, config, take_over=take_over, stop=stop)
            except Stopped:
                return None
        with Progress(config) as progress:
            applier = Replica(spark, config, progress.group, take_over=take_over)
            replica.append(applier)
            watch = threading.Thread(target=_watch, args=(receiver, applier, stop), daemon=True)
            with applier, Recopier(spark, config, applier):
                progress.begin(applier)
                watch.start()
                result = applier.apply(follow=True)
                if receiver.error is not None:
                    result = applier.apply()
        if receiver.error is not None:
            raise receiver.error
        return result


def wait_for_log(config: Config, receiver: Supervisor, stop: threading.Event) -> bool:
    """Waits until the receiver has begun the relay log. Raises its refusal when there is none."""
    while not stop.is_set():
        try:
            open_log(config.relay.path)
            return True
        except LogError:
            if receiver.error is not None:
                raise receiver.error from None
            stop.wait(_POLL_S)
    return False


def _watch(receiver: Supervisor, applier: Replica, stop: threading.Event) -> None:
    """Ends the following when the receiver has given up; purges what was applied."""
    purged = time.monotonic()
    while not stop.wait(_POLL_S):
        if receiver.error is not None:
            applier.stop()
            return
        if time.monotonic() - purged > _PURGE_EVERY_S:
            purged = time.monotonic()
            _purge(receiver.config)


def _purge(config: Config) -> None:
    try:
        found = purge_applied(config)
    except (SparkReplError, OSError) as error:  # it is tried again; the limit of space is told
        log.info("nothing purged: %s", error)
        return
    if found.files:
        log.info("purged %s to %s, %d bytes", found.files[0], found.files[-1], found.bytes)
