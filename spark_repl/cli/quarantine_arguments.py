"""What ``quarantine`` takes on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .arguments import Commands

Options = Callable[..., None]


def add(commands: Commands, options: Options) -> None:
    """``options`` adds the options that other commands share."""
    actions = commands.below("quarantine")
    for name, text in (
        ("list", "the tables that stand still, why, and how much is kept of each"),
        ("show", "the row changes that are kept of a table, decoded"),
        ("replay", "have them applied when the applier starts next"),
        ("drop", "have them forgotten when the applier starts next: the table lacks them"),
    ):
        command = actions.add(name, text)
        options(command, ("--target", "--config", "--channel"))
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
