"""Announcement: a line on what begins, for who waits before a screen."""

from __future__ import annotations

import logging
import sys

from ..config import Config
from ..runtime.threads import channel_here

log = logging.getLogger(__name__)


def announce(config: Config, text: str) -> None:
    """One line to standard error; where the log is JSON, one of level INFO in it. A channel that
    has a name of its own, or others beside it, stands before it."""
    here, as_json = channel_here(), config.observe.log_format == "json"
    if config.channel != Config().channel or here:
        text = text if here and as_json else f"{config.channel}: {text}"
    if as_json:
        log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)
