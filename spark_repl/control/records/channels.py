"""Channels: which there are on a target, and where each has what is its own.

The channel that had the target first lies where a target with one channel always did, in ``_repl``;
each other one in ``_repl/channels/<name>``: its own control table, owner, histories, cuts, XA
branches. Tables lie together; ``names`` says whose each is.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ...config import Config
from ...delta import storage
from ...errors import ConfigError
from ..table.control import Control
from ..table.fence import check_free
from ..table.layout import Layout
from .name_registry import channels_beside, first_is_gone

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Channel:
    """``name``: "" where no owner of the target has said it."""

    name: str
    layout: Layout
    control: Control


def opened(config: Config, made: Callable[[str, str], Control] = Control) -> Channel:
    """A configuration's channel: its place, also before anything is there, and its control table,
    which has been ``made`` and read: that takes a look at each of its files. Raises TargetError
    where the place can't be told, and what reading the target raises."""
    name, layout = config.channel, Layout.of(config.target)
    first = made(layout.control, name)
    beside = Layout.of(config.target, Layout.home_of(name))
    owner = first.owner()
    if owner is None and storage.exists(beside.control):
        raise first_is_gone(name, layout.control)
    if owner is None or owner[1].channel in ("", name):
        return Channel(name, layout, first)
    return Channel(name, beside, made(beside.control, name))


def say_if_new(at: Channel) -> None:
    """Warns of a channel that goes beside others from now on: it may be misspelt."""
    if at.layout.home and not at.control.exists():
        what = 'the channel "%s" is new to %s, and goes beside the one that has it'
        log.warning(what, at.name, at.layout.target)


def layout_of(config: Config) -> Layout:
    """Where a configuration's channel has its own. Raises as ``opened``."""
    return opened(config).layout


def control_of(config: Config) -> Control:
    """The control table of a configuration's channel. Raises as ``opened``."""
    return opened(config).control


def check_unowned(config: Config, *, take_over: bool) -> None:
    """Says before Spark starts what ``Control.claim`` will say: raises FencedError, naming the
    owner, when another one is or may be alive. Else as ``opened``."""
    control = control_of(config)
    owner = control.owner()
    if owner is not None and not take_over:
        check_free(control.path, owner[1])


def channels(target: str, state_path: str = "") -> list[Channel]:
    """The channels of a target, that which had it first at first; empty: nothing has been applied
    yet. One that has no table yet is not among them, but for the first."""
    layout = Layout(target, state_path)
    first = Control(layout.control)
    if not first.exists():
        return []
    owner = first.owner()
    beside = [
        (name, Layout(target, state_path, Layout.home_of(name))) for name in channels_beside(first)
    ]
    return [
        Channel((owner and owner[1].channel) or "", layout, first),
        *(Channel(name, own, Control(own.control)) for name, own in beside),
    ]


def _begun(target: str, name: str, state_path: str) -> Channel | None:
    """The channel of that name, if it has started and has no table yet."""
    layout = Layout(target, state_path, Layout.home_of(name))
    control = Control(layout.control)
    return Channel(name, layout, control) if control.exists() else None


def channel_at(target: str, name: str = "", state_path: str = "") -> Channel:
    """The channel of that name; "": the only one there is. Raises TargetError where nothing has
    been applied, ConfigError where there is no such channel, or several and none is named."""
    known = {one.name or Config.channel: one for one in channels(target, state_path)}
    if not known:
        Control.existing(target)  # which raises
    if not name and len(known) == 1:
        return next(iter(known.values()))
    if name in known:
        return known[name]
    if name and (begun := _begun(target, name, state_path)):
        return begun
    if not name:
        raise ConfigError(
            f"{target} has several channels: {', '.join(known)}", hint="name one: --channel NAME"
        )
    near = difflib.get_close_matches(name, known, 1)
    raise ConfigError(
        f"{target} has no table of a channel {name!r}" + (f": {near[0]!r}?" if near else ""),
        hint=f"it has the channels {', '.join(known)}",
    )
