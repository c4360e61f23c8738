"""Relay logs with an archive: what a receiver writes, archives and restores, without a source."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spark_repl.crash_points import listening
from spark_repl.receiver.archiver import Archiver
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.archive import RelayArchive
from spark_repl.relay.archived_ranges import archived_chunks
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.runtime.stores import store_of
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive

TARGET = "memory://bank/lake"
FILE_BYTES = 2000
TRANSACTIONS = 30
_TABLE = Table("a")


def write_source(folder: Path) -> list[Path]:
    """Write a source's log of several files."""
    log = LogWriter(folder)
    log.ddl(_TABLE.create)
    for i in range(TRANSACTIONS - 1):
        log.transaction(insert(_TABLE, (i, "x" * (i * 7))))
        if i in (9, 19):
            log.rotate()
    return sorted(log.folder.iterdir())


def new_archive() -> RelayArchive:
    """Return an empty archive in memory."""
    return RelayArchive(f"memory://bank/{uuid.uuid4()}/relay")


def opened(folder: Path) -> RelayWriter:
    return RelayWriter(folder, 4711, Limits(FILE_BYTES))


def archiver(
    folder: Path,
    archive: RelayArchive,
    *,
    target: str = TARGET,
    target_id: str = "",
    chunk_bytes: int = 300,
    after_s: float = 0.0,
    clock: Callable[[], float] = lambda: 0.0,
) -> Archiver:
    return Archiver(
        folder, archive, target, target_id=target_id, chunk_bytes=chunk_bytes, after_s=after_s,
        clock=clock,
    )  # fmt: skip


class KilledError(BaseException):
    """Ends the work of a process at a crash point, as a kill does."""


@contextmanager
def killed_after(point: str, count: int) -> Iterator[None]:
    """Raise KilledError in the block when the point is reached more than ``count`` times."""
    reached = 0

    def kill(name: str) -> None:
        nonlocal reached
        reached += name == point
        if reached > count:
            raise KilledError

    with listening(kill):
        yield


def received(folder: Path, files: Sequence[Path]) -> None:
    """Receive what the log in ``folder`` lacks of the source's files."""
    with opened(folder) as writer:
        receive(writer, list(files))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the published bytes of each file."""
    log = open_log(str(folder))
    return {file.name: Path(file.path).read_bytes()[: log.size(file.number)] for file in log.files}


def archived(archive: RelayArchive, generation: int) -> dict[str, bytes]:
    """Return the bytes of each file in a generation of the archive."""
    log = next(log for log in archive.logs() if log.generation == generation)
    return {
        f"relay.{file.number:06d}": b"".join(
            store_of(chunk.uri).read(chunk.uri) for chunk in file.chunks
        )
        for file in log.files
    }


def recorded(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each file in the archive, by the records beside the log."""
    return {
        file.name: b"".join(
            store_of(chunk.uri).read(chunk.uri) for chunk in archived_chunks(folder, file.number)
        )
        for file in open_log(str(folder)).files
    }


def transactions(folder: Path) -> list[bytes]:
    """Return the bytes of every transaction that readers see."""
    log = open_log(str(folder))
    bodies = []
    for record in build_index(log, f"{folder}-index").records:
        number, offset = int(record["position"]) >> 40, int(record["position"]) & (1 << 40) - 1
        data = Path(log.file(number).path).read_bytes()
        bodies.append(data[offset : offset + int(record["length"])])
    return bodies
