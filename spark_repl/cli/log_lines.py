"""The log on standard error: as text, or each line an object of JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from ..runtime.threads import channel_here

# What every record has; all else came by ``extra``.
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """Level, logger, whose line it is where the process has several channels, and what is said."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return f"{record.levelname} {record.name}: {named_here(record.message)}"


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
    channel = {"channel": name} if (name := channel_here()) else {}
    return {"at": text, "level": level, "logger": logger, **channel, "message": message}


def named_here(text: str) -> str:
    """The text behind the name of the channel whose thread this is."""
    return f"{name}: {text}" if (name := channel_here()) else text


def log_as(form: str) -> None:
    """Has what is logged from now on written in that form, ``text`` or ``json``."""
    formatter = JsonLines() if form == "json" else TextLines()
    for handler in logging.getLogger().handlers:
        if getattr(handler, "stream", None) is sys.stderr:
            handler.setFormatter(formatter)


def is_json() -> bool:
    """Whether the log is JSON: errors are lines of it then."""
    return any(isinstance(one.formatter, JsonLines) for one in logging.getLogger().handlers)
