"""AppliedLog: the log that is applied, as far as it is known now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..control.history import History, indexed, record
from ..errors import LogError, SparkReplError
from ..position import OFFSET_BITS, RelayPosition
from ..relay.look import look
from ..relay.record import gtid_name

if TYPE_CHECKING:
    from ..control.control import Control
    from ..relay.index import TransactionIndex
    from ..relay.log import RelayLog


@dataclass(frozen=True)
class LogView:
    """One look at a log: its files, whose history they are, and their transactions."""

    relay: RelayLog
    history: History
    index: TransactionIndex


class AppliedLog:
    """``path``: the log's folder; ``folder``: where its index is kept. A look is replaced as a
    whole, so that any thread finds files, history and index of one moment."""

    def __init__(self, path: str, folder: str, control: Control, view: LogView) -> None:
        self.path, self.folder, self._control, self._view = path, folder, control, view

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

        relay, (history, index) = look(self.path, see)
        self._view = LogView(relay, history, index)
        if history.fingerprints != before.history.fingerprints:
            record(self._control, history)
        return index

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
        """Where a packed position stands in the source's terms: server, file, offset."""
        file = self.relay.file((position >> OFFSET_BITS) - self.base).name
        offset = RelayPosition.unpack(position).offset
        return {
            "server_uuid": self.relay.source_uuid,
            "file": file,
            "position": offset,
            "relay": f"{file}:{offset}",
        }
