"""A relay log that is older than its target: the target was removed, or has another path now."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ..control.channels import layout_of, opened
from ..control.resetting import clear_state
from ..errors import LogError
from ..receiver.purge import clear
from ..relay.index import TransactionIndex, build_index
from ..relay.look import look
from ..relay.published import read_end
from ..source.connection import present_gtids

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config, Source
    from ..control.copies import Copy
    from ..gtid import GtidSet
    from ..relay.log import RelayLog

log = logging.getLogger(__name__)


def clear_state_of_removed(config: Config) -> None:
    """Remove the channel's working state if its control table is gone. With ``target.state_path``,
    or a target on S3, the state lies elsewhere, and its notes are of tables that are gone."""
    at = opened(config)
    if not at.control.exists():
        clear_state(at.layout)


def clear_unusable(
    config: Config, copy: Copy, *, ask: Callable[[Source], tuple[GtidSet, GtidSet]] = present_gtids
) -> None:
    """Clear the receiver's relay log if a first copy, which is planned, can't be followed from it.
    Nothing in the target needs that log: the receiver begins a new one where the copy begins.
    ``ask``: how the source is asked for its executed and purged GTID sets.

    Raises SourceError.
    """
    path = config.relay.path
    if read_end(path) is None:
        return
    executed, purged = ask(config.source)
    if why := _unusable(config, copy.start, executed, purged):
        log.warning("%s: the relay log is older than the target and is cleared: %s", path, why)
        clear(Path(path))


def _unusable(config: Config, start: GtidSet, executed: GtidSet, purged: GtidSet) -> str:
    """Return why a copy that begins at ``start`` can't be followed from the relay log; "" if it
    can. ``executed``, ``purged``: the source's."""
    folder = layout_of(config).index

    def indexed(relay: RelayLog) -> TransactionIndex:
        return build_index(relay, folder, complete=False)

    try:
        relay, index = look(config.relay.path, indexed)
    except LogError as error:
        return str(error)
    previous = relay.previous_gtids()
    received = previous.union(index.gtids())
    if other := received.subtract(executed):
        return f"the source has not executed {other}"
    if missing := previous.subtract(start):
        return f"it begins after {missing}, which the copy needs"
    if missing := purged.subtract(received):
        return f"it lacks {missing}, which the source has purged"
    return ""
