"""Span: transactions of one file of the relay log, as a worker reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..binlog.events.transaction import Flag
from ..position import OFFSET_BITS, OFFSET_MASK
from .split_transactions import Piece, open_pieces, size_of

if TYPE_CHECKING:
    from .remote_bytes import RemoteBytes, SentBytes

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """Transactions of one file, ascending: int64[n] offsets of starts and ends, bool[n] flags.

    Transactions of other workers may be between them. ``at``: packed positions in the order of the
    log, if they differ from the transactions' places: a prepared XA branch counts at its XA COMMIT.
    ``pieces``: the parts of a transaction in several files. Offsets then count in the concatenated
    pieces, and ``path`` is the file in which the transaction begins. ``source``: from where a
    worker reads the bytes if it can't open the files.
    """

    path: str
    file_no: int
    starts: Longs
    ends: Longs
    compressed: npt.NDArray[np.bool_]
    checksum: bool
    at: Longs | None = None
    pieces: tuple[Piece, ...] = ()
    source: RemoteBytes | SentBytes | None = None

    def part(self, first: int, last: int) -> Span:
        """Return the span of transactions ``first`` up to, but not including, ``last``."""
        return replace(
            self,
            starts=self.starts[first:last],
            ends=self.ends[first:last],
            compressed=self.compressed[first:last],
            at=None if self.at is None else self.at[first:last],
        )

    @classmethod
    def joined(
        cls, pieces: tuple[Piece, ...], position: int, *, compressed: bool, checksum: bool
    ) -> Span:
        """Return the span of one transaction in several files, at a packed ``position``."""
        return cls(
            pieces[0].path,
            position >> OFFSET_BITS,
            np.zeros(1, np.int64),
            np.array([size_of(pieces)], np.int64),
            np.array([compressed]),
            checksum,
            np.array([position], np.int64),
            pieces,
        )

    @classmethod
    def of(cls, path: str, file_no: int, records: Any) -> Span:
        """Return the span of index records of one file, given in the log's order as an array or as
        columns."""
        return cls(
            path,
            file_no,
            (records["position"] & OFFSET_MASK).astype(np.int64),
            (records["end"] & OFFSET_MASK).astype(np.int64),
            records["flags"] & Flag.COMPRESSED != 0,
            bool(records["flags"][0] & Flag.CHECKSUM),
        )

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def positions(self) -> Longs:
        """Return the packed positions of the transactions."""
        if self.at is not None:
            return self.at
        return (np.int64(self.file_no) << OFFSET_BITS) + self.starts

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: four bytes for each transaction instead of 17."""
        lengths, gaps = self.ends - self.starts, self.starts[1:] - self.ends[:-1]
        narrow = np.uint32 if lengths.max(initial=0) >> 32 == 0 else np.int64
        apart = np.flatnonzero(gaps)
        places = self.starts[:1], lengths.astype(narrow), apart, gaps[apart]
        packed = {"starts": places, "ends": None, "compressed": np.packbits(self.compressed)}
        return {**self.__dict__, **packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        first, lengths, apart, gaps = state["starts"]
        steps = lengths.astype(np.int64)
        ends = np.cumsum(steps) + first
        ends[1:] += np.cumsum(np.bincount(apart, gaps, max(0, len(ends) - 1)).astype(np.int64))
        bits = np.unpackbits(state["compressed"], count=len(ends)).astype(np.bool_)
        self.__dict__.update(state, starts=ends - steps, ends=ends, compressed=bits)

    def open(self) -> BinaryIO:
        """Open the bytes in which the offsets count."""
        if self.source is not None:
            return self.source.open()
        return open_pieces(self.pieces) if self.pieces else open(self.path, "rb")
