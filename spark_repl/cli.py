"""The command line. Exit 0: done, 1: stopped by an error, 2: bad usage or configuration."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from . import inspect, xa_command
from .config import Apply, Config, load
from .errors import ConfigError, SetupError, SparkReplError

_PLACE = ("file", "position", "gtid", "table")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO if getattr(options, "verbose", False) else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    # It says with a traceback how a batch ended, also that --until was reached.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
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
    """``Error:`` what and where, ``Try:`` what to do, on standard error."""
    number = f" (MySQL error {error.number})" if error.number else ""
    print(f"Error: {error.message}{number}", file=sys.stderr)
    for name in _PLACE:
        if (value := getattr(error, name)) is not None:
            print(f"  {name + ':':10}{value}", file=sys.stderr)
    if error.hint:
        print(f"Try: {error.hint}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spark-repl", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, parent: Any = commands) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = parent.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="one JSON object as the last line")
        return made

    demo = command("demo", _demo, "the main job on a recorded MySQL log, with two kills")
    demo.add_argument("--keep", metavar="DIR", help="where to leave the tables (default: new)")
    demo.add_argument("--log", metavar="DIR", help="another recording of the bank")
    apply = command("apply", _apply, "apply a folder of MySQL binary logs to Delta tables")
    apply.add_argument("--relay", metavar="DIR", help="folder of log files, or one file")
    apply.add_argument("--target", metavar="DIR", help="folder of the Delta tables")
    apply.add_argument("--config", metavar="FILE", help="TOML file, see conf/replica.toml")
    apply.add_argument("--workers", type=int, metavar="N")
    apply.add_argument("--writer", choices=("direct", "merge"))
    apply.add_argument(
        "--until", metavar="U", help="before-gtids:SET, after-gtids:SET, source|relay:FILE:POS"
    )
    apply.add_argument("--follow", action="store_true", help="stay, and wait for what is appended")
    apply.add_argument("--master", help="Spark master (default: local[WORKERS])")
    apply.add_argument("--take-over", action="store_true", help="the other applier's host is gone")
    apply.add_argument("--verbose", action="store_true")
    _live(command)
    status = command("status", inspect.show_status, "one look at the applier and its tables")
    _target_options(status)
    status.add_argument("--metrics", action="store_true", help="in Prometheus' text format")
    skip = command("skip", inspect.skip, "a transaction that is to be left out, recorded")
    skip.add_argument("--gtid", required=True, metavar="GTID", help="or a set of them")
    skip.add_argument("--target", required=True, metavar="DIR")
    _xa(command, commands)
    cut = commands.add_parser("cut", help="points at which all tables can be read together")
    cuts = cut.add_subparsers(dest="action", required=True, metavar="ACTION")
    _target_options(command("list", inspect.list_cuts, "all cuts, oldest first", cuts))
    show = command("show", inspect.show_cut, "one cut: the version of every table", cuts)
    _target_options(show)
    show.add_argument("--at", default="latest", metavar="GTID_SET|latest")
    relay = commands.add_parser("relay", help="look into log files")
    actions = relay.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, run, text in (
        ("ls", inspect.list_relay, "files, their servers and transactions"),
        ("dump", inspect.dump_relay, "every event"),
        ("verify", inspect.verify_relay, "checksums and transaction boundaries"),
    ):
        command(name, run, text, actions).add_argument("dir", metavar="DIR")
    purge = command("purge", _purge, "removes the files that every table has passed", actions)
    purge.add_argument("dir", metavar="DIR")
    _target_options(purge)
    _bench(command, commands)
    return parser


def _xa(command: Any, commands: Any) -> None:
    xa = commands.add_parser("xa", help="prepared XA branches")
    branches = xa.add_subparsers(dest="action", required=True, metavar="ACTION")
    shown = command(
        "list", xa_command.show, "prepared branches, as XA RECOVER shows them", branches
    )
    shown.add_argument("--target", required=True, metavar="DIR")
    for name, text in (
        ("commit", "end an orphan by hand: its rows appear when the applier starts next"),
        ("rollback", "end an orphan by hand: its rows never appear"),
    ):
        ended = command(name, xa_command.end_by_hand, text, branches)
        ended.add_argument("--target", required=True, metavar="DIR")
        ended.add_argument("--xid", required=True, metavar="GTRID[,BQUAL[,FORMAT_ID]]", help="hex")


def _live(command: Any) -> None:
    """The commands that talk to a server."""
    run = command("run", _run, "follow a live MySQL server, until stopped (SIGTERM)")
    copy = command("snapshot", _snapshot, "the first copy of all tables into an empty target")
    copy.add_argument("--table", metavar="DB.TABLE", action="append", default=[])
    receive = command("receive", _receive, "the receiver alone: from the server to the relay log")
    receive.add_argument("--supervised", type=int, default=0, help=argparse.SUPPRESS)
    receive.add_argument("--from-end", action="store_true", help=argparse.SUPPRESS)
    for parser in (run, copy, receive):
        parser.add_argument("--config", metavar="FILE", required=True)
        parser.add_argument("--verbose", action="store_true")
    for parser in (run, copy):
        parser.add_argument("--master", help="Spark master (default: local[WORKERS])")
        parser.add_argument("--take-over", action="store_true", help="the other host is gone")


def _bench(command: Any, commands: Any) -> None:
    bench = commands.add_parser("bench", help="what this machine does")
    kinds = bench.add_subparsers(dest="action", required=True, metavar="WHAT")
    command("decode", _bench_decode, "decode log files, no Spark", kinds).add_argument(
        "files", nargs="+", metavar="FILE"
    )
    receive = command("receive", _bench_receive, "the source's whole log, to a folder", kinds)
    receive.add_argument("--config", required=True, metavar="FILE")
    receive.add_argument("--mysqlbinlog", default="", metavar="PATH", help="compare with its --raw")
    receive.add_argument("--runs", type=int, default=1, help="the best one counts")
    receive.add_argument(
        "--steady", type=int, default=0, metavar="SECONDS",
        help="instead: from the source's commit to the published end, under its own load",
    )  # fmt: skip
    copy = command("snapshot", _bench_snapshot, "copy all tables into fresh targets", kinds)
    copy.add_argument("--config", required=True, metavar="FILE")
    copy.add_argument("--runs", type=int, default=2, help="the first one is cold")
    latency = command(
        "latency", _bench_latency, "from the source's commit to the cut, under its own load", kinds
    )
    latency.add_argument("--config", required=True, metavar="FILE")
    latency.add_argument("--seconds", type=int, default=60)
    apply = command("apply", _bench_apply, "apply a log into fresh targets", kinds)
    apply.add_argument("--prepared", metavar="U", help="as apply --until: not timed up to there")
    apply.add_argument(
        "--fresh-index", action="store_true", help="behind it the key index is made anew, timed"
    )
    apply.add_argument("--relay", required=True, metavar="DIR")
    usual = Apply()
    apply.add_argument("--workers", type=int, default=usual.workers)
    apply.add_argument("--runs", type=int, default=2, help="the last one is warm")
    apply.add_argument("--group-rows", type=int, default=usual.group_max_rows)
    apply.add_argument("--group-transactions", type=int, default=usual.group_max_transactions)
    apply.add_argument("--group-bytes", type=int, default=usual.group_max_bytes)
    apply.add_argument("--writer", choices=("direct", "merge"), default="direct")


def _target_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", metavar="DIR")
    parser.add_argument("--config", metavar="FILE")


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
    return config


def _apply(options: argparse.Namespace) -> int:
    config = configuration(options)
    from .progress import Progress
    from .relay.log import open_log
    from .replica import Replica
    from .session import build_session
    from .stops import Until

    until = Until.parse(options.until) if options.until else None
    relay = open_log(config.relay.path)  # a wrong folder is said before Spark starts
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
    config = load(options.config)
    config.check_supported()
    from .live import run

    result = run(config, options.config, master=options.master, take_over=options.take_over)
    if result is not None:
        inspect.print_result(result, options.json)
    return 0


def _snapshot(options: argparse.Namespace) -> int:
    config = load(options.config)
    config.check_supported()
    from .live import snapshot

    if odd := [name for name in options.table if not all(name.partition("."))]:
        raise ConfigError(f"--table {odd[0]}: give DATABASE.TABLE, as the source has it")
    found = snapshot(
        config, tuple(options.table), master=options.master, take_over=options.take_over
    )
    if not found.seconds:
        print("Nothing was copied: the first copy is done already", file=sys.stderr)
    said = {
        "tables": found.tables,
        "rows": found.rows,
        "seconds": round(found.seconds, 3),
        "rows_per_s": found.rows_per_s,
        "start": str(found.start),
        "high_water_mark": str(found.until),
    }
    inspect.emit(said, options.json)
    return 0


def _receive(options: argparse.Namespace) -> int:
    config = load(options.config)
    config.check_supported()
    from .live import receive
    from .relay.report import has_said

    try:
        found = receive(config, parent=options.supervised, from_end=options.from_end)
    except SparkReplError as error:
        if options.supervised and has_said(config.relay.path, error):
            return 1  # the supervisor says it
        raise
    inspect.emit(found, options.json)
    return 0


def _purge(options: argparse.Namespace) -> int:
    from .live import purge_applied
    from .sink.control import Control

    config = load(options.config) if options.config else Config()
    target = inspect.target_of(options)
    Control.existing(target)
    found = purge_applied(config.override({"relay.path": options.dir, "target.path": target}))
    inspect.emit({"files": list(found.files), "bytes": found.bytes}, options.json)
    return 0


def _demo(options: argparse.Namespace) -> int:
    from .demo.bank_demo import run

    return run(options.keep, log=options.log, as_json=options.json)


def _bench_decode(options: argparse.Namespace) -> int:
    from .bench import bench_decode

    inspect.emit(bench_decode(options.files), options.json)
    return 0


def _bench_receive(options: argparse.Namespace) -> int:
    from .bench_live import bench_receive, bench_steady

    config = load(options.config)
    if options.steady:
        found = bench_steady(config, options.config, options.steady)
    else:
        found = bench_receive(config, options.mysqlbinlog, options.runs)
    inspect.emit(found, options.json)
    return 0


def _bench_snapshot(options: argparse.Namespace) -> int:
    from .bench_live import bench_snapshot

    config = load(options.config)
    config.check_supported()
    inspect.emit(bench_snapshot(config, options.runs), options.json)
    return 0


def _bench_latency(options: argparse.Namespace) -> int:
    from .bench_live import bench_latency

    config = load(options.config)
    config.check_supported()
    inspect.emit(bench_latency(config, options.config, options.seconds), options.json)
    return 0


def _bench_apply(options: argparse.Namespace) -> int:
    from .bench import bench_apply
    from .stops import Until

    if options.fresh_index and not options.prepared:
        raise ConfigError("--fresh-index needs --prepared: a new target has no index")
    settings = {
        "workers": options.workers,
        "writer": options.writer,
        "group_max_rows": options.group_rows,
        "group_max_transactions": options.group_transactions,
        "group_max_bytes": options.group_bytes,
    }
    prepared = Until.parse(options.prepared) if options.prepared else None
    found = bench_apply(
        options.relay, settings, options.runs, prepared, fresh_index=options.fresh_index
    )
    inspect.emit(found, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
