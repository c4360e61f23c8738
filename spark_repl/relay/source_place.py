"""SourcePlace: a place in the source's own binary log, and whether another place lies before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BEGIN_AGAIN, HistoryError
from .log import split_name

_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """``file``, ``position``: as the source's SHOW BINARY LOG STATUS has them. ``began``: when that
    file was begun (seconds, of its FORMAT_DESCRIPTION), ``server_id``: who wrote it: after RESET,
    or on another server, files of the same name come again, and these tell them apart."""

    file: str
    position: int
    began: int = 0
    server_id: int = 0

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> SourcePlace | None:
        """The place that a cut's ``source`` or a commit's names; None where it has none: a version
        before this one wrote the relay log's file there, without ``began``."""
        if not source.get("file") or "began" not in source:
            return None
        return cls(source["file"], source["position"], source["began"], source.get("server_id", 0))

    def to_json(self) -> dict[str, Any]:
        return {
            "server_id": self.server_id,
            "file": self.file,
            "position": self.position,
            "began": self.began,
        }

    @property
    def _order(self) -> tuple[int, int]:
        return split_name(self.file)[1], self.position

    def is_of_log(self, other: SourcePlace) -> bool:
        """Whether both are of one server's log, as far as their files tell."""
        same = split_name(self.file)[0] == split_name(other.file)[0]
        return same and self.server_id == other.server_id and not self._contradicts(other)

    def _contradicts(self, other: SourcePlace) -> bool:
        own, theirs = (self.began, self.server_id), (other.began, other.server_id)
        return self.file == other.file and own != theirs

    def reaches(self, other: SourcePlace) -> bool:
        """Whether everything up to ``other`` is before this place. Of a log with other names (the
        source's log_bin was changed) nothing is. Raises HistoryError where both are of files of one
        name that are not the same."""
        if self._contradicts(other):
            raise HistoryError(
                f"{other} is not of the source's log that was applied before, which stands at"
                f" {self}: a file of that name was begun at another time, or by another server",
                hint=f"the source was RESET, or is another one: {BEGIN_AGAIN}",
            )
        if split_name(self.file)[0] != split_name(other.file)[0]:
            return False
        return self._order >= other._order

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


def unwrapped(position: int, near: int) -> int:
    """A position of which an event has the low 32 bits: the one next to ``near``. Files are larger
    where a transaction is."""
    return position + max(0, round((near - position) / _WRAP)) * _WRAP
