"""``status``: one look at a target, or repeated by_channel; ``report``: a look as one HTML file.

Neither starts Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..config import Config, load
from ..control.records.channels import Channel, channels
from ..errors import ConfigError
from ..observe.hints import pasteable
from ..observe.metrics import metrics
from ..observe.screen import screen, summary
from ..observe.status.status import status
from ..observe.status.table_figures import FigureReader
from ..observe.web.lag_history import lag_history
from ..observe.web.page import Extras, page
from ..receiver.report import read_report
from ..runtime.private_files import private_opener
from .command_target import channel_of, target_of
from .output import emit

# Move the cursor home, clear the rest of each line, clear below: the screen does not flicker.
_HOME, _REST, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def show_status(options: argparse.Namespace) -> int:
    """Print a status. With --watch, print it repeatedly until Ctrl-C, which is not an error
    then."""
    config = load(options.config) if options.config else None
    target = target_of(options)
    if options.watch is None:
        print(_rendered(options, target, config), end="")
        return 0
    if options.metrics:
        raise ConfigError("--watch and --metrics do not go together", hint="give one of them")
    with suppress(KeyboardInterrupt):
        _watch(options, target, config)
    return 0


def _watch(options: argparse.Namespace, target: str, config: Config | None) -> None:
    redraws = sys.stdout.isatty() and not options.json
    while True:
        text = _rendered(options, target, config)
        if redraws:
            text = _HOME + text.replace("\n", _REST + "\n") + _BELOW
        elif not options.json:
            text += "\n"
        sys.stdout.write(text)
        sys.stdout.flush()
        time.sleep(options.watch)


def _rendered(options: argparse.Namespace, target: str, config: Config | None) -> str:
    relay = config.relay.path if config else None
    by_channel = {
        at.name or Config.channel: status(target, relay, at=at)
        for at in _channels(options, target, config)
    }
    if len(by_channel) == 1:
        (fields,) = by_channel.values()
        if options.metrics:
            return metrics(fields)
        return json.dumps(fields, default=str) + "\n" if options.json else _screen(fields, options)
    if options.metrics:
        raise ConfigError(
            f"--metrics is of one channel: the target has {', '.join(by_channel)}",
            hint="name one: --channel NAME; or ask each applier's own page",
        )
    if options.json:
        return json.dumps({"channels": by_channel}, default=str) + "\n"
    return "\n".join(
        f"channel:  {name}\n{_screen(fields, options)}" for name, fields in by_channel.items()
    )


def _screen(fields: dict[str, Any], options: argparse.Namespace) -> str:
    return pasteable((summary if options.short else screen)(fields), vars(options))


def _channels(options: argparse.Namespace, target: str, config: Config | None) -> list[Channel]:
    """Return the channel of the configuration or of --channel, else all of the target's."""
    if config or options.channel:
        return [_channel(options, config)]
    return channels(target) or [channel_of(options)]


def _channel(options: argparse.Namespace, config: Config | None) -> Channel:
    """Return the selected channel. Raise TargetError if it is unknown.

    A channel that has applied nothing is returned if its receiver or its ``run`` left a report.
    """
    if config is None:
        return channel_of(options)
    at = channel_of(options, begun=False)
    has_report = read_report(config.relay.path) is not None or os.path.exists(at.layout.run)
    return at if has_report else channel_of(options)


def report(options: argparse.Namespace) -> int:
    """Write the page into a file atomically. Raise ConfigError if the file can't be written.

    The file contains names of tables and statements, so only its account may read it. Raise
    TargetError if there is no target.
    """
    config, target = load(options.config) if options.config else None, target_of(options)
    relay, state_path = (config.relay.path, config.target.state_path) if config else (None, "")
    at = channel_of(options)
    extras = Extras(target, config.file if config else "", FigureReader(at).figures())
    text = page(
        status(target, relay, state_path, at=at), lag_history(at.control), live=False, extras=extras
    )
    work = Path(f"{options.out}.{os.getpid()}")
    try:
        with open(work, "w", encoding="utf-8", opener=private_opener) as file:
            file.write(text)
        os.replace(work, options.out)
    except OSError as error:
        work.unlink(missing_ok=True)
        raise ConfigError(f"can't write the report: {error.strerror}", file=options.out) from error
    emit({"out": options.out, "bytes": len(text.encode())}, options.json)
    return 0
