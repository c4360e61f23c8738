"""Errors as text or JSON on standard error: what and where, a hint, where docs say more."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import errors
from ..observe.hints import pasteable
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
