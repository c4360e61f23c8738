"""``status``: one look at a target, or one after the other. Starts no Spark."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

from ..config import Config, load
from ..control.records.channels import Channel, channels
from ..errors import ConfigError
from ..observe.metrics import metrics
from ..observe.screen import screen
from ..observe.status.status import status
from ..receiver.report import read_report
from .hints import pasteable
from .inspect import channel_of, target_of

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
    relay = config.relay.path if config else None
    looks = {
        at.name or Config.channel: status(target, relay, at=at)
        for at in _channels(options, target, config)
    }
    if len(looks) == 1:
        (fields,) = looks.values()
        if options.metrics:
            return metrics(fields)
        return json.dumps(fields, default=str) + "\n" if options.json else _screen(fields, options)
    if options.metrics:
        raise ConfigError(
            f"--metrics is of one channel: the target has {', '.join(looks)}",
            hint="name one: --channel NAME; or ask each applier's own page",
        )
    if options.json:
        return json.dumps({"channels": looks}, default=str) + "\n"
    return "\n".join(
        f"channel:  {name}\n{_screen(fields, options)}" for name, fields in looks.items()
    )


def _screen(fields: dict[str, Any], options: argparse.Namespace) -> str:
    return pasteable(screen(fields), vars(options))


def _channels(options: argparse.Namespace, target: str, config: Config | None) -> list[Channel]:
    """The channel of the configuration, or that is named; else all that the target has."""
    if config or options.channel:
        return [_channel(options, config)]
    return channels(target) or [channel_of(options)]


def _channel(options: argparse.Namespace, config: Config | None) -> Channel:
    """The one that was asked for; one that has applied nothing yet, if a receiver or ``run`` has
    said something of it. Raises TargetError otherwise."""
    if config is None:
        return channel_of(options)
    at = channel_of(options, begun=False)
    said = read_report(config.relay.path) is not None or os.path.exists(at.layout.run)
    return at if said else channel_of(options)
