"""SourcePlace: a position in the source's own binary log, and its order among other positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BEGIN_AGAIN, HistoryError
from .log import split_name

_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A position of SHOW BINARY LOG STATUS on the source: ``file`` and ``position``.

    ``began``: when the file was begun, in seconds since 1970 UTC, of its FORMAT_DESCRIPTION.
    ``server_id``: the server that wrote it. Both distinguish files of one name: after RESET, or on
    another server, names come again.
    """

    file: str
    position: int
    began: int = 0
    server_id: int = 0

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> SourcePlace | None:
        """Return the place that the ``source`` of a cut or a commit names; None if it names none.

        A version before this one wrote the relay log's file there, without ``began``.
        """
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
        """Return whether both places are of one server's log, as far as their files show it."""
        same = split_name(self.file)[0] == split_name(other.file)[0]
        return same and self.server_id == other.server_id and not self._contradicts(other)

    def _contradicts(self, other: SourcePlace) -> bool:
        own, theirs = (self.began, self.server_id), (other.began, other.server_id)
        return self.file == other.file and own != theirs

    def reaches(self, other: SourcePlace) -> bool:
        """Return whether everything up to ``other`` is before this place.

        False for a log with other file names (the source's log_bin was changed). Raises
        HistoryError if both files have one name and are different files.
        """
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
    """Return the full position of an event that records its low 32 bits: the candidate nearest to
    ``near``.

    A transaction can make a file larger than 4 GiB.
    """
    return position + max(0, round((near - position) / _WRAP)) * _WRAP
