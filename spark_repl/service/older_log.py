"""A relay log that is older than its target, which was removed or has another path now."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..control.records.channel_reset import clear_state
from ..control.records.channels import control_of, layout_of, opened
from ..control.records.copies import standing
from ..errors import LogError
from ..receiver.purge import clear
from ..receiver.writer import RelayWriter
from ..relay.index import TransactionIndex, build_index
from ..relay.log import read_while_purged
from ..relay.published_end import read_end
from ..source.connection import present_gtids

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config, Source
    from ..control.records.copies import Copy
    from ..gtid import GtidSet
    from ..relay.log import RelayLog

    Ask = Callable[[Source], tuple[GtidSet, GtidSet]]

logger = logging.getLogger(__name__)


def clear_state_of_removed(config: Config) -> None:
    """Remove the channel's working state if its control table no longer exists.

    With ``target.state_path``, or a target on S3, the state is in another place, and describes
    tables that no longer exist.
    """
    at = opened(config)
    if not at.control.exists():
        clear_state(at.layout)


def clear_older(config: Config, *, ask: Ask = present_gtids) -> None:
    """Clear a relay log that is older than a copy of all tables, finished or not, which no cut
    shows yet: ``snapshot`` may have made the copy, or a ``run`` that was killed before it cleared
    the log.

    ``ask`` and errors: as ``clear_unusable``.
    """
    copy = standing(control_of(config)).copy
    if config.source.auto_position and copy is not None and copy.behind is None:
        clear_unusable(config, copy, ask=ask)


def clear_unusable(config: Config, copy: Copy, *, ask: Ask = present_gtids) -> None:
    """Clear the receiver's relay log if a copy of all tables can't be followed from it. Nothing in
    the target needs that log, and the receiver begins a new one where the copy begins. ``ask``:
    queries the source's executed and purged GTID sets.

    Raise SourceError. Raise LogError for another source's log, and for one that is being written or
    read.
    """
    path, sets = config.relay.path, _gtid_sets(config)
    if sets is None:
        return
    previous, received = sets
    if previous and previous == copy.start:  # it was begun for this copy
        return
    # After the log was read, so that its newest transactions are in the source's set.
    executed, purged = ask(config.source)
    if foreign := received.subtract(executed):
        raise LogError(
            f"the relay log is not of this source, which has not executed {foreign}", file=path,
            hint="give this target a relay.path of its own; or, if no other target needs that log,"
            f" remove it: rm -r {shlex.quote(path)}",
        )  # fmt: skip
    if why := _unusable(copy.start, previous, received, purged):
        logger.warning("%s: the relay log is older than the target and is cleared: %s", path, why)
        clear(Path(path))


def _gtid_sets(config: Config) -> tuple[GtidSet, GtidSet] | None:
    """Return (the GTID set before the relay log, that set and the log's); None without a log that a
    receiver would continue. The log of a killed receiver is repaired. Raise LogError."""
    path, folder = config.relay.path, layout_of(config).index

    def indexed(relay: RelayLog) -> TransactionIndex:
        return build_index(relay, folder, complete=False)

    try:
        if not Path(path).is_dir() or read_end(path) is None:
            return None
        relay, index = read_while_purged(path, indexed)
    except LogError:
        with RelayWriter(Path(path), config.source.server_id) as writer:
            if not writer.log_id or writer.lost is not None:
                return None
        relay, index = read_while_purged(path, indexed)
    previous = relay.previous_gtids()
    return previous, previous.union(index.gtids())


def _unusable(start: GtidSet, previous: GtidSet, received: GtidSet, purged: GtidSet) -> str:
    """Return why a copy that begins at ``start`` can't be followed from the relay log; "" if it
    can, or if no other log would help: what the copy needs is purged. Then the receiver stops."""
    if missing := previous.subtract(start):
        return f"it begins after {missing}, which the copy needs"
    if (missing := purged.subtract(received)) and purged.issubset(start):
        return f"it lacks {missing}, which the source has purged"
    return ""
