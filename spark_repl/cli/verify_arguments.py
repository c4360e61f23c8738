"""What ``verify`` takes on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .arguments import Commands


def add(commands: Commands) -> argparse.ArgumentParser:
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
    """The number in "1 %", "1%" or "1"."""
    percent = float(text.removesuffix("%"))
    if not 0 < percent <= 100:
        raise argparse.ArgumentTypeError(f"{text}: give more than 0, and at most 100 (percent)")
    return percent


_percent.__name__ = "percentage"
