"""Arguments of the commands cut, wait, catalog, quarantine, init, config and verify."""

from __future__ import annotations

import argparse

from .commands import Commands, add_options


def add_cut_arguments(commands: Commands) -> None:
    """Add ``cut`` and ``wait``."""
    _cut(commands)
    wait = commands.add("wait")
    wait.add_argument(
        "--gtid", required=True, metavar="SET", help="transactions that a cut has to hold"
    )
    wait.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS",
        help="exit with code 1 after this time (default: 60)",
    )  # fmt: skip
    add_options(wait, ("--target", "--config", "--channel"))


def _cut(commands: Commands) -> None:
    actions = commands.below("cut")
    add_options(
        actions.add("list", "all cuts, oldest first"), ("--target", "--config", "--channel")
    )
    show = actions.add("show", "one cut: the version of every table")
    head = actions.add("head", "some rows of a table at a cut, read without Spark")
    head.add_argument("table", metavar="DB.TABLE", help="the table, as the target names it")
    head.add_argument(
        "-n", "--rows", type=int, default=10, metavar="N", help="most rows to show (default: 10)"
    )
    head.add_argument(
        "--where", default="", metavar="CONDITION", help="in SQL, over the table's columns"
    )
    export = actions.add("export", "one cut's places, schemas and files, for other engines")
    pin = actions.add("pin", "keep a cut until it is unpinned")
    for command in (show, head, export, pin):
        add_options(command, ("--target", "--config", "--channel"))
        command.add_argument(
            "--at", default="latest", metavar="GTID_SET|TIME|NAME|latest",
            help="the first cut that holds these transactions, the last one published by TIME, such"
            " as 2026-11-24T14:00:00Z, or a pinned one (default: latest)",
        )  # fmt: skip
    export.add_argument("--out", metavar="FILE", help="write to FILE instead of standard output")
    export.add_argument(
        "--quarantined", action="store_true", help="also tables in quarantine, as they were before"
    )
    export.add_argument("--pin", metavar="NAME", help="keep the cut until NAME is unpinned")
    unpin = actions.add("unpin", "let a cut go as any other of its age")
    add_options(unpin, ("--target", "--config", "--channel"))
    for command in (pin, unpin):
        command.add_argument("--name", required=True, help="letters, digits, _ . and -")
    publish = actions.add("publish", "show a cut as schemas of views in the catalog, and pin it")
    publish.add_argument(
        "--at", default="", metavar="GTID_SET|TIME|NAME|latest",
        help="as of cut show (default: the cut that is pinned as NAME, or latest)",
    )  # fmt: skip
    unpublish = actions.add("unpublish", "remove a published cut from the catalog, and its pin")
    for command in (publish, unpublish):
        command.add_argument(
            "--as", dest="name", required=True, metavar="NAME", help="letters, digits, _ . and -"
        )
        add_options(command, ("--config",), required=True)
        command.add_argument("--master", default="local[1]", metavar="URL", help="Spark master")


def add_catalog_arguments(commands: Commands) -> None:
    """Add ``catalog`` and its action."""
    sync = commands.below("catalog").add(
        "sync", "make the catalog equal to the newest cut, and print what differs"
    )
    add_options(sync, ("--config",), required=True)
    sync.add_argument("--dry-run", action="store_true", help="only print what differs")
    sync.add_argument(
        "--moved-from", default="", metavar="DIR",
        help="the target's former place: take its entries over, after target move",
    )  # fmt: skip
    sync.add_argument("--master", default="local[1]", metavar="URL", help="Spark master")


def add_quarantine_arguments(commands: Commands) -> None:
    """Add ``quarantine`` and its actions."""
    actions = commands.below("quarantine")
    for name, text in (
        ("list", "the tables that stand still, why, and how much is kept of each"),
        ("show", "the row changes that are kept of a table, decoded"),
        ("replay", "have them applied when the applier starts next"),
        ("drop", "have them forgotten when the applier starts next: the table lacks them"),
    ):
        command = actions.add(name, text)
        add_options(command, ("--target", "--config", "--channel"))
        if name != "list":
            command.add_argument("--table", required=True, metavar="DB.TABLE", help="the table")
        if name == "show":
            command.add_argument(
                "--rows",
                type=int,
                default=100,
                metavar="N",
                help="most rows to show (default: 100)",
            )


READERS = ("spark", "deltalake", "pandas", "polars", "duckdb")
PLACE_NAMES = (
    "laptop", "standalone", "kubernetes", "yarn", "emr", "glue", "databricks", "fabric", "dataproc"
)  # fmt: skip
_INIT_FILE = "replica.toml"
_INIT_FLAGS = (
    ("--host", "source_host", "HOST", "the MySQL server"),
    ("--socket", "source_socket", "PATH", "its Unix socket, instead of host and port"),
    ("--user", "source_user", "NAME", "the account on the server"),
    ("--password-env", "source_password_env", "NAME", "environment variable with the password"),
    ("--password-file", "source_password_file", "FILE", "file with the password"),
    (
        "--password-command",
        "source_password_command",
        "COMMAND",
        "command that prints the password",
    ),
    ("--tls", "source_tls", "MODE", "value of source.tls"),
    ("--tls-ca", "source_tls_ca", "FILE", "PEM file of the certificates' authority"),
    ("--relay", "relay_path", "DIR", "folder of the received log"),
    (
        "--target",
        "target_path",
        "DIR",
        "where the tables go, a folder, or s3://, gs:// or abfss://",
    ),
    ("--channel", "channel", "NAME", "part of each commit's appId"),
)
PASSWORD_VARIABLE = "SPARK_REPL_PASSWORD"
"""the environment variable that has the password, if the options name no other place"""
_PORT = "the server's port"
_INIT_NUMBERS = (
    ("--server-id", "source_server_id", "unique id of this replica (default: one that is free)"),
    ("--workers", "apply_workers", "partitions that decode and write side by side"),
)


def add_source_arguments(command: argparse._ActionsContainer) -> None:
    """Add the options that name a server and an account on it."""
    for flag, key, metavar, text in _INIT_FLAGS:
        if key.startswith("source_"):
            command.add_argument(flag, dest=key, metavar=metavar, help=text)
    command.add_argument("--port", dest="source_port", type=int, metavar="N", help=_PORT)


def add_setup_arguments(commands: Commands) -> None:
    """Add ``init`` and ``config``."""
    init = commands.add("init")
    init.add_argument(
        "--config",
        default=_INIT_FILE,
        metavar="FILE",
        help=f"the file to write (default: {_INIT_FILE})",
    )
    init.add_argument("--force", action="store_true", help="replace an existing file")
    _on(init, "where it will run: writes the files for that place also (default: laptop)")
    init.add_argument("--offline", action="store_true", help="do not connect to the source")
    init.add_argument(
        "--plan", action="store_true", help="only show what run would copy; write nothing"
    )
    init.add_argument(
        "--database", action="append", dest="filters_do_db", metavar="DB",
        help="replicate only this database; may be repeated",
    )  # fmt: skip
    init.add_argument(
        "--reader",
        action="append",
        choices=READERS,
        metavar="READER",
        help="an engine that will read the tables; may be repeated (default: spark). One of "
        f"{', '.join(READERS)}",
    )
    add_source_arguments(init)
    for flag, key, metavar, text in _INIT_FLAGS:
        if not key.startswith("source_"):
            init.add_argument(flag, dest=key, metavar=metavar, help=text)
    for flag, key, text in _INIT_NUMBERS:
        init.add_argument(flag, dest=key, type=int, metavar="N", help=text)
    _config(commands)


def _on(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument(
        "--on", choices=PLACE_NAMES, metavar="PLACE",
        help=f"{text}. One of {', '.join(PLACE_NAMES)}",
    )  # fmt: skip


def _config(commands: Commands) -> None:
    actions = commands.below("config")
    check = actions.add("check", "report all faults at once")
    add_options(
        check, ("--config",), required=True, action="append",
        help="TOML file; repeat it for channels that run side by side on this host",
    )  # fmt: skip
    check.add_argument("--source", action="store_true", help="examine the source also")
    _on(check, "report also what this place refuses")
    explain = actions.add("explain", "show which rules decide about a table")
    explain.add_argument("table", metavar="DB.TABLE", help="the table, as the source logs its name")
    add_options(explain, ("--config",), required=True)
    show: argparse.ArgumentParser = actions.add(
        "show", "show each key's value, and where it is from"
    )
    add_options(show, ("--config", "--relay", "--target", "--workers"))


def add_verify_arguments(commands: Commands) -> argparse.ArgumentParser:
    """Add ``verify``, and return its parser, which gets the shared arguments later."""
    verify = commands.add("verify")
    verify.add_argument(
        "--table", metavar="DB.TABLE", action="append", default=[],
        help="compare only this table; may be repeated (default: all)",
    )  # fmt: skip
    verify.add_argument(
        "--sample", metavar="P", type=_percent,
        help="compare about P percent of each table's rows, the same ones each time",
    )  # fmt: skip
    verify.add_argument(
        "--between", nargs=2, metavar=("CUT", "CUT2"),
        help="compare two cuts, named as for cut show --at, without the source",
    )  # fmt: skip
    verify.add_argument(
        "--repair", action="store_true", help="make rows that differ equal to the source's"
    )
    for name, kind, text in (
        ("connections", int, "key ranges that are read side by side (default: apply.workers)"),
        ("rows-per-second", int, "most rows to read from the source a second (default: no limit)"),
        ("wait", float, "seconds to wait for a cut that holds all that was read (default: 300)"),
        ("show", int, "most rows to name (default: 100)"),
    ):
        verify.add_argument(f"--{name}", type=kind, metavar="N", help=text)
    verify.add_argument("--supervised", type=int, default=0, help=argparse.SUPPRESS)
    return verify


def _percent(text: str) -> float:
    """Return the number of "1 %", "1%" or "1". Raise ArgumentTypeError if it is not a
    percentage."""
    percent = float(text.removesuffix("%"))
    if not 0 < percent <= 100:
        raise argparse.ArgumentTypeError(f"{text}: give more than 0, and at most 100 (percent)")
    return percent


_percent.__name__ = "percentage"
