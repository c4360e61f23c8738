"""What has to do with a live server: ``run``, ``snapshot``, ``receive``, ``relay purge``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..config import Config, load
from ..errors import ConfigError, SparkReplError
from ..runtime.modules import leave_out
from ..service.applied_purge import purge_applied
from ..service.channel_run import ChannelRun
from ..service.channel_runs import ChannelRuns
from ..service.channel_sessions import SharedJvm
from ..service.receiving import receive as receive_log
from ..service.refusal import write_refusal
from ..service.signals import at_signals
from ..service.snapshot import snapshot as copy_alone
from . import inspect
from .configuration import checked, loaded, read_as
from .error_report import report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(options: argparse.Namespace) -> int:
    files = [*dict.fromkeys(options.config)]
    if len(files) > 1:
        return _run_several(files, options)
    (file,) = files
    config = read_as(file, options)

    def session() -> SparkSession:
        from ..runtime.session import build_session

        master = options.master or f"local[{config.apply.workers}]"
        return build_session(master=master, delta=False)

    channel = ChannelRun(config, file, session, take_over=options.take_over)
    at_signals(channel.stop, channel.reload)
    result = channel.run()
    if result is not None:
        inspect.print_result(result, options.json)
    return 0


def _run_several(files: list[str], options: argparse.Namespace) -> int:
    from ..service import forked_command

    first = read_as(files[0], options)

    def read(file: str) -> Config:
        """The log of one process has one form."""
        return checked(file).override({"observe.log_format": first.observe.log_format})

    configs = {files[0]: first, **{file: read(file) for file in files[1:]}}
    shared = SharedJvm([*configs.values()], options.master)

    def begin(config: Config, file: str, take_over: bool) -> ChannelRun:
        take_over = take_over and options.take_over
        return ChannelRun(
            config, file, shared.session_of(config), take_over=take_over, bar=False,
            start=forked_command.start,
        )  # fmt: skip

    channels = ChannelRuns(configs, read, begin, report)
    at_signals(channels.stop, channels.reload)
    results = channels.run()
    inspect.print_results(results, options.json)
    return 0


def snapshot(options: argparse.Namespace) -> int:
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
        "seconds": round(copied.seconds, 3),
        "rows_per_s": copied.rows_per_s,
        "start": str(copied.start),
        "high_water_mark": str(copied.until),
    }
    inspect.emit(fields, options.json)
    return 0


def receive(options: argparse.Namespace) -> int:
    if options.supervised:
        leave_out("pandas")
    try:
        config = loaded(options)
        received = receive_log(config, parent=options.supervised, from_end=options.from_end)
    except SparkReplError as error:
        if not options.refusal:
            raise
        write_refusal(options.refusal, error)  # the supervisor says it
        return 1
    inspect.emit(received, options.json)
    return 0


def purge(options: argparse.Namespace) -> int:
    from ..control.records.durability_barrier import DurabilityBarrier

    config = load(options.config) if options.config else Config()
    at = inspect.channel_of(options)
    given = {"relay.path": options.dir, "target.path": at.layout.target}
    purged = purge_applied(
        config.override(given), at.control, DurabilityBarrier(at.control, at.layout)
    )
    if purged.warning:
        print(f"warning: {purged.warning}", file=sys.stderr)
    fields = {"files": list(purged.files), "bytes": purged.bytes}
    inspect.emit(fields | ({"warning": purged.warning} if purged.warning else {}), options.json)
    return 0
