"""Errors as text or JSON on standard error: what and where, a hint, where docs say more."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import errors
from . import log_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..errors import SparkReplError

_PLACE = ("file", "position", "gtid", "table")
_LEAVE_OUT = (
    "or correct the value on the source, leave the transaction out: spark-repl skip --config F"
    " --gtid GTID; and copy the table: spark-repl snapshot --config F --table DB.T"
)


def report(error: SparkReplError, options: Mapping[str, object] | None = None) -> None:
    """Print an error to standard error: ``Error:`` with what happened and where, ``Try:`` with a
    hint, ``See:`` with the documentation.

    Print one line of JSON if the log is JSON. ``options``: the command's options, for the hint.
    """
    hint = error.hint or ""
    if isinstance(error, errors.DecodeError) and error.gtid and error.table:
        hint = f"{hint}; {_LEAVE_OUT}" if hint else _LEAVE_OUT
    hint = pasteable(hint, options or {}, table=error.table, gtid=error.gtid)
    if log_lines.is_json():
        place = {name: value for name in _PLACE if (value := getattr(error, name)) is not None}
        line = log_lines.line_of("ERROR", "spark_repl", error.message, time.time())
        fields = {"error": type(error).__name__, "number": error.number, "hint": hint}
        print(json.dumps({**line, **fields, **place}), file=sys.stderr)
        return
    number = f" (MySQL error {error.number})" if error.number else ""
    lines = [f"Error: {log_lines.named_here(error.message)}{number}"]
    for name in _PLACE:
        if (value := getattr(error, name)) is not None:
            lines.append(f"  {name + ':':10}{value}")
    if hint:
        lines.append(f"Try: {hint}")
    named = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    lines.append(f"See: docs/troubleshooting.md#{named.__name__.lower()}")
    print("\n".join(lines), file=sys.stderr)  # one call: other channels print too


_PLACEHOLDER = re.compile(r"--config F\b|--table DB\.T(?:ABLE)?\b|--gtid GTID\b")
_OF_A_TARGET = re.compile(
    r"(spark-repl (?:skip|status|wait|(?:cut|quarantine|xa) \w+)) --config F\b"
)


def pasteable(hint: str, options: Mapping[str, object], **about: str | None) -> str:
    """Return the hint with its placeholders replaced: each ``--config F`` by the command's
    configuration file, ``--table DB.T`` and ``--gtid GTID`` by ``table`` and ``gtid`` of the error.

    Without a configuration, commands that need only a target get the command's target. A
    placeholder stays if there is no value for it, or more than one.
    """
    config, target = options.get("config"), options.get("target")
    files = [config] if isinstance(config, str) else config
    file = files[0] if isinstance(files, list) and len(files) == 1 else None
    if not files and isinstance(target, str):
        hint = _OF_A_TARGET.sub(lambda match: f"{match[1]} --target {shlex.quote(target)}", hint)
    values = {"--config": file, "--table": about.get("table"), "--gtid": about.get("gtid")}

    def named(match: re.Match[str]) -> str:
        option = match[0].partition(" ")[0]
        value = values[option]
        return f"{option} {shlex.quote(value)}" if value and ", " not in value else match[0]

    return _PLACEHOLDER.sub(named, hint)
