"""The log on standard error: as text, or each line an object of JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

TEXT = "%(levelname)s %(name)s: %(message)s"
# What every record has; all else came by ``extra``.
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One object a line: ``at``, ``level``, ``logger``, ``message``, what the caller gave besides,
    and ``exception`` with its traceback. Line ends in it are escaped, so that no value makes a line
    of its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields = line_of(record.levelname, record.name, record.getMessage(), record.created)
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def line_of(level: str, logger: str, message: str, at: float) -> dict[str, Any]:
    """What every line has."""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
    return {"at": text, "level": level, "logger": logger, "message": message}


def log_as(form: str) -> None:
    """Has what is logged from now on written in that form, ``text`` or ``json``."""
    formatter = JsonLines() if form == "json" else logging.Formatter(TEXT)
    for handler in logging.getLogger().handlers:
        if getattr(handler, "stream", None) is sys.stderr:
            handler.setFormatter(formatter)


def is_json() -> bool:
    """Whether the log is JSON: errors are lines of it then."""
    return any(isinstance(one.formatter, JsonLines) for one in logging.getLogger().handlers)
