"""The parser of the command line, with the texts of ``--help``.

``cli.main`` calls ``parser`` with the function of each command. Here are only names, help texts,
defaults and the checks that argparse makes; the commands' modules check the rest. Options that
several commands have come from ``cli.commands``, with one text each, and so do the groups of the
help. A wrong command line ends the process with exit code 2, before the module of a command is
imported. docs/command-line.md describes the commands for users.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from .. import __version__
from ..config import Apply
from .command_arguments import (
    add_catalog_arguments,
    add_cut_arguments,
    add_quarantine_arguments,
    add_setup_arguments,
    add_source_arguments,
    add_verify_arguments,
)
from .commands import GROUPS, Commands, Parser, add_options

_ABOUT = "Keeps Delta Lake tables equal to a MySQL server's, from its binary log."
_EXAMPLES = """\
Examples:
  spark-repl setup
  spark-repl demo
  spark-repl apply --relay /var/log/mysql --target lake
  spark-repl apply --relay /var/log/mysql --target s3://bucket/lake --follow
  spark-repl init --config my.toml
  spark-repl run --config my.toml
  spark-repl status --target lake
  spark-repl cut show --at latest --target lake
  spark-repl relay verify /var/log/mysql

spark-repl COMMAND --help lists a command's options.
Exit code 0: done; 1: stopped by an error of log, target or data; 2: bad usage or configuration."""


def parser(run: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser. ``run``: the function of each command, by its words ("cut list")."""
    lines = [""]
    for title, group in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:11}{text}" for name, text in group.items()), ""]
    root = Parser(
        prog="spark-repl",
        usage="%(prog)s [--version] [--help] COMMAND ...",
        description=_ABOUT + "\n" + "\n".join(lines).rstrip(),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = Commands(root, run)
    for add in (
        _setup,
        _demo,
        _apply,
        _relay,
        _live,
        _status,
        _report,
        _reset,
        _target,
        _skip,
        _xa,
        _bench,
    ):
        add(commands)
    add_cut_arguments(commands)
    add_catalog_arguments(commands)
    add_quarantine_arguments(commands)
    add_setup_arguments(commands)
    return root


def _setup(commands: Commands) -> None:
    setup = commands.add("setup")
    setup.add_argument(
        "--delta",
        action="store_true",
        help="fetch the jars that this Spark needs to read the tables",
    )
    setup.add_argument(
        "--s3", action="store_true", help="fetch these jars and the ones for tables on S3"
    )


def _demo(commands: Commands) -> None:
    demo = commands.add("demo")
    demo.add_argument(
        "--keep", metavar="DIR", help="folder that keeps the tables (default: a new one)"
    )
    demo.add_argument(
        "--target", metavar="DIR", default="",
        help="where the tables go, a folder, or s3://, gs:// or abfss:// (default: in DIR of"
        " --keep)",
    )  # fmt: skip
    demo.add_argument("--log", metavar="DIR", help="folder with another recording of the bank")
    live = demo.add_argument_group("with --live")
    live.add_argument(
        "--live", action="store_true",
        help="show a running MySQL server's rows arrive, with a page and a prompt, on an own server"
        " (SPARK_REPL_MYSQL, or mysqld of PATH) or the one that the next options name",
    )  # fmt: skip
    live.add_argument(
        "--database", default="", metavar="NAME",
        help="database to create on the named server, which stays there",
    )  # fmt: skip
    add_source_arguments(live)


def _apply(commands: Commands) -> None:
    apply = commands.add("apply")
    add_options(apply, ("--relay", "--target", "--config", "--workers"))
    apply.add_argument(
        "--until",
        metavar="U",
        help="end at U: after-gaps, before-gtids:SET, after-gtids:SET, source:FILE:POS or"
        " relay:FILE:POS",
    )
    apply.add_argument(
        "--from-here", action="store_true",
        help="accept a log without the source's first transactions: the tables lack their rows",
    )  # fmt: skip
    apply.add_argument("--follow", action="store_true", help="wait for new transactions")
    add_options(apply, ("--master", "--take-over", "--verbose", "--log-format"))


def _relay(commands: Commands) -> None:
    actions = commands.below("relay")
    for name, text in (
        ("ls", "files, their servers and transactions"),
        ("dump", "every event"),
        ("verify", "check checksums and transaction boundaries"),
        ("purge", "remove the files that every table has passed"),
    ):
        command = actions.add(name, text)
        command.add_argument("dir", metavar="DIR", help="folder of log files, one file, or archive")
        if name == "purge":
            add_options(command, ("--target", "--config", "--channel"))


def _live(commands: Commands) -> None:
    """Add the commands that connect to a server."""
    run, copy, receive = (commands.add(name) for name in ("run", "snapshot", "receive"))
    copy.add_argument(
        "--table", metavar="DB.TABLE", action="append", default=[],
        help="copy this table again, by a running run or for its next start; may be repeated",
    )  # fmt: skip
    receive.add_argument("--supervised", type=int, default=0, help=argparse.SUPPRESS)
    receive.add_argument("--refusal", default="", help=argparse.SUPPRESS)
    receive.add_argument("--from-end", action="store_true", help=argparse.SUPPRESS)
    verify = add_verify_arguments(commands)
    add_options(
        run, ("--config",), required=True, action="append",
        help="TOML file; repeat it for each channel of this process",
    )  # fmt: skip
    for command in (copy, receive, verify):
        add_options(command, ("--config",), required=True)
    for command in (run, copy, receive, verify):
        add_options(command, ("--verbose", "--log-format"))
    for command in (run, copy):
        add_options(command, ("--master", "--take-over"))
    here = "read and compare on this Spark master (default: threads of this process)"
    add_options(verify, ("--master",), help=here)


def _status(commands: Commands) -> None:
    status = commands.add("status")
    add_options(status, ("--target", "--config", "--channel"))
    status.add_argument(
        "--short", action="store_true", help="only the first lines: running, behind, wrong, doing"
    )
    status.add_argument("--metrics", action="store_true", help="in Prometheus' text format")
    status.add_argument(
        "--watch", nargs="?", type=_seconds, const=2.0, metavar="SECONDS",
        help="repeat every SECONDS (default: 2) until Ctrl-C",
    )  # fmt: skip


def _report(commands: Commands) -> None:
    report = commands.add("report")
    report.add_argument("--out", required=True, metavar="FILE", help="the file to write")
    add_options(report, ("--target", "--config", "--channel"))


def _seconds(text: str) -> float:
    if not 0.1 <= float(text) <= 86400:  # no NaN either
        raise ValueError
    return float(text)


def _reset(commands: Commands) -> None:
    reset = commands.add("reset")
    which = reset.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--table", metavar="DB.TABLE", action="append", default=[],
        help="copy this table again, earlier cuts keep it; may be repeated",
    )  # fmt: skip
    which.add_argument("--all", action="store_true", help="remove all of the channel's tables")
    reset.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    add_options(reset, ("--config",), required=True)
    add_options(reset, ("--take-over", "--verbose", "--log-format"))


def _target(commands: Commands) -> None:
    move = commands.below("target").add(
        "move", "copy tables, cuts, pins, history and positions; the applier goes on there"
    )
    move.add_argument("source", metavar="FROM", help="where the tables are, a folder or a URI")
    move.add_argument("to", metavar="TO", help="an empty place: s3://, gs:// or abfss://")
    add_options(move, ("--take-over", "--verbose", "--log-format"))


def _skip(commands: Commands) -> None:
    skip = commands.add("skip")
    skip.add_argument("--gtid", required=True, metavar="GTID", help="one transaction, or a set")
    add_options(skip, ("--target", "--config", "--channel"))


def _xa(commands: Commands) -> None:
    branches = commands.below("xa")
    for name, text in (
        ("list", "prepared branches, as XA RECOVER shows them"),
        ("commit", "end an orphan by hand: its rows appear when the applier starts next"),
        ("rollback", "end an orphan by hand: its rows never appear"),
    ):
        command = branches.add(name, text)
        add_options(command, ("--target", "--config", "--channel"))
        if name != "list":
            command.add_argument(
                "--xid", required=True, metavar="GTRID[,BQUAL[,FORMAT_ID]]",
                help="the branch, in hex as xa list shows it",
            )  # fmt: skip


def _bench(commands: Commands) -> None:
    kinds = commands.below("bench")
    decode = kinds.add("decode", "decode log files, without Spark")
    decode.add_argument("files", nargs="+", metavar="FILE", help="binary log files")
    receive = kinds.add("receive", "the source's whole log, to a folder")
    add_options(receive, ("--config",), required=True)
    add_options(receive, ("--runs",), default=1, help="number of runs; reports the best")
    receive.add_argument(
        "--readers",
        type=int,
        default=0,
        metavar="N",
        help="number of processes that follow the log meanwhile",
    )
    receive.add_argument(
        "--mysqlbinlog", default="", metavar="PATH", help="compare with mysqlbinlog --raw"
    )
    receive.add_argument(
        "--steady", type=int, default=0, metavar="SECONDS",
        help="measure instead from the source's commit to the published end, under its own load",
    )  # fmt: skip
    copy = kinds.add("snapshot", "copy all tables into fresh targets")
    add_options(copy, ("--config",), required=True)
    add_options(copy, ("--runs",), default=2, help="number of runs; the first one is cold")
    latency = kinds.add("latency", "from the source's commit to the cut, under its own load")
    add_options(latency, ("--config",), required=True)
    latency.add_argument(
        "--seconds", type=int, default=60, metavar="N", help="how long to measure (default: 60)"
    )
    ddl = kinds.add("ddl", "what statements cost, on a log that is made for it")
    ddl.add_argument(
        "--statements",
        type=int,
        default=1000,
        metavar="N",
        help="number of statements (default: 1000)",
    )
    ddl.add_argument(
        "--tables", type=int, default=10, metavar="N", help="number of tables (default: 10)"
    )
    ddl.add_argument(
        "--rows", type=int, default=0, metavar="N", help="also rewrite a table of N rows"
    )
    add_options(ddl, ("--workers",), default=Apply().workers)
    _bench_endurance(kinds.add("endurance", "what a target that is days or weeks old costs"))
    _bench_apply(kinds.add("apply", "apply a log into fresh targets"))


def _bench_endurance(endurance: argparse.ArgumentParser) -> None:
    usual = Apply()
    add_options(endurance, ("--relay", "--target"))
    add_options(endurance, ("--workers",), default=usual.workers)
    for name, default, text in (
        ("--age-days", 30.0, "age of the target"),
        ("--rate", 500.0, "transactions a second after that"),
    ):
        endurance.add_argument(
            name, type=float, default=default, metavar="N", help=f"{text} (default: {default:g})"
        )
    for name, count, text in (
        ("--commits-per-day", 150_000, "commits a day during that age, over all tables"),
        ("--group-transactions", usual.group_max_transactions, "most transactions in a group"),
    ):
        endurance.add_argument(
            name, type=int, default=count, metavar="N", help=f"{text} (default: {count})"
        )
    endurance.add_argument(
        "--prepared", default="", metavar="POSITION",
        help="see bench apply; required with --relay (default: of the recorded bank)",
    )  # fmt: skip


def _bench_apply(apply: argparse.ArgumentParser) -> None:
    usual = Apply()
    add_options(apply, ("--relay",), required=True)
    add_options(apply, ("--target",))
    add_options(apply, ("--workers",), default=usual.workers)
    add_options(apply, ("--master",))
    add_options(apply, ("--runs",), default=2, help="number of runs; the last one is warm")
    apply.add_argument(
        "--prepared",
        metavar="U",
        help="position as of apply --until; the log before it is not timed",
    )
    apply.add_argument(
        "--fresh-index",
        action="store_true",
        help="remove the key index at U, and time its rebuild with the rest",
    )
    apply.add_argument(
        "--do-table",
        action="append",
        metavar="DB.TABLE",
        help="filters keep only this table; may be repeated",
    )
    for name, most in (
        ("rows", usual.group_max_rows),
        ("transactions", usual.group_max_transactions),
        ("bytes", usual.group_max_bytes),
    ):
        text = f"bound of a group (default: {most:,})"
        apply.add_argument(f"--group-{name}", type=int, default=most, metavar="N", help=text)
