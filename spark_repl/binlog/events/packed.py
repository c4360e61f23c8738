"""Packed: a cursor over bytes that hold MySQL's packed (length-encoded) integers."""

from __future__ import annotations

from ...errors import DecodeError

_WIDTHS = {252: 2, 253: 3, 254: 8}


class Packed:
    """A cursor that reads
    ``data`` from front to back. It raises DecodeError, with the name ``what``, if the data ends
    early."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def read(self, count: int) -> bytes:
        if count > self.left:
            raise DecodeError(
                f"{self._what} is cut: {count} bytes wanted at {self._at}, {self.left} left",
                hint="the log is damaged here: fetch it again, or check it with mysqlbinlog",
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def skip(self, count: int) -> None:
        self.read(count)

    def number(self) -> int:
        first = self.read(1)[0]
        if first < 251:
            return first
        if first not in _WIDTHS:
            raise DecodeError(f"{self._what} has the byte {first} where a packed integer begins")
        return int.from_bytes(self.read(_WIDTHS[first]), "little")
