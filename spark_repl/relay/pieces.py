"""Pieces: the bytes of one transaction in several files, read as if they were one file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole events of a transaction: ``[begin, end)`` of a file."""

    path: str
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def size_of(pieces: Sequence[Piece]) -> int:
    return sum(piece.size for piece in pieces)


def open_pieces(pieces: Sequence[Piece]) -> BinaryIO:
    """Open the pieces end to end. Reading stops early if a file has become shorter."""
    return cast(BinaryIO, io.BufferedReader(_Joined(pieces)))


class _Joined(io.RawIOBase):
    """The pieces as one stream; only one file is open at a time."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces, self._at = pieces, 0
        self._file: BinaryIO | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: size_of(self._pieces)}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        begin = 0
        for piece in self._pieces:
            if self._at < begin + piece.size:
                file = self._opened(piece.path)
                file.seek(piece.begin + self._at - begin)
                most = min(len(buffer), begin + piece.size - self._at)
                count = file.readinto(memoryview(buffer)[:most])  # type: ignore[attr-defined]
                self._at += count
                return int(count)
            begin += piece.size
        return 0

    def _opened(self, path: str) -> BinaryIO:
        if self._file is None or self._file.name != path:
            self._close()
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        self._close()
        super().close()
