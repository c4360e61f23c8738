"""Channels: which ones a target has, and where each has its own state.

The channel that had the target first is in ``_repl``, as in a target with one channel. Each other
one is in ``_repl/channels/<name>`` with its own control table, owner, histories, cuts and XA
branches. The tables of all channels are together; ``claimed_names`` records which belong to whom.
"""

from __future__ import annotations

import difflib
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ... import formats
from ...config import Config
from ...delta.store import storage
from ...errors import ConfigError, TargetError
from ..table.control import Control
from ..table.fence import check_stays
from ..table.layout import Layout
from ..table.owner_lease import wait_until_unclaimed
from .name_registry import channels_beside, first_is_gone

logger = logging.getLogger(__name__)

NOTE_FORMAT = 1
"""of the note that a move of the target writes at the new place"""


@dataclass(frozen=True)
class Channel:
    """One channel. ``name``: "" if no owner of the target has recorded it."""

    name: str
    layout: Layout
    control: Control


def opened(config: Config, create: Callable[[str, str], Control] = Control) -> Channel:
    """Return a configuration's channel: its place, even if nothing exists yet, and its control
    table. ``create`` returns the control table, which is then read; this costs a look at each of
    its files. Raise TargetError if the place is unknown, or if a target is being moved to it,
    FencedError for a new channel of a target that was or is being moved elsewhere, and what reading
    the target raises."""
    name, layout = config.channel, Layout.of(config.target)
    first = _leased(create(layout.control, name), config)
    beside = Layout.of(config.target, Layout.home_of(name))
    owner = first.owner()
    if owner is None:
        check_no_move(layout)
        if storage.exists(beside.control):
            raise first_is_gone(name, layout.control)
    if owner is None or owner[1].channel in ("", name):
        return Channel(name, layout, first)
    at = Channel(name, beside, _leased(create(beside.control, name), config))
    if not at.control.exists():
        check_stays(layout.control, owner[1])
    return at


def check_no_move(layout: Layout) -> None:
    """Raise TargetError while a target is being moved to this place (``target_move``)."""
    if source := noted_source(layout.move_note):
        raise TargetError(
            "a move to this place has not ended", file=layout.target,
            hint=f"call it again: spark-repl target move {source} {layout.target}",
        )  # fmt: skip


def noted_source(path: str) -> str:
    """Return the source of the move that is recorded at ``path``; "" if there is none."""
    try:
        note = storage.read(path).decode()
    except FileNotFoundError:
        return ""
    fields = json.loads(formats.unstamp(note, NOTE_FORMAT, "this note of a move", path))
    return str(fields["source"])


def _leased(control: Control, config: Config) -> Control:
    control.lease_s = config.apply.lease_s
    return control


def warn_if_new(at: Channel) -> None:
    """Warn about a channel that is new in a target with other channels: its name may be
    misspelt."""
    if at.layout.home and not at.control.exists():
        what = 'the channel "%s" is new to %s, and goes beside the one that has it'
        logger.warning(what, at.name, at.layout.target)


def layout_of(config: Config) -> Layout:
    """Return the layout of a configuration's channel. Raise as ``opened``."""
    return opened(config).layout


def control_of(config: Config) -> Control:
    """Return the control table of a configuration's channel. Raise as ``opened``."""
    return opened(config).control


def check_unowned(
    config: Config, *, take_over: bool, stopping: threading.Event | None = None,
    say: Callable[[str], None] = logger.warning,
) -> None:  # fmt: skip
    """Check before Spark starts what ``Control.claim`` checks later: raise FencedError, with the
    owner's name, if another owner runs or may run. Wait for the lease of an owner on another host,
    and call ``say`` with the state; raise Stopped if ``stopping`` is set. Otherwise raise as
    ``opened``."""
    control = control_of(config)
    if not take_over:
        wait_until_unclaimed(control, stopping, say)


def channels(target: str, state_path: str = "") -> list[Channel]:
    """Return the channels of a target, the first one first; none if nothing has been applied yet. A
    channel without tables is included only if it is the first."""
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
    """Return the channel of that name, if it has started and has no table yet."""
    layout = Layout(target, state_path, Layout.home_of(name))
    control = Control(layout.control)
    return Channel(name, layout, control) if control.exists() else None


def channel_at(target: str, name: str = "", state_path: str = "") -> Channel:
    """Return the channel with that name, or for "" the only one. Raise TargetError if nothing has
    been applied, ConfigError if there is no such channel, or there are several and none is named.
    """
    by_name = {channel.name or Config.channel: channel for channel in channels(target, state_path)}
    if not by_name:
        Control.existing(target)  # raises: there is no control table
    if not name and len(by_name) == 1:
        return next(iter(by_name.values()))
    if name in by_name:
        return by_name[name]
    if name and (begun := _begun(target, name, state_path)):
        return begun
    if not name:
        raise ConfigError(
            f"{target} has several channels: {', '.join(by_name)}", hint="name one: --channel NAME"
        )
    near = difflib.get_close_matches(name, by_name, 1)
    raise ConfigError(
        f"{target} has no table of a channel {name!r}" + (f": {near[0]!r}?" if near else ""),
        hint=f"it has the channels {', '.join(by_name)}",
    )
