"""``spark-repl report``: the page as one HTML file, for a mail or a ticket."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..config import load
from ..errors import ConfigError
from ..observe.status.status import status
from ..observe.web.lag_history import lag_history
from ..observe.web.page import page
from ..runtime.private_files import opener
from .inspect import channel_of, emit, target_of


def report(options: argparse.Namespace) -> int:
    """Writes the file in one step; it names tables and statements, so that the account alone may
    read it. Raises TargetError, and ConfigError for a file that can't be written."""
    config, target = load(options.config) if options.config else None, target_of(options)
    relay, state_path = (config.relay.path, config.target.state_path) if config else (None, "")
    at = channel_of(options)
    text = page(status(target, relay, state_path, at=at), lag_history(at.control), live=False)
    work = Path(f"{options.out}.{os.getpid()}")
    try:
        with open(work, "w", encoding="utf-8", opener=opener) as file:
            file.write(text)
        os.replace(work, options.out)
    except OSError as error:
        work.unlink(missing_ok=True)
        raise ConfigError(f"can't write the report: {error.strerror}", file=options.out) from error
    emit({"out": options.out, "bytes": len(text.encode())}, options.json)
    return 0
