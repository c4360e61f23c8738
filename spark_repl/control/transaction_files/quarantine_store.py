"""QuarantineStore: the bytes of transactions whose changes of a table are kept, below
``_repl/quarantine``: a folder for each quarantine, a file for each group that has some.

Invariant: files of transactions before a published cut are complete and synced. A file is the
transactions' events as they are in the relay log, one after the other, and then the place of each
in the log. Its name has the end of the last transaction in the log, and the owner's epoch. A file
that ends after the newest cut was kept by a run that was interrupted, and the log still has its
transactions. The cut's mark counts the transactions that each owner has kept: files that a sleeping
owner has added since do not count.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ... import formats
from ...crash_points import reach
from ...delta.store import storage
from ...delta.store.remover import Remover
from ...errors import QuarantineError, TargetError
from ...position import OFFSET_BITS
from ...relay.record import gtid_text
from ...relay.span import Span
from ...runtime.private_files import private_opener
from ...runtime.target_uri import is_remote
from .log_bytes import copy_bytes, durable_file

if TYPE_CHECKING:
    from typing import BinaryIO

Longs = npt.NDArray[np.int64]

_FORMAT = 2
"""2: the owner's epoch is in the name; files of format 1 are also read"""
_MAGIC = b"sparkrq1"
_TAIL = struct.Struct("<Q8s")
_EVENTS = ".events"
_NAME = re.compile(r"(\d{20})(?:-(\d+))?\.events")


@dataclass(frozen=True)
class KeptTransactions:
    """The transactions of one file. ``sizes`` in bytes, ``at``: their positions in the log's order
    (packed), ``ends``: their ends in that order; ``commit_times`` in microseconds."""

    path: str
    sizes: Longs
    at: Longs
    ends: Longs
    compressed: npt.NDArray[np.bool_]
    checksum: npt.NDArray[np.bool_]
    gtids: tuple[str, ...]
    commit_times: Longs

    @property
    def bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def epoch(self) -> int:
        """Return the epoch of the owner that kept the file; 0 if the name has none."""
        match = _NAME.fullmatch(os.path.basename(self.path))
        return int(match[2] or 0) if match else 0

    def spans(self, path: str = "") -> Iterator[tuple[Span, int]]:
        """Yield the spans of the file for workers, each with the index of its first transaction.
        ``path``: the file's path for workers."""
        edges = np.concatenate(([0], np.cumsum(self.sizes)))
        cuts = np.flatnonzero(np.diff(self.checksum.astype(np.int8))) + 1
        for chosen in np.split(np.arange(len(self.sizes)), cuts):
            at = self.at[chosen]
            yield Span(
                path or self.path, int(at[0]) >> OFFSET_BITS, edges[chosen], edges[chosen + 1],
                self.compressed[chosen], bool(self.checksum[chosen[0]]), at,
            ), int(chosen[0])  # fmt: skip


class QuarantineStore:
    """The files of kept transactions. ``folder``: the folder of all quarantines of a target;
    ``root``: the target's. ``epoch``: the epoch of the owner, which keeps transactions and removes
    them with the ``remover``."""

    def __init__(
        self, folder: str, root: str, epoch: int = 0, remover: Remover | None = None
    ) -> None:
        self.folder, self._root, self._epoch = folder, root, epoch
        self._remover = remover or Remover()

    def keep(self, number: str, spans: Sequence[Span], records: Any) -> KeptTransactions:
        """Copy the transactions of ``spans``, which have these index records, durably into the
        quarantine of this id. Raise OSError, and TargetError if the relay log is shorter."""
        transactions = KeptTransactions(
            self._path(number, int(records["end"][-1])),
            np.concatenate([span.ends - span.starts for span in spans]),
            records["position"].astype(np.int64),
            records["end"].astype(np.int64),
            np.concatenate([span.compressed for span in spans]),
            np.concatenate([np.full(len(span), span.checksum) for span in spans]),
            tuple(gtid_text(records)),
            records["commit_time"].astype(np.int64),
        )
        if is_remote(transactions.path):
            with storage.open_output(transactions.path) as out:
                _write(out, spans, transactions)
            return transactions
        with durable_file(
            transactions.path, self._root, "quarantine_keeping", private_opener
        ) as out:
            _write(out, spans, transactions)
        reach("quarantine_kept")
        return transactions

    def _path(self, number: str, end: int) -> str:
        owner = f"-{self._epoch}" if self._epoch else ""
        return os.path.join(self.folder, number, f"{end:020d}{owner}{_EVENTS}")

    def _names(self, number: str) -> list[str]:
        return sorted(storage.names(os.path.join(self.folder, number)))

    def kept(self, number: str, owners: Mapping[int, tuple[int, int]]) -> list[KeptTransactions]:
        """Return the kept transactions of a quarantine, in the log's order. Of each owner, by its
        epoch, return only the first ones, as many as the cut's mark counts. Raise OSError,
        TargetError and FormatError for a file that can't be read."""
        folder, missing = os.path.join(self.folder, number), {e: n for e, (n, _) in owners.items()}
        chosen = []
        for name in (name for name in self._names(number) if name.endswith(_EVENTS)):
            file = _read(os.path.join(folder, name))
            if missing.get(file.epoch, 0) > 0:
                missing[file.epoch] -= len(file.sizes)
                chosen.append(file)
        return chosen

    def clean(self, number: str, position: int, make_durable: Callable[[], None]) -> None:
        """Remove, at start, the transactions that were kept after the newest cut, at a packed
        position, because the log still has them. Remove them after ``make_durable`` has made that
        cut durable. Raise OSError, FencedError."""
        matches = [(name, _NAME.fullmatch(name)) for name in self._names(number)]
        later = [name for name, match in matches if not match or int(match[1]) > position]
        self._remover.files(
            (os.path.join(self.folder, number, name) for name in later), make_durable
        )

    def numbers(self) -> list[str]:
        """Return the ids of the quarantines that have files. Raise OSError."""
        return storage.names(self.folder)

    def forget(self, ended: Collection[str], make_durable: Callable[[], None]) -> None:
        """Remove the kept transactions of ended quarantines, after ``make_durable`` has made the
        record of their end durable. Raise OSError."""
        existing = set(self.numbers()) if ended else set()
        removable = [number for number in ended if number in existing]
        if removable:
            make_durable()
            for number in removable:
                reach("quarantine_forget")
                self._remover.folder(os.path.join(self.folder, number), bool)


def total(owners: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """Return (transactions, bytes) of all owners."""
    return sum(count for count, _ in owners.values()), sum(size for _, size in owners.values())


def check_whole(
    table: str, files: Iterable[KeptTransactions], owners: Mapping[int, tuple[int, int]]
) -> None:
    """Raise QuarantineError unless everything exists that the cut's mark counts for each owner."""
    by_owner = dict.fromkeys(owners, (0, 0))
    for file in files:
        transactions, size = by_owner[file.epoch]
        by_owner[file.epoch] = transactions + len(file.sizes), size + file.bytes
    if by_owner != dict(owners):
        (count, size), (whole, all_bytes) = total(by_owner), total(owners)
        raise QuarantineError(
            f"{count} transactions of {size} bytes are kept, and the cut's mark says {whole} of"
            f" {all_bytes} bytes", table=table,
            hint=f"copy the table again: spark-repl snapshot --config F --table {table}",
        )  # fmt: skip


def _write(out: BinaryIO, spans: Sequence[Span], transactions: KeptTransactions) -> None:
    for span in spans:
        gaps = np.flatnonzero(span.starts[1:] != span.ends[:-1]) + 1
        firsts, lasts = np.append(0, gaps), np.append(gaps, len(span)) - 1
        with span.open() as source:
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
                source.seek(int(span.starts[first]))
                copy_bytes(source, out, int(span.ends[last] - span.starts[first]), span.path)
    fields = {
        "sizes": transactions.sizes.tolist(),
        "at": transactions.at.tolist(),
        "ends": transactions.ends.tolist(),
        "compressed": transactions.compressed.tolist(),
        "checksum": transactions.checksum.tolist(),
        "gtids": list(transactions.gtids),
        "commit_times": transactions.commit_times.tolist(),
    }
    text = formats.stamp(json.dumps(fields), _FORMAT).encode()
    out.write(text + _TAIL.pack(len(text), _MAGIC))


def _read(path: str) -> KeptTransactions:
    with storage.open_input(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL.size))
        tail = file.read()
        length, magic = _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")
        if magic != _MAGIC or length > size:
            raise TargetError(
                "a file of the quarantine is damaged", file=path,
                hint="restore it; or copy its table again: spark-repl snapshot --config F --table"
                " DB.T",
            )  # fmt: skip
        file.seek(size - _TAIL.size - length)
        text = file.read(length).decode()
    fields = json.loads(formats.unstamp(text, _FORMAT, "a file of the quarantine", path))
    transactions = KeptTransactions(
        path,
        np.array(fields["sizes"], np.int64),
        np.array(fields["at"], np.int64),
        np.array(fields["ends"], np.int64),
        np.array(fields["compressed"], np.bool_),
        np.array(fields["checksum"], np.bool_),
        tuple(fields["gtids"]),
        np.array(fields["commit_times"], np.int64),
    )
    if transactions.bytes != size - _TAIL.size - length:
        raise TargetError("a file of the quarantine is damaged", file=path)
    return transactions
