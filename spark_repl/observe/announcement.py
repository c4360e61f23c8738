"""Announcement: a line on what begins, for who waits before a screen."""

from __future__ import annotations

import logging
import sys

from ..config import Config

log = logging.getLogger(__name__)


def announce(config: Config, text: str) -> None:
    """One line to standard error; where the log is JSON, one of level INFO in it. A channel that
    has a name of its own stands before it."""
    if config.channel != Config().channel:
        text = f"{config.channel}: {text}"
    if config.observe.log_format == "json":
        log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)
