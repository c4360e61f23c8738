"""Until: where the applier stops (``--until``)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, LogError
from ..gtid import GtidSet
from ..position import OFFSET_BITS
from ..relay.source_places import SourcePlaces, is_received

if TYPE_CHECKING:
    from ..relay.index import TransactionIndex
    from ..relay.log import RelayLog

Records = npt.NDArray[Any]

AFTER_GAPS = "after-gaps"
_FORMS = f"{AFTER_GAPS}, before-gtids:SET, after-gtids:SET, source:FILE:POS or relay:FILE:POS"
_PLACE = re.compile(r"(.+):(\d+)")


@dataclass(frozen=True)
class Until:
    """A condition as in MySQL's UNTIL: SQL_BEFORE_GTIDS, SQL_AFTER_GTIDS, SOURCE_LOG_POS,
    RELAY_LOG_POS, and SQL_AFTER_MTS_GAPS, whose position depends on the target
    (``apply.group.gaps``).

    With a position the applier stops after the transaction that reaches it. With GTIDs before which
    to stop, it stops at once if one of them is already applied.
    """

    kind: str
    gtids: GtidSet
    file: str = ""
    offset: int = 0
    _places: SourcePlaces = field(default_factory=SourcePlaces, compare=False)

    @classmethod
    def parse(cls, text: str) -> Until:
        """Parse one of the five forms. Raise ConfigError for any other text."""
        kind, _, rest = text.partition(":")
        if text == AFTER_GAPS:
            return cls(kind, GtidSet())
        if kind in ("before-gtids", "after-gtids") and rest:
            return cls(kind, GtidSet.parse(rest))
        place = _PLACE.fullmatch(rest)
        if kind in ("source", "relay") and place:
            return cls(kind, GtidSet(), place[1], int(place[2]))
        raise ConfigError(f"--until {text}: not understood", hint=f"give {_FORMS}")

    @property
    def is_after_gaps(self) -> bool:
        return self.kind == AFTER_GAPS

    def check_file(self, relay: RelayLog) -> None:
        """Raise LogError if the position's file is not in the log.

        A position on the source in a received log is not checked: the log may not have received
        that file yet.
        """
        if self.kind == "source" and is_received(relay):
            return
        if self.file and self.file not in {file.name for file in relay.files}:
            raise LogError(
                f"--until names the file {self.file}, which this log has not",
                file=relay.path,
                hint="spark-repl relay ls shows the files",
            )

    def count_before(
        self, records: Records, executed: GtidSet, relay: RelayLog, base: int
    ) -> int | None:
        """Return how many of the records come before the stop; None if the stop is not among
        them."""
        if self.kind == "after-gtids":
            return self._after(records, executed)
        if self.kind == "before-gtids":
            if self.gtids.intersect(executed):
                return 0
            wanted = self.gtids.contains_arrays(records["uuid"], records["gno"], records["tag"])
            hits = np.flatnonzero(wanted)
            return int(hits[0]) if len(hits) else None
        if self.kind == "source" and is_received(relay):
            place = self.file, self.offset
            reached, before = self._places.reached(records, relay, base, place)
            hits = np.flatnonzero(reached)
            return int(hits[0]) + int(before[hits[0]]) if len(hits) else None
        packed = self._packed(relay, base)
        hits = np.flatnonzero(records["end"] >= packed)
        return int(hits[0]) + int(records["position"][hits[0]] < packed) if len(hits) else None

    def is_reached(
        self, index: TransactionIndex, position: int, executed: GtidSet, relay: RelayLog
    ) -> bool:
        """Return whether the stop is reached at ``position`` although no transaction follows.

        Without this check the applier would wait for a next transaction on an idle source.
        """
        if len(index.slice(position, index.end, 1)):
            return False
        if self.file and not (self.kind == "source" and is_received(relay)):
            return index.end >= self._packed(relay, index.base)
        return self.count_before(index.before(position), executed, relay, index.base) is not None

    def _packed(self, relay: RelayLog, base: int) -> int:
        number = next(f.number for f in relay.files if f.name == self.file) + base
        return (number << OFFSET_BITS) + self.offset

    def _after(self, records: Records, executed: GtidSet) -> int | None:
        missing = self.gtids.subtract(executed)
        if not missing:
            return 0
        wanted = missing.contains_arrays(records["uuid"], records["gno"], records["tag"])
        if int(np.count_nonzero(wanted)) < missing.count():
            return None
        return int(np.flatnonzero(wanted)[-1]) + 1
