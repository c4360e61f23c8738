"""Commands: their texts in ``--help``, their parsers, and the options that several of them have."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NoReturn, TypedDict, Unpack

from ..config import Apply

# The commands as --help lists them.
GROUPS: dict[str, dict[str, str]] = {
    "To see it work": {
        "setup": "once: check Java, make later starts quick; fetch jars for reading tables",
        "demo": "apply a recorded bank's log, with two kills, and check every cut",
    },
    "From a folder of log files": {
        "apply": "apply a folder of MySQL binary logs to Delta tables",
        "relay": "inspect log files: ls, dump, verify, purge",
    },
    "From a live server": {
        "init": "examine the server, write a configuration for it",
        "config": "faults of a configuration, its values, its rules: check, show, explain",
        "run": "copy all tables, then follow the server, until SIGTERM",
        "snapshot": "copy tables: all of them, or some again",
        "receive": "run only the receiver: from the server to the relay log",
        "verify": "compare the server's rows with the tables', while both change",
    },
    "What is there": {
        "status": "how far the applier is, and what it is doing",
        "report": "write the status, with its past, as one HTML file",
        "cut": "moments at which all tables can be read together: list, show, head, pin, publish",
        "wait": "wait until a cut holds a set of transactions",
        "catalog": "tables' names in a catalog: sync",
    },
    "By hand": {
        "reset": "begin again with all tables, or some: list what is removed, and remove it",
        "target": "move a target to an object store: move",
        "skip": "leave out a transaction, on record",
        "xa": "prepared XA branches: list, commit, rollback",
        "quarantine": "changes that could not be applied: list, show, replay, drop",
    },
    "How fast is it here": {
        "bench": "measure decode, apply, ddl, receive, snapshot, latency, endurance",
    },
}
_SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
# Command -> an example, as its --help shows it.
EXAMPLES = {
    "setup": "",
    "demo": "--keep demo-out",
    "apply": "--relay relay --target lake",
    "relay ls": "relay",
    "relay dump": "relay",
    "relay verify": "relay",
    "relay purge": "relay --target lake",
    "init": "--plan --config my.toml --host db.example.com --user repl",
    "config check": "--source --config my.toml",
    "config show": "--config my.toml",
    "config explain": "shop.orders --config my.toml",
    "run": "--config my.toml",
    "snapshot": "--table shop.orders --config my.toml",
    "receive": "--config my.toml",
    "verify": "--table shop.orders --config my.toml",
    "status": "--short --config my.toml",
    "report": "--out report.html --target lake",
    "cut list": "--target lake",
    "cut show": "--at latest --target lake",
    "cut head": "shop.orders -n 5 --target lake",
    "cut export": "--out cut.json --target lake",
    "cut pin": "--name month_end --target lake",
    "cut unpin": "--name month_end --target lake",
    "cut publish": "--as month_end --config my.toml",
    "cut unpublish": "--as month_end --config my.toml",
    "wait": f"--gtid {_SERVER}:1-5 --timeout 60 --target lake",
    "catalog sync": "--dry-run --config my.toml",
    "reset": "--table shop.orders --dry-run --config my.toml",
    "target move": "lake s3://bucket/lake",
    "skip": f"--gtid {_SERVER}:6 --target lake",
    "xa list": "--target lake",
    "xa commit": "--xid 6f72646572 --target lake",
    "xa rollback": "--xid 6f72646572 --target lake",
    "quarantine list": "--target lake",
    "quarantine show": "--table shop.orders --target lake",
    "quarantine replay": "--table shop.orders --target lake",
    "quarantine drop": "--table shop.orders --target lake",
    "bench decode": "log/binlog.000001",
    "bench receive": "--runs 3 --config my.toml",
    "bench snapshot": "--runs 2 --config my.toml",
    "bench latency": "--seconds 30 --config my.toml",
    "bench ddl": "--statements 300 --tables 4",
    "bench endurance": "--age-days 1",
    "bench apply": "--relay relay --runs 2",
}
_WIDTH = 78
_UNKNOWN = re.compile(r"argument (?:COMMAND|ACTION): invalid choice: '(.*)' \(choose from (.*)\)")
_HELP = {name: text for group in GROUPS.values() for name, text in group.items()}


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest command or option for an unknown one."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does. Exit with code 2 for an option that this command lacks."""
        words = sys.argv[1:] if args is None else args
        if self._subparsers is not None:  # the command's own parser checks what follows it
            words = takewhile(lambda word: word.startswith("-"), words)
        self._check_options(words)
        return super().parse_known_args(args, namespace)

    def _check_options(self, words: Iterable[str]) -> None:
        """Look for unknown options first: argparse would report only what is missing instead."""
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            if not name.startswith("--") or " " in name:
                continue  # a value, as argparse sees it
            options = self._option_string_actions
            if not any(option.startswith(name) for option in options):
                self.error(f"there is no option {name} here" + _nearest(name, options))

    def error(self, message: str) -> NoReturn:
        if unknown := _UNKNOWN.fullmatch(message):
            names = [name.strip("'") for name in unknown[2].split(", ")]
            message = f"there is no {unknown[1]!r} here" + _nearest(unknown[1], names)
        super().error(message)


def _nearest(word: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the nearest name, or all names."""
    names = [*names]
    if near := difflib.get_close_matches(word, names, 1):
        return f": do you mean {near[0]}?"
    return f"; there are {', '.join(names)}"


class Commands:
    """Commands of one parser. ``words``: the words before each command."""

    def __init__(
        self, parent: argparse.ArgumentParser, run: Mapping[str, str], words: str = ""
    ) -> None:
        self._run, self._words = run, words
        self._parsers = parent.add_subparsers(
            prog=f"spark-repl {words}".rstrip(),
            dest="action" if words else "command",
            required=True,
            metavar="ACTION" if words else "COMMAND",
            help=None if words else argparse.SUPPRESS,  # the description has them, in groups
        )

    def add(self, name: str, text: str = "") -> argparse.ArgumentParser:
        text = text or _HELP[name]
        example = f"spark-repl {self._words}{name} {EXAMPLES[self._words + name]}".rstrip()
        command: argparse.ArgumentParser = self._parsers.add_parser(
            name, help=text, description=textwrap.fill(_sentence(text), _WIDTH),
            epilog=f"Example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        command.set_defaults(run=self._run[self._words + name])
        command.add_argument("--json", action="store_true", help="one JSON object as the last line")
        return command

    def below(self, name: str) -> Commands:
        text = _HELP[name]
        parent = self._parsers.add_parser(name, help=text, description=_sentence(text))
        return Commands(parent, self._run, f"{name} ")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


class _Overrides(TypedDict, total=False):
    """Settings of ``add_argument`` in which a command differs from others with the option."""

    required: bool
    action: str
    default: int
    help: str


def add_options(
    command: argparse.ArgumentParser, names: Sequence[str], **overrides: Unpack[_Overrides]
) -> None:
    """Add options that several commands have, with the same texts."""
    shared: dict[str, dict[str, Any]] = {
        "--relay": {"metavar": "DIR", "help": "folder of log files, or one file"},
        "--target": {
            "metavar": "DIR",
            "help": "where the tables are, a folder, or s3://, gs:// or abfss://",
        },
        "--channel": {
            "metavar": "NAME",
            "default": "",
            "help": "channel of a target that has several",
        },
        "--config": {
            "metavar": "FILE",
            "help": "TOML file; docs/configuration.md lists its keys",
        },
        "--workers": {
            "type": int,
            "metavar": "N",
            "help": f"Spark partitions that decode and write side by side (default: "
            f"{Apply().workers})",
        },
        "--master": {"metavar": "URL", "help": "Spark master (default: local[WORKERS])"},
        "--take-over": {
            "action": "store_true",
            "help": "take ownership from an applier whose host no longer exists",
        },
        "--verbose": {"action": "store_true", "help": "print more to standard error"},
        "--log-format": {
            "choices": ("text", "json"),
            "help": "json: one object a line on standard error (default: text)",
        },
        "--runs": {"type": int, "metavar": "N"},
    }
    for name in names:
        settings: dict[str, Any] = {**shared[name], **overrides}
        command.add_argument(name, **settings)
