"""Commands that receive, copy and apply: ``apply``, ``run``, ``snapshot``, ``receive``."""

from __future__ import annotations

import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from ..errors import ConfigError, SparkReplError
from ..service.channel_run import ChannelRun
from ..service.channel_runs import ChannelRuns
from ..service.command_process import at_signals, write_refusal
from ..service.receiving import receive as receive_log
from ..service.shared_spark import SharedSpark
from ..service.snapshot_run import snapshot as copy_alone
from ..service.worker_daemon import block_imports
from .configuration import checked, configuration, loaded, read_as
from .error_report import report
from .output import emit, print_result, print_results

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from ..config import Config
    from ..observe.reports.applier_status import Result
    from ..runtime.starting_session import Session
    from ..schedule.until import Until


def apply(options: argparse.Namespace) -> int:
    """Apply a folder of log files to the tables."""
    config = configuration(options)
    from ..control.records.channels import check_unowned
    from ..relay.log import open_log
    from ..runtime.starting_session import starting
    from ..schedule.until import Until

    until = Until.parse(options.until) if options.until else None
    relay = open_log(config.relay.path)  # a wrong folder is an error before Spark starts
    if until is not None:
        until.check_file(relay)
    check_unowned(config, take_over=options.take_over)
    session, end = _session_of(config, options)
    with starting(session, end=end) as spark:
        result = _applied(spark, config, options, until)
    print_result(result, options.json)
    return 0


def _session_of(
    config: Config, options: argparse.Namespace
) -> tuple[Callable[[], SparkSession], Callable[[SparkSession], None] | None]:
    """Return the functions that build the session and end it (StartingSession). A session in whose
    catalog tables are registered has no end. Raise SetupError if Java is missing."""
    from ..runtime.spark_session import build_session, end_of

    master = options.master or f"local[{config.apply.workers}]"
    settings = config.catalog.spark_settings()
    session = partial(build_session, master=master, settings=settings, delta=False)
    return session, None if config.catalog.registers else end_of(master)


def _applied(
    spark: Session, config: Config, options: argparse.Namespace, until: Until | None
) -> Result:
    # These imports take a second: a JVM that is needed at once starts meanwhile.
    from ..apply.start.replica import Replica
    from ..observe.progress import Progress

    with Progress(config) as progress:
        replica = Replica(spark, config, progress.group, take_over=options.take_over, until=until)
        if options.from_here:
            replica.begin_here()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: replica.stop())
        with replica:
            progress.begin(replica)
            return replica.apply(follow=options.follow)


def run_replication(options: argparse.Namespace) -> int:
    """Run receiver and applier of one channel, or of several, until SIGTERM."""
    files = [*dict.fromkeys(options.config)]
    if len(files) > 1:
        return _run_several(files, options)
    (file,) = files
    config = read_as(file, options)

    session, end = _session_of(config, options)
    channel = ChannelRun(config, file, session, take_over=options.take_over, end=end)
    at_signals(channel.stop, channel.reload)
    result = channel.run()
    if result is not None:
        print_result(result, options.json)
    return 0


def _run_several(files: list[str], options: argparse.Namespace) -> int:
    from ..service import receiving

    first = read_as(files[0], options)

    def read(file: str) -> Config:
        """Return a file's configuration with the log format of the first: a process has one."""
        return checked(file).override({"observe.log_format": first.observe.log_format})

    configs = {files[0]: first, **{file: read(file) for file in files[1:]}}
    shared = SharedSpark([*configs.values()], options.master)

    def begin(config: Config, file: str, take_over: bool) -> ChannelRun:
        take_over = take_over and options.take_over
        return ChannelRun(
            config, file, shared.session_of(config), take_over=take_over, bar=False,
            start=receiving.start,
        )  # fmt: skip

    channels = ChannelRuns(configs, read, begin, report)
    at_signals(channels.stop, channels.reload)
    results = channels.run()
    print_results(results, options.json)
    return 0


def snapshot(options: argparse.Namespace) -> int:
    """Copy all tables for the first time, or some tables again."""
    config = loaded(options)
    if odd := [name for name in options.table if not all(name.partition("."))]:
        raise ConfigError(f"--table {odd[0]}: give DATABASE.TABLE, as the target has it")
    copied = copy_alone(
        config, tuple(options.table), master=options.master, take_over=options.take_over
    )
    if not copied.seconds:
        print("Nothing was copied: the first copy is done already", file=sys.stderr)
    fields = {
        "tables": copied.tables,
        "rows": copied.rows,
        **({} if copied.bytes is None else {"bytes": copied.bytes}),
        "seconds": round(copied.seconds, 3),
        "rows_per_s": copied.rows_per_s,
        "start": str(copied.start),
        "high_water_mark": str(copied.until),
    }
    emit(fields, options.json)
    return 0


def receive(options: argparse.Namespace) -> int:
    """Run only the receiver, until SIGTERM."""
    if options.supervised:
        block_imports("pandas")
    try:
        config = loaded(options)
        received = receive_log(config, parent=options.supervised, from_end=options.from_end)
    except SparkReplError as error:
        if not options.refusal:
            raise
        write_refusal(options.refusal, error)  # the supervisor prints it
        return 1
    emit(received, options.json)
    return 0
