"""StreamPlace: a reader's position, and the log to which it belongs. The same position of another
log is another transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import formats
from ..errors import LogError
from ..position import OFFSET_BITS, START, RelayPosition
from .file_list import file_name

if TYPE_CHECKING:
    from .log import RelayLog

_FORMAT = 2  # 1: a position alone
_HINT = (
    "begin again with another checkpoint, and say by `start` behind which position of this log;"
    " the applier itself goes on by GTID"
)


@dataclass(frozen=True, slots=True)
class StreamPlace:
    position: int
    """packed"""
    log_id: str = ""
    """a receiver's log's own, or in a recorded log its file's fingerprint; "": not known"""

    @classmethod
    def at(cls, position: int, log: RelayLog, base: int) -> StreamPlace:
        """Return a position in this log. Raise LogError if the log has no such file."""
        cls(position).check(log, base)
        return cls(position, _log_id(log, (position >> OFFSET_BITS) - base))

    @classmethod
    def beginning(cls, log: RelayLog, base: int) -> StreamPlace:
        """Return the log's current beginning. A purge of its first file is detected and reported
        later."""
        return cls.at(RelayPosition(base + log.files[0].number, 0).packed, log, base)

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> StreamPlace:
        """Return the position that ``to_offset`` wrote; an earlier version wrote positions only.
        Raise FormatError for an offset of a later version."""
        formats.check(int(offset.get("format", 1)), _FORMAT, "the stream's checkpoint")
        return cls(int(offset["position"]), str(offset.get("log", "")))

    def to_offset(self) -> dict[str, Any]:
        return {"position": self.position, "log": self.log_id, "format": _FORMAT}

    def check(self, log: RelayLog, base: int) -> None:
        """Raise LogError if the position was purged or belongs to another log."""
        if self.position == START.packed:
            return  # an earlier version wrote the beginning so, whatever that is
        number, first = (self.position >> OFFSET_BITS) - base, log.files[0]
        log_id = _log_id(log, number) if log.log_id or log.holds(number) else ""
        renewed = bool(self.log_id and log_id) and self.log_id != log_id
        if renewed or number > log.files[-1].number:
            raise LogError(
                f"the stream's place {self._name(log, base)} is one of another log than the one"
                f" that is there now, {first.name} to {log.files[-1].name}",
                file=log.path,
                hint=_HINT,
            )
        if number < first.number:
            raise LogError(
                f"the stream's place {self._name(log, base)} was purged: the log begins with"
                f" {first.name}, and what was between them is lost to this stream",
                file=log.path,
                hint=_HINT,
            )

    def _name(self, log: RelayLog, base: int) -> str:
        at = RelayPosition.unpack(self.position)
        number = at.file_no - base
        if log.holds(number):
            return f"{log.file(number).name}:{at.offset}"
        return f"{file_name(number)}:{at.offset}" if log.log_id and number > 0 else str(at)


def _log_id(log: RelayLog, number: int) -> str:
    """Return the log's id, or the file's fingerprint; "" while the file's head is incomplete."""
    if log.log_id:
        return log.log_id
    return log.fingerprint(number) if log.head_complete(number) else ""
