"""AppliedLog: the log that is applied, as far as the applier has read it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...control.records.log_identity import LogIdentity, indexed, record
from ...errors import LogError, SparkReplError
from ...observe.reports.progress_history import Backlog
from ...position import OFFSET_BITS, RelayPosition
from ...relay.lease import Lease
from ...relay.log import read_while_purged
from ...relay.record import gtid_name
from ...relay.source_places import SourcePlaces
from ...schedule.tasks import spans_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...control.table.control import Control
    from ...relay.index import TransactionIndex
    from ...relay.log import RelayLog
    from ...relay.source_places import SourcePlace
    from ...relay.span import Span
    from ...relay.xa_branches import Branch
    from ...schedule.group import Records


@dataclass(frozen=True)
class LogView:
    """A log as it was at one moment: its files, their history, and their transactions. ``at``: that
    moment, in seconds of UNIX time."""

    relay: RelayLog
    history: LogIdentity
    index: TransactionIndex
    at: float = field(default_factory=time.time)


class AppliedLog:
    """The log that the applier applies. ``path``: the log's folder. ``folder``: the folder of its
    index.

    ``refresh`` replaces ``view`` as a whole, so each thread sees files, history and index of the
    same moment.
    """

    def __init__(self, path: str, folder: str, control: Control, view: LogView) -> None:
        self.path, self.folder, self._control, self.view = path, folder, control, view
        self._lease, self._places = Lease(), SourcePlaces()

    @property
    def base(self) -> int:
        """Return the number that is added to file numbers in packed positions."""
        return self.view.history.base

    @property
    def start(self) -> int:
        """Return the packed position where the log's first file begins."""
        return RelayPosition(self.base + self.view.relay.files[0].number, 0).packed

    def hold(self, position: int) -> None:
        """Protect the file of this packed position, and later files, from purges until ``close`` or
        the next call. If that file was purged before, protect the first file that exists."""

        def see(relay: RelayLog) -> None:
            self._lease.hold(relay, (position >> OFFSET_BITS) - self.base)

        if self.view.relay.log_id:
            number = min((position >> OFFSET_BITS) - self.base, self.view.relay.files[-1].number)
            try:
                self._lease.hold(self.view.relay, number)
            except FileNotFoundError:
                read_while_purged(self.path, see)

    def hold_by(self, lease: Lease, position: int) -> None:
        """Move ``lease`` to the file of this packed position, independently of ``hold``. Do not
        move it if that file was purged."""
        relay = self.view.relay
        number = min((position >> OFFSET_BITS) - self.base, relay.files[-1].number)
        with suppress(FileNotFoundError):
            lease.hold(relay, number)

    def close(self) -> None:
        self._lease.release()

    def refresh(self) -> TransactionIndex:
        """Read the transactions that were appended since the last call; return the index. Raise
        LogError if a file was replaced, or if the receiver has begun a new log."""
        before = self.view

        def see(relay: RelayLog) -> tuple[LogIdentity, TransactionIndex]:
            if relay.log_id != before.relay.log_id:
                raise LogError(
                    "the receiver has begun a new relay log",
                    file=self.path,
                    hint="start the applier again: it goes on by GTID",
                )
            return indexed(relay, before.history, self.folder, before.index)

        relay, (history, index) = read_while_purged(self.path, see)
        self.view = LogView(relay, history, index)
        if history.fingerprints != before.history.fingerprints:
            record(self._control, history)
        return index

    def ahead(self, position: int) -> Backlog:
        """Return how much log there is after a packed position, as far as the log was read."""
        view = self.view
        index = view.index
        newest = index.before(index.end)
        if not len(newest):
            return Backlog()
        count, first = index.count_behind(position)
        return Backlog(count, _seconds(first), _seconds(newest), view.at)

    def spans(self, records: Records, branches: Mapping[int, Branch] = {}) -> tuple[Span, ...]:
        """Return the spans of consecutive transactions. ``branches``: see ``spans_of``."""
        return spans_of(self.view.relay, self.base, records, branches)

    def placed(self, error: SparkReplError, transaction: Any) -> SparkReplError:
        """Return the error after adding file, position and GTID of an index record's
        transaction."""
        place = RelayPosition.unpack(int(transaction["position"]))
        path = self.view.relay.file(place.file_no - self.base).path
        return error.at(file=path, position=place, gtid=gtid_name(transaction))

    def name_of(self, position: int) -> str:
        """Return FILE:OFFSET of a packed position, whether or not its file exists."""
        at = RelayPosition.unpack(position)
        names = {file.number + self.base: file.name for file in self.view.relay.files}
        return f"{names[at.file_no]}:{at.offset}" if at.file_no in names else str(at)

    def source_of(self, position: int) -> dict[str, Any]:
        """Return the source position of a transaction that ends at a packed position: server, file
        and offset. The file and offset are missing if the log does not record them."""
        view = self.view
        place = self._places.end_of(view.relay, view.index, position)
        return self._source(place) | {"relay": self.name_of(position)}

    def source_before(self, position: int) -> dict[str, Any]:
        """Return the source position where the transaction at a packed position begins."""
        view = self.view
        return self._source(self._places.begin_of(view.relay, view.index, position))

    def _source(self, place: SourcePlace | None) -> dict[str, Any]:
        return {"server_uuid": self.view.relay.source_uuid, **(place.to_json() if place else {})}

    def find(self, place: SourcePlace) -> int | None:
        """Return the packed position of a source position between two transactions. Return None if
        it is not in the log, or if this is another log."""
        view = self.view
        return self._places.find(view.relay, view.index, place)

    def first_place(self) -> SourcePlace | None:
        """Return the source position where the log begins."""
        return self._places.first(self.view.relay, self.view.index)

    def count_up_to(self, records: Any, place: SourcePlace) -> int:
        """Return how many of some consecutive records end at or before a source position. Raise
        HistoryError if their files are different files of the same name."""
        return self._places.count_up_to(records, self.view.relay, self.view.index, place)


def _seconds(records: Any) -> float:
    """Return when the first of some index records was committed, in seconds of UNIX time; 0 without
    records."""
    return int(records["commit_time"][0]) / 1e6 if len(records) else 0.0
