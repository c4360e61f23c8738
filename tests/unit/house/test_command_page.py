"""docs/command-line.md: its part that is made from the parser has every command with its options.

``python -m tests.unit.house.test_command_page`` writes that part again.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from spark_repl.cli.argument_parser import parser
from spark_repl.cli.commands import EXAMPLES
from spark_repl.cli.main import _RUN

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"
BEGIN = "## Every option\n"


def commands(of: argparse.ArgumentParser, words: str = "") -> Iterator[tuple[str, list[str]]]:
    """(a command's words, a line for each of its options and arguments)."""
    inner = [a for a in of._actions if isinstance(a, argparse._SubParsersAction)]
    for action in inner:
        for name, one in action.choices.items():
            yield from commands(one, f"{words} {name}".strip())
    if not inner:
        yield words, [_line(action) for action in of._actions if _is_shown(action)]


def _is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and "--help" not in action.option_strings


def _line(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    if action.choices is not None and not action.metavar:
        value = "|".join(map(str, action.choices))
    shown = value if isinstance(value, str) else " ".join(value)
    shown = {"?": f"[{shown}]", "*": f"[{shown} ...]", "+": f"{shown} ..."}.get(
        str(action.nargs), shown
    )
    if action.option_strings:
        shown = " ".join(
            [", ".join(action.option_strings), *([shown] if action.nargs != 0 else [])]
        )
    text = " ".join(((action.help or "") % vars(action)).split()) if action.help else ""
    needed = " (required)" if action.option_strings and action.required else ""
    cells = f"`{shown}`", text + needed
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def page() -> str:
    """The part, from its heading to the page's end."""
    parts = [BEGIN, "Generated from the code. `--help` of each command prints the same text.\n"]
    for words, lines in commands(parser(_RUN)):
        example = f"    spark-repl {words} {EXAMPLES[words]}".rstrip() + "\n"
        parts.append(
            "\n".join([f"### {words}\n", example, "| option | |", "|---|---|", *lines]) + "\n"
        )
    return "\n".join(parts)


def test_the_page_has_every_option() -> None:
    """``python -m tests.unit.house.test_command_page`` makes that part again."""
    assert PAGE.read_text("utf-8").endswith("\n" + page())


def test_the_page_has_every_command() -> None:
    text = PAGE.read_text("utf-8")
    named = set()
    for cell in re.findall(r"^\| `([^`]+)`", text, re.MULTILINE):
        words = cell.replace("\\|", "|").split()
        named |= (
            {words[0], *(f"{words[0]} {word}" for word in words[1].split("|")[:3])}
            if len(words) > 1
            else {words[0]}
        )
    assert sorted(command for command in _RUN if command not in named) == []


if __name__ == "__main__":
    before = PAGE.read_text("utf-8").partition(BEGIN)[0]
    PAGE.write_text(before.rstrip("\n") + "\n\n" + page(), "utf-8")
