"""Following a live server: the receiver in a process of its own, the applier in this one.

Neither hurts the other: the receiver is started again when it dies, and the applier goes on with
what was received; when the applier dies, the receiver sees that its parent is gone and ends.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..control.channels import check_unowned, control_of
from ..control.copies import last_copy, standing
from ..errors import PurgedError, SourceError, Stopped
from ..observe.announcement import announce
from ..observe.endpoint import check_free
from ..receiver.purge import clear
from ..receiver.receiver import Receiver
from ..receiver.report import has_received
from ..relay.published import read_end
from ..relay.source_place import SourcePlace
from ..source.connection import present_gtids
from .applied_purge import watch
from .reload import Reload
from .scheduled_verify import ScheduledVerify
from .supervisor import Supervisor, wait_for_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..apply.replica import Replica
    from ..config import Config
    from ..copy.first_copy import CopyResult
    from ..gtid import GtidSet
    from ..observe.applier_status import Result

log = logging.getLogger(__name__)

_POLL_S = 0.1
_COPIES = 4
"""how often a first copy begins, where statements change its tables"""


def executed_of(config: Config) -> GtidSet | None:
    """The GTID set that the target has: a new relay log begins behind it. None: no target yet."""
    return standing(control_of(config)).executed


def place_of(config: Config) -> tuple[str, int] | None:
    """The file and position of the source up to which the target has everything: a new relay log of
    a receiver without auto_position begins there. None: no target yet, or it does not say it."""
    cut = standing(control_of(config)).needed
    place = SourcePlace.of(cut.source) if cut else None
    return (place.file, place.position) if place else None


def receive(config: Config, *, parent: int = 0, from_end: bool = False) -> dict[str, Any]:
    """Runs the receiver in this process until SIGTERM, or until ``parent`` is gone. A new log
    begins behind what the target has; with ``from_end`` behind what the source has.

    Raises SourceError when the source refuses, LogError when the relay log can't be written.
    """
    begin = present_gtids(config.source)[0] if from_end else executed_of(config)
    place = None if config.source.auto_position else place_of(config)
    receiver = Receiver(config, begin, place, keep_on=lambda: not parent or os.getppid() == parent)
    _at_signals(lambda *_: receiver.stop())
    began = time.perf_counter()
    receiver.run()
    return {
        "transactions": receiver.writer.transactions,
        "seconds": round(time.perf_counter() - began, 3),
        "received_transaction_set": str(receiver.writer.received),
        "relay_position": f"{receiver.writer.number:06d}:{receiver.writer.whole}",
    }


def snapshot(
    config: Config,
    only: tuple[str, ...] = (),
    *,
    master: str | None = None,
    take_over: bool = False,
) -> CopyResult:
    """Makes the first copy, alone, or a new copy of some tables that the target has.

    Raises SourceError, SchemaError, TargetError, FencedError.
    """
    from ..copy.copy_plan import plan_copy

    def session() -> SparkSession:
        from ..runtime.session import build_session

        return build_session(
            master=master or f"local[{config.apply.workers}]", target=config.target.path
        )

    control = control_of(config)
    if only and standing(control).cut is not None:
        from ..copy.recopy import ask_and_wait, copy_stopped

        owner = control.owner()
        if owner and not owner[1].is_dead and not take_over:
            return ask_and_wait(config, only)
        return copy_stopped(config, only, session, take_over=take_over)
    check_unowned(config, take_over=take_over)
    plan_copy(config, only)
    return _first_copy(session(), config, only, take_over=take_over)


def _first_copy(
    spark: SparkSession, config: Config, only: tuple[str, ...], *, take_over: bool
) -> CopyResult:
    """Copies what is planned, and all of it anew when statements have changed tables meanwhile.
    Raises SourceError when they do so each time."""
    from ..copy.copy_plan import plan_copy

    control = control_of(config)
    for attempt in range(_COPIES):
        done = _copy(spark, config, take_over=take_over, lenient=True)
        copy = standing(control).copy
        if copy is None or not copy.unfinished:
            return done
        changed = ", ".join(sorted(copy.unfinished))
        log.warning("%s: changed while it was copied: all is copied anew", changed)
        if attempt < _COPIES - 1:
            plan_copy(config, only, anew=True)
    raise SourceError(
        f"statements changed tables during each of {_COPIES} copies: {changed}",
        hint="start it again when no statements change tables; or spark-repl run, which copies"
        " these tables alone again",
    )


def _copy(
    spark: SparkSession,
    config: Config,
    *,
    take_over: bool,
    stop: threading.Event | None = None,
    lenient: bool = False,
) -> CopyResult:
    from ..copy.first_copy import FirstCopy
    from ..observe.progress import CopyProgress
    from ..runtime.workers import Workers

    workers = Workers(spark, config.apply.workers)
    with CopyProgress(config) as progress:
        copy = FirstCopy(spark, config, workers.run, progress.told, stop=stop, lenient=lenient)
        return copy.copy(take_over=take_over)


def _is_new(config: Config) -> bool:
    """Whether target and relay log are empty, or hold no more than a first copy that isn't
    finished."""
    control = control_of(config)
    copy = last_copy(control)
    if copy is not None and not copy.error:  # one that was given up was beside a running applier
        return copy.behind is None and not copy.is_done
    if control.exists() and (control.cut_count() or control.rows("table")):
        return False
    return read_end(config.relay.path) is None


def run(
    config: Config, config_file: str, *, master: str | None = None, take_over: bool = False
) -> Result | None:
    """Runs receiver and applier until SIGTERM, which finishes the group; None: stopped before any
    log.

    Raises FencedError where another one has the target, ConfigError where metrics can't be served,
    and what stopped either: with the receiver's refusal, all that was received is applied first.
    """
    stop = threading.Event()
    replica: list[Replica] = []

    def end(*_: object) -> None:
        stop.set()
        for applier in replica:
            applier.stop()

    _at_signals(end)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until Reload hears it
    check_unowned(config, take_over=take_over)
    check_free(config.observe)
    from ..copy.copy_plan import plan_copy

    first = _is_new(config) and config.source.auto_position
    if first:
        announce(config, f"asking {config.source.host}:{config.source.port} what is to be copied")
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
    """Follows until ``stop``, or until the receiver has refused and what it received is applied."""
    with Supervisor(config, config_file, ending=stop) as receiver:
        if not wait_for_log(config, receiver, stop):
            return None
        from ..apply.replica import Replica
        from ..copy.recopy import Recopier
        from ..observe.progress import Progress
        from ..runtime.session import build_session

        announce(config, "starting Spark")
        master = master or f"local[{config.apply.workers}]"
        spark = build_session(master=master, target=config.target.path)
        copies = config.source.auto_position  # by GTID it is known what a copy holds
        if first:
            lenient = copies and config.ddl.unknown == "copy"
            announce(config, "copying the tables")
            try:
                _copy(spark, config, take_over=take_over, stop=stop, lenient=lenient)
            except Stopped:
                return None
        _wait_for_copied(config, receiver, stop)
        with Progress(config) as progress:
            applier = Replica(
                spark, config, progress.group, take_over=take_over, copies=copies, serves=True
            )
            replica.append(applier)
            recopier = Recopier(spark, config, applier)
            note = partial(applier.note, "verify")
            verify = ScheduledVerify(config, config_file, applier.fail, note)
            reload = Reload(config, config_file, receiver, applier, recopier, verify)
            with applier, recopier, watch(receiver, applier), verify, reload:
                progress.begin(applier)
                if applier.page:
                    announce(config, f"the page: {applier.page}")
                result = applier.apply(follow=True)
                if receiver.error is not None:
                    result = applier.apply()
        if receiver.error is not None:
            raise receiver.error
        return result


def _wait_for_copied(config: Config, receiver: Supervisor, stop: threading.Event) -> None:
    """Waits until the relay log holds all that a finished copy may hold: the applier looks there
    for statements that make it useless."""
    copy = standing(control_of(config)).copy
    if copy is None or copy.until is None:
        return
    while receiver.error is None and not has_received(config.relay.path, copy.until):
        if stop.wait(_POLL_S):
            return
