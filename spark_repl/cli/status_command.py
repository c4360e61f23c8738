"""``status``: one look at a target, or one after the other. Starts no Spark."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ..config import load
from ..errors import ConfigError
from ..observe.metrics import metrics
from ..observe.screen import screen
from ..observe.status import status
from .inspect import target_of

if TYPE_CHECKING:
    from ..config import Config

# The cursor goes home, each line ends by clearing its rest, what is below goes: nothing flickers.
_HOME, _REST, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def show_status(options: argparse.Namespace) -> int:
    """Prints one look; with --watch others, until Ctrl-C, which is no error then."""
    config = load(options.config) if options.config else None
    target = target_of(options)
    if options.watch is None:
        print(_look(options, target, config), end="")
        return 0
    if options.metrics:
        raise ConfigError("--watch and --metrics do not go together", hint="give one of them")
    with suppress(KeyboardInterrupt):
        _watch(options, target, config)
    return 0


def _watch(options: argparse.Namespace, target: str, config: Config | None) -> None:
    redraws = sys.stdout.isatty() and not options.json
    while True:
        text = _look(options, target, config)
        if redraws:
            text = _HOME + text.replace("\n", _REST + "\n") + _BELOW
        elif not options.json:
            text += "\n"
        sys.stdout.write(text)
        sys.stdout.flush()
        time.sleep(options.watch)


def _look(options: argparse.Namespace, target: str, config: Config | None) -> str:
    relay, state_path = (config.relay.path, config.target.state_path) if config else (None, "")
    fields = status(target, relay, state_path)
    if options.metrics:
        return metrics(fields)
    return json.dumps(fields, default=str) + "\n" if options.json else screen(fields)
