"""The log on standard error: as text, or each line an object of JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from ..runtime.threads import channel_here

# Attributes of every record; the others come from ``extra``.
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """Lines with level, logger, channel if the process has several, and message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return f"{record.levelname} {record.name}: {named_here(record.message)}"


class JsonLines(logging.Formatter):
    """Each line is one JSON object: ``at``, ``level``, ``logger``, ``message``, the caller's
    ``extra``, and ``exception`` with its traceback. Line ends are escaped, so that no value can
    start a new line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = line_of(record.levelname, record.name, record.getMessage(), record.created)
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class StandardError(logging.StreamHandler[TextIO]):
    """A handler that writes to the current ``sys.stderr``. A progress bar replaces ``sys.stderr``,
    and prints lines above itself."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def line_of(level: str, logger: str, message: str, at: float) -> dict[str, Any]:
    """Return the fields that every line has."""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
    channel = {"channel": name} if (name := channel_here()) else {}
    return {"at": text, "level": level, "logger": logger, **channel, "message": message}


def named_here(text: str) -> str:
    """Return the text, preceded by the name of the current thread's channel."""
    return f"{name}: {text}" if (name := channel_here()) else text


def log_as(form: str) -> None:
    """Write the log as ``text`` or ``json`` from now on."""
    formatter = JsonLines() if form == "json" else TextLines()
    for handler in logging.getLogger().handlers:
        if getattr(handler, "stream", None) is sys.stderr:
            handler.setFormatter(formatter)


def is_json() -> bool:
    """Return whether the log is JSON. Errors are then also written as lines of the log."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers)
