"""The command line. Exit 0: done, 1: stopped by an error, 2: bad usage or configuration."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence

from .. import errors
from ..config import Config, load
from ..errors import ConfigError, SetupError, SparkReplError, extra_named
from . import (
    bench_command,
    cut_command,
    inspect,
    log_lines,
    report_command,
    skip_command,
    status_command,
    verify_command,
    wait_command,
    xa_command,
)
from .arguments import parser

_PLACE = ("file", "position", "gtid", "table")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    options = parser(_RUN).parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO if getattr(options, "verbose", False) else logging.WARNING,
        stream=sys.stderr,
    )
    log_lines.log_as(getattr(options, "log_format", None) or "text")
    # Py4J logs with a traceback how a batch ended, also that --until was reached.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        with extra_named():
            return int(options.run(options) or 0)
    except (ConfigError, SetupError) as error:
        report(error)
        return 2
    except SparkReplError as error:
        report(error)
        return 1
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def report(error: SparkReplError) -> None:
    """``Error:`` what and where, ``Try:`` what to do, ``See:`` where more is said of errors of
    this class, on standard error; one line of JSON where the log is that."""
    if log_lines.is_json():
        place = {name: value for name in _PLACE if (value := getattr(error, name)) is not None}
        line = log_lines.line_of("ERROR", "spark_repl", error.message, time.time())
        said = {"error": type(error).__name__, "number": error.number, "hint": error.hint or ""}
        print(json.dumps({**line, **said, **place}), file=sys.stderr)
        return
    number = f" (MySQL error {error.number})" if error.number else ""
    print(f"Error: {error.message}{number}", file=sys.stderr)
    for name in _PLACE:
        if (value := getattr(error, name)) is not None:
            print(f"  {name + ':':10}{value}", file=sys.stderr)
    if error.hint:
        print(f"Try: {error.hint}", file=sys.stderr)
    named = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    print(f"See: docs/troubleshooting.md#{named.__name__.lower()}", file=sys.stderr)


def configuration(options: argparse.Namespace) -> Config:
    """The file's settings with the command line's on top. Raises ConfigError."""
    config = load(options.config) if options.config else Config()
    given = {
        "relay.path": options.relay,
        "target.path": options.target,
        "apply.workers": options.workers,
        "apply.writer": options.writer,
    }
    if not options.config:
        for name in ("relay", "target"):
            if getattr(options, name) is None:
                raise ConfigError(f"--{name} is missing", hint="give it, or --config FILE")
    config = config.override({key: value for key, value in given.items() if value is not None})
    config.check_supported()
    return _logged(config, options)


def _loaded(options: argparse.Namespace) -> Config:
    """The configuration of a command that can't do without a file. Raises ConfigError."""
    config = load(options.config)
    config.check_supported()
    return _logged(config, options)


def _logged(config: Config, options: argparse.Namespace) -> Config:
    """Has the log written as the command line says, or else the file."""
    if options.log_format:
        config = config.override({"observe.log_format": options.log_format})
    log_lines.log_as(config.observe.log_format)
    return config


def _apply(options: argparse.Namespace) -> int:
    config = configuration(options)
    from ..apply.replica import Replica
    from ..observe.progress import Progress
    from ..relay.log import open_log
    from ..runtime.session import build_session
    from ..schedule.stops import Until

    until = Until.parse(options.until) if options.until else None
    relay = open_log(config.relay.path)  # a wrong folder is an error before Spark starts
    if until is not None:
        until.check(relay)
    master = options.master or f"local[{config.apply.workers}]"
    spark = build_session(master=master, target=config.target.path)
    with Progress(config) as progress:
        replica = Replica(spark, config, progress.group, take_over=options.take_over, until=until)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: replica.stop())
        with replica:
            progress.begin(replica)
            result = replica.apply(follow=options.follow)
    inspect.print_result(result, options.json)
    return 0


def _run(options: argparse.Namespace) -> int:
    config = _loaded(options)
    from ..service.following import run

    result = run(config, options.config, master=options.master, take_over=options.take_over)
    if result is not None:
        inspect.print_result(result, options.json)
    return 0


def _snapshot(options: argparse.Namespace) -> int:
    config = _loaded(options)
    from ..service.following import snapshot

    if odd := [name for name in options.table if not all(name.partition("."))]:
        raise ConfigError(f"--table {odd[0]}: give DATABASE.TABLE, as the source has it")
    copied = snapshot(
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


def _verify(options: argparse.Namespace) -> int:
    from ..service.following import snapshot

    return verify_command.verify(options, snapshot)


def _receive(options: argparse.Namespace) -> int:
    config = _loaded(options)
    from ..receiver.report import has_said
    from ..service.following import receive

    try:
        received = receive(config, parent=options.supervised, from_end=options.from_end)
    except SparkReplError as error:
        if options.supervised and has_said(config.relay.path, error):
            return 1  # the supervisor says it
        raise
    inspect.emit(received, options.json)
    return 0


def _purge(options: argparse.Namespace) -> int:
    from ..control.control import Control
    from ..service.following import purge_applied

    config = load(options.config) if options.config else Config()
    target = inspect.target_of(options)
    Control.existing(target)
    purged = purge_applied(config.override({"relay.path": options.dir, "target.path": target}))
    if purged.warning:
        print(f"warning: {purged.warning}", file=sys.stderr)
    fields = {"files": list(purged.files), "bytes": purged.bytes}
    inspect.emit(fields | ({"warning": purged.warning} if purged.warning else {}), options.json)
    return 0


def _init(options: argparse.Namespace) -> int:
    from .init_command import init

    return init(options)


def _config_check(options: argparse.Namespace) -> int:
    from .config_command import check

    return check(options)


def _config_show(options: argparse.Namespace) -> int:
    from .config_command import show

    return show(options)


def _config_explain(options: argparse.Namespace) -> int:
    from .config_command import explain

    return explain(options)


def _setup(options: argparse.Namespace) -> int:
    from .setup import run

    return run(s3=options.s3, as_json=options.json)


def _demo(options: argparse.Namespace) -> int:
    from ..demo.bank_demo import run

    return run(options.keep, log=options.log, as_json=options.json)


def _bench_decode(options: argparse.Namespace) -> int:
    from ..bench.recorded import bench_decode

    inspect.emit(bench_decode(options.files), options.json)
    return 0


def _bench_receive(options: argparse.Namespace) -> int:
    from ..bench.live import bench_receive, bench_steady

    config = load(options.config)
    if options.steady:
        figures = bench_steady(config, options.config, options.steady, options.readers)
    else:
        figures = bench_receive(config, options.mysqlbinlog, options.runs, options.readers)
    inspect.emit(figures, options.json)
    return 0


def _bench_snapshot(options: argparse.Namespace) -> int:
    from ..bench.live import bench_snapshot

    config = load(options.config)
    config.check_supported()
    inspect.emit(bench_snapshot(config, options.runs), options.json)
    return 0


def _bench_latency(options: argparse.Namespace) -> int:
    from ..bench.live import bench_latency

    config = load(options.config)
    config.check_supported()
    inspect.emit(bench_latency(config, options.config, options.seconds), options.json)
    return 0


def _bench_endurance(options: argparse.Namespace) -> int:
    from ..bench.endurance import bench_endurance
    from ..schedule.stops import Until

    settings = {"workers": options.workers, "group_max_transactions": options.group_transactions}
    prepared = Until.parse(options.prepared)
    figures = bench_endurance(options.relay, settings, prepared, options.hours, options.rate)
    inspect.emit(figures, options.json)
    return 0


_RUN = {
    "setup": _setup,
    "init": _init,
    "config check": _config_check,
    "config show": _config_show,
    "config explain": _config_explain,
    "demo": _demo,
    "apply": _apply,
    "run": _run,
    "snapshot": _snapshot,
    "receive": _receive,
    "verify": _verify,
    "status": status_command.show_status,
    "report": report_command.report,
    "cut list": cut_command.list_cuts,
    "cut show": cut_command.show_cut,
    "cut pin": cut_command.pin_cut,
    "cut unpin": cut_command.unpin_cut,
    "cut export": cut_command.export_cut,
    "wait": wait_command.wait,
    "relay ls": inspect.list_relay,
    "relay dump": inspect.dump_relay,
    "relay verify": inspect.verify_relay,
    "relay purge": _purge,
    "skip": skip_command.skip,
    "xa list": xa_command.show,
    "xa commit": xa_command.end_by_hand,
    "xa rollback": xa_command.end_by_hand,
    "bench decode": _bench_decode,
    "bench receive": _bench_receive,
    "bench snapshot": _bench_snapshot,
    "bench latency": _bench_latency,
    "bench endurance": _bench_endurance,
    "bench ddl": bench_command.bench_ddl,
    "bench apply": bench_command.bench_apply,
}

if __name__ == "__main__":
    sys.exit(main())
