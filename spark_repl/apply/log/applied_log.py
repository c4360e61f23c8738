"""AppliedLog: the log that is applied, as far as it is known now."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...control.records.log_history import History, indexed, record
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
    from ...decode.staged import Span
    from ...relay.index import TransactionIndex
    from ...relay.log import RelayLog
    from ...relay.source_place import SourcePlace
    from ...schedule.branches import Branch
    from ...schedule.group import Records


@dataclass(frozen=True)
class LogView:
    """One look at a log: its files, whose history they are, and their transactions."""

    relay: RelayLog
    history: History
    index: TransactionIndex
    at: float = field(default_factory=time.time)


class AppliedLog:
    """``path``: the log's folder; ``folder``: where its index is kept. A look is replaced as a
    whole, so that any thread finds files, history and index of one moment."""

    def __init__(self, path: str, folder: str, control: Control, view: LogView) -> None:
        self.path, self.folder, self._control, self._view = path, folder, control, view
        self._lease, self._places = Lease(), SourcePlaces()

    @property
    def relay(self) -> RelayLog:
        return self._view.relay

    @property
    def history(self) -> History:
        return self._view.history

    @property
    def index(self) -> TransactionIndex:
        return self._view.index

    @property
    def base(self) -> int:
        """Added to the number in a file's name."""
        return self._view.history.base

    @property
    def start(self) -> int:
        """Where its first file begins, packed."""
        return RelayPosition(self.base + self.relay.files[0].number, 0).packed

    def hold(self, position: int) -> None:
        """Nobody's purge takes the file of this packed position, or one behind it, up to ``close``
        or another call. Where it went before, the first that is there is held."""

        def see(relay: RelayLog) -> None:
            self._lease.hold(relay, (position >> OFFSET_BITS) - self.base)

        if self.relay.log_id:
            number = min((position >> OFFSET_BITS) - self.base, self.relay.files[-1].number)
            try:
                self._lease.hold(self.relay, number)
            except FileNotFoundError:
                read_while_purged(self.path, see)

    def close(self) -> None:
        self._lease.release()

    def refresh(self) -> TransactionIndex:
        """Looks at what was appended since. Raises LogError for a file that was replaced, and when
        the receiver has begun a new log."""
        before = self._view

        def see(relay: RelayLog) -> tuple[History, TransactionIndex]:
            if relay.log_id != before.relay.log_id:
                raise LogError(
                    "the receiver has begun a new relay log",
                    file=self.path,
                    hint="start the applier again: it goes on by GTID",
                )
            return indexed(relay, before.history, self.folder, before.index)

        relay, (history, index) = read_while_purged(self.path, see)
        self._view = LogView(relay, history, index)
        if history.fingerprints != before.history.fingerprints:
            record(self._control, history)
        return index

    def ahead(self, position: int) -> Backlog:
        """What it holds behind a packed position, as far as it is known now."""
        view = self._view
        index = view.index
        newest = index.before(index.end)
        if not len(newest):
            return Backlog()
        count, first = index.count_behind(position)
        return Backlog(count, _seconds(first), _seconds(newest), view.at)

    def spans(self, records: Records, branches: Mapping[int, Branch] = {}) -> tuple[Span, ...]:
        """Where transactions lie that follow each other; ``branches``: see ``spans_of``."""
        return spans_of(self.relay, self.base, records, branches)

    def placed(self, error: SparkReplError, transaction: Any) -> SparkReplError:
        """The error with the file, position and GTID of an index record's transaction."""
        place = RelayPosition.unpack(int(transaction["position"]))
        path = self.relay.file(place.file_no - self.base).path
        return error.at(file=path, position=place, gtid=gtid_name(transaction))

    def name_of(self, position: int) -> str:
        """FILE:OFFSET of a packed position, whether or not its file is there."""
        at = RelayPosition.unpack(position)
        names = {file.number + self.base: file.name for file in self.relay.files}
        return f"{names[at.file_no]}:{at.offset}" if at.file_no in names else str(at)

    def source_of(self, position: int) -> dict[str, Any]:
        """Where a packed position, which is behind a transaction, stands in the source's terms:
        server, file, offset; without the last two where the log does not say them."""
        view = self._view
        place = self._places.end_of(view.relay, view.index, position)
        return self._source(place) | {"relay": self.name_of(position)}

    def source_before(self, position: int) -> dict[str, Any]:
        """The same of the place where the transaction begins that is at a packed position."""
        view = self._view
        return self._source(self._places.begin_of(view.relay, view.index, position))

    def _source(self, place: SourcePlace | None) -> dict[str, Any]:
        return {"server_uuid": self.relay.source_uuid, **(place.to_json() if place else {})}

    def find(self, place: SourcePlace) -> int | None:
        """The packed position of a place of the source that is between two transactions; None: the
        log does not hold it, or is another one."""
        view = self._view
        return self._places.find(view.relay, view.index, place)

    def first_place(self) -> SourcePlace | None:
        """The place of the source where the log begins."""
        return self._places.first(self._view.relay, self._view.index)

    def count_up_to(self, records: Any, place: SourcePlace) -> int:
        """How many of some records, which follow each other, end at or before a place of the
        source. Raises HistoryError where their files are others of the same name."""
        return self._places.count_up_to(records, self._view.relay, self._view.index, place)


def _seconds(records: Any) -> float:
    """When the first of some index records was committed; 0 where there is none."""
    return int(records["commit_time"][0]) / 1e6 if len(records) else 0.0
