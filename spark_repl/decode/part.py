"""Part: changes of one table, as they pass from a worker to another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Part:
    """Net changes of one table and shard: an Arrow IPC stream in a file, or here.

    ``whole``: rows move between keys, or have none: a task has to see all shards of the table.
    ``asks``: and what becomes of them depends on the target's rows (``write.key_changes``).
    ``twins``: rows of different bytes may be one value (``binlog.rows.twins``).
    """

    table: str
    shard: int
    rows: int
    path: str | None = None
    offset: int = 0
    length: int = 0
    blob: bytes | None = None
    whole: bool = False
    asks: bool = False
    twins: bool = False

    def read(self) -> pa.Table:
        if self.blob is not None:
            return pa.ipc.open_stream(self.blob).read_all()
        with open(self.path or "", "rb") as file:
            file.seek(self.offset)
            return pa.ipc.open_stream(file.read(self.length)).read_all()


def rows_of(parts: Iterable[Part]) -> int:
    """How many rows the parts have."""
    return sum(part.rows for part in parts)


def first_of(parts: Iterable[Part]) -> int | None:
    """The packed position of the first transaction that the parts have a change of; None where they
    have none. Reads them."""
    firsts = (pc.min(pc.list_flatten(part.read()["positions"])).as_py() for part in parts)
    return min((position for position in firsts if position is not None), default=None)
