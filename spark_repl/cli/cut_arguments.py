"""What ``cut`` and ``wait`` take on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .arguments import Commands

Options = Callable[..., None]


def add(commands: Commands, options: Options) -> None:
    """Both commands; ``options`` adds the options that other commands share."""
    _cut(commands, options)
    wait = commands.add("wait")
    wait.add_argument(
        "--gtid", required=True, metavar="SET", help="transactions that a cut has to hold"
    )
    wait.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS",
        help="exit with code 1 after this time (default: 60)",
    )  # fmt: skip
    options(wait, ("--target", "--config", "--channel"))


def _cut(commands: Commands, options: Options) -> None:
    actions = commands.below("cut")
    options(actions.add("list", "all cuts, oldest first"), ("--target", "--config", "--channel"))
    show = actions.add("show", "one cut: the version of every table")
    export = actions.add("export", "one cut's places, schemas and files, for other engines")
    pin = actions.add("pin", "keep a cut until it is unpinned")
    for command in (show, export, pin):
        options(command, ("--target", "--config", "--channel"))
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
    options(unpin, ("--target", "--config", "--channel"))
    for command in (pin, unpin):
        command.add_argument("--name", required=True, help="letters, digits, _ . and -")
