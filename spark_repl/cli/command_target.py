"""The target and the channel that a command works on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..config import load
from ..control.records.channels import channel_at, opened
from ..errors import ConfigError, TargetError

if TYPE_CHECKING:
    from ..control.records.channels import Channel


def target_of(options: argparse.Namespace) -> str:
    """Return the target's path. Raise ConfigError if the command names none."""
    if options.target:
        return str(options.target)
    if options.config:
        return load(options.config).target.path
    raise ConfigError("--target is missing", hint="give it, or --config FILE")


def channel_of(options: argparse.Namespace, *, begun: bool = True) -> Channel:
    """Return the channel of --channel, that of the configuration, or the target's only one.

    Raise TargetError if the channel has not applied anything yet, unless ``begun`` is false. Raise
    ConfigError if the target has several channels and the command names none.
    """
    file = getattr(options, "config", None)
    if not file:
        return channel_at(target_of(options), options.channel)
    given = {"target.path": options.target, "channel": options.channel}
    at = opened(load(file).override({key: text for key, text in given.items() if text}))
    if begun and not at.control.exists():
        raise TargetError(
            f'the channel "{at.name}" has applied nothing to this target yet',
            file=at.layout.target,
            hint="start the applier: spark-repl run --config F, or apply; or correct target.path",
        )
    return at
