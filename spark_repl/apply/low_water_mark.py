"""LowWaterMark: up to where every table has everything, and the cuts that are published there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..control.control import Cut
from ..control.copies import CatchUp
from ..control.history import History
from ..control.xa_store import XaStore
from ..crash_points import reach
from ..gtid import GtidSet
from ..position import OFFSET_BITS, RelayPosition
from ..relay.log import RelayLog
from ..schedule.branches import Branch
from ..write.tracking import Tracking
from .plan import Group


def cut_behind(group: Group, relay: RelayLog, history: History) -> Cut:
    """What a cut behind the group says, without the tables' versions."""
    file = relay.file((group.end >> OFFSET_BITS) - history.base).name
    offset = RelayPosition.unpack(group.end).offset
    source = {
        "server_uuid": relay.source_uuid,
        "file": file,
        "position": offset,
        "relay": f"{file}:{offset}",
        "commit_time": int(group.records["commit_time"][-1]),
    }
    executed = str(group.executed.union(group.gtids))
    prepared = tuple(branch.to_json() for branch in group.xa.prepared)
    return Cut(
        group.end, executed, history.log_id, source, {}, prepared=prepared, group=str(group.gtids)
    )


class LowWaterMark:
    """Moves over whole groups, in log order. ``position``: packed end of the last transaction that
    every table has, ``by_hand``: how many XA branches were ended by hand there. ``publish`` writes
    a cut, retries and all."""

    def __init__(
        self, tracking: Tracking, store: XaStore, catch_up: CatchUp, executed: GtidSet,
        position: int, by_hand: int, publish: Callable[[Cut], None],
    ) -> None:  # fmt: skip
        self._publish = publish
        self.executed, self.position, self.by_hand = executed, position, by_hand
        self._tracking, self._store, self._catch_up = tracking, store, catch_up
        self._ended: list[Branch] = []  # since the last cut

    def advance(self, group: Group, cut: Cut, transactions: int, *, still: bool) -> bool:
        """Whether there is a cut behind the group: the tables are all of one state of the source.

        ``still``: no table is being written. Raises what ``publish`` does.
        """
        self.executed, self.position = self.executed.union(group.gtids), cut.position
        self._ended += group.xa.ended
        tables = sorted(dict(self._tracking.tables).items())
        # After a crash a table may be ahead: until the others have caught up there is no cut.
        behind = self._catch_up.active(self.executed) or self._tracking.is_ahead(self.executed)
        if not still or behind or any(table.position > group.end for _, table in tables):
            return False
        self.by_hand = self.by_hand if cut.position < group.end else 0
        counts = {
            "transactions": transactions,
            "waves": len(np.unique(group.wave)),
            "by_hand": self.by_hand,
        }
        versions = {name: table.version() for name, table in tables}
        # A cut whose answer was lost is found, not written twice (``Control.write``); without it
        # the tables have their positions themselves, and the next group's shows them.
        reach("before_cut")
        self._publish(replace(cut, tables=versions, counts=counts))
        self._store.forget(self._ended)
        self._ended = []
        reach("after_cut")
        return True
