"""Waiting for a cut: for a reader that must see its own writes to the source, or known ones.

MySQL has WAIT_FOR_EXECUTED_GTID_SET for this. Here the reader waits for a cut that it can read.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from ...errors import ConfigError, TargetError
from ...gtid import GtidSet, format_uuid
from ..records.channels import channel_at

if TYPE_CHECKING:
    from ..table.control import Control
    from ..table.cut import Cut

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S, _PAUSE_MAX_S, _SLOWER = 0.02, 0.5, 1.5


def wait_for(target: str, gtid_set: str, timeout_s: float = 60.0, channel: str = "") -> Cut:
    """Return the newest cut as soon as it has all transactions of a GTID set. This needs neither
    Spark nor the applier's process, and reads at most twice a second. ``channel``: its name, if the
    target has several.

    Raise TargetError after ``timeout_s`` seconds, ConfigError for an invalid GTID set, time or
    channel.
    """
    return wait_at(channel_at(target, channel).control, target, gtid_set, timeout_s)


def wait_at(control: Control, target: str, gtid_set: str, timeout_s: float) -> Cut:
    """Return the cut as ``wait_for`` does, for the channel whose control table is ``control``."""
    wanted = GtidSet.parse(gtid_set)
    if unknown := unknown_sources(control, gtid_set):
        logger.warning("no cut has a transaction of %s yet", ", ".join(unknown))
    if not timeout_s >= 0:  # NaN is refused also
        raise ConfigError(f"a timeout of {timeout_s} seconds", hint="give 0 or more")
    until, pause = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while True:
        newest = control.last_cut()
        executed = GtidSet.parse(newest.gtid_executed) if newest else GtidSet()
        if newest is not None and wanted.issubset(executed):
            return newest
        remaining_s = until - time.monotonic()
        if remaining_s <= 0:
            raise _too_late(control, target, wanted.subtract(executed), timeout_s)
        time.sleep(min(pause, remaining_s))
        pause = min(pause * _SLOWER, _PAUSE_MAX_S)


def unknown_sources(control: Control, gtid_set: str) -> list[str]:
    """Return the UUIDs in a GTID set for which the newest cut has no transaction."""
    newest = control.last_cut()
    executed = GtidSet.parse(newest.gtid_executed if newest else "")
    return sorted(uuids_of(GtidSet.parse(gtid_set)) - uuids_of(executed))


def uuids_of(gtids: GtidSet) -> set[str]:
    """Return the UUIDs of the servers whose transactions a set has."""
    return {format_uuid(uuid) for uuid, _ in gtids.intervals}


def _too_late(control: Control, target: str, missing: GtidSet, timeout_s: float) -> TargetError:
    owner = control.owner()
    works = owner is not None and not owner[1].is_dead
    return TargetError(
        f"no cut holds {missing} after {timeout_s:g} s"
        + ("" if works else ": no applier works on the target"),
        file=target,
        hint="spark-repl status --config F says how far it is behind; or wait for longer"
        if works
        else "start it (spark-repl run --config F, or apply), then wait again",
    )
