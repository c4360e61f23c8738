"""How an error is said: what and where, what to do, where more is said of it."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from .. import errors
from . import log_lines
from .hints import pasteable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..errors import SparkReplError

_PLACE = ("file", "position", "gtid", "table")


def report(error: SparkReplError, options: Mapping[str, object] | None = None) -> None:
    """``Error:`` what and where, ``Try:`` what to do, ``See:`` where more is said of errors of
    this class, on standard error; one line of JSON where the log is that. ``options``: the
    command's, for the hint."""
    hint = pasteable(error.hint or "", options or {}, table=error.table, gtid=error.gtid)
    if log_lines.is_json():
        place = {name: value for name in _PLACE if (value := getattr(error, name)) is not None}
        line = log_lines.line_of("ERROR", "spark_repl", error.message, time.time())
        said = {"error": type(error).__name__, "number": error.number, "hint": hint}
        print(json.dumps({**line, **said, **place}), file=sys.stderr)
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
    print("\n".join(lines), file=sys.stderr)  # at once: other channels have lines to say, too
