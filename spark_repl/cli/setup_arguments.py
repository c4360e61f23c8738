"""What ``init`` and ``config`` take on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .arguments import Commands

Options = Callable[..., None]
_FILE = "replica.toml"
_FLAGS = (
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
_NUMBERS = (
    ("--port", "source_port", "the server's port"),
    ("--server-id", "source_server_id", "unique id of this replica (default: one that is free)"),
    ("--workers", "apply_workers", "partitions that decode and write side by side"),
)


def add(commands: Commands, options: Options) -> None:
    """Both commands; ``options`` adds the options that other commands share."""
    init = commands.add("init")
    init.add_argument(
        "--config", default=_FILE, metavar="FILE", help=f"the file to write (default: {_FILE})"
    )
    init.add_argument("--force", action="store_true", help="replace an existing file")
    init.add_argument("--offline", action="store_true", help="do not connect to the source")
    for flag, key, metavar, text in _FLAGS:
        init.add_argument(flag, dest=key, metavar=metavar, help=text)
    for flag, key, text in _NUMBERS:
        init.add_argument(flag, dest=key, type=int, metavar="N", help=text)
    _config(commands, options)


def _config(commands: Commands, options: Options) -> None:
    actions = commands.below("config")
    check = actions.add("check", "report all faults at once")
    options(
        check, ("--config",), required=True, action="append",
        help="TOML file; repeat it for channels that run side by side on this host",
    )  # fmt: skip
    check.add_argument("--source", action="store_true", help="examine the source also")
    explain = actions.add("explain", "show which rules decide about a table")
    explain.add_argument("table", metavar="DB.TABLE", help="the table, as the source logs its name")
    options(explain, ("--config",), required=True)
    show: argparse.ArgumentParser = actions.add(
        "show", "show each key's value, and where it is from"
    )
    options(show, ("--config", "--relay", "--target", "--workers"))
