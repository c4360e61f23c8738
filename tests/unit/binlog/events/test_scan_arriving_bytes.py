"""Every fixture fed whole, byte by byte ("need more"), and with a tail behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spark_repl.binlog.events.scan import scan
from spark_repl.binlog.events.transaction import Stop
from spark_repl.relay.log import open_log

FIXTURES = Path(__file__).parents[3] / "fixtures"
# sysbench's has 440 transactions of one kind, which others have too.
LOGS = sorted(
    p
    for p in FIXTURES.rglob("*.[0-9]*")
    if p.is_file() and p.read_bytes()[:4] == b"\xfebin" and p.parent.name != "oltp"
)
SMALL_BYTES = 8000


def test_every_recorded_log_is_tested() -> None:
    folders = {path.parent.name for path in LOGS}
    assert {"all_types", "minimal_metadata", "row_images", "relay", "killed", "in_use"} <= folders
    assert len(LOGS) > 20


@pytest.mark.parametrize("path", LOGS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_more_bytes_are_needed_until_a_transaction_is_whole(path: Path) -> None:
    """What was found stays. Of a large file: around the edges of each event."""
    data = np.fromfile(path, np.uint8)
    edges = None if data.size <= SMALL_BYTES else 24
    _arrives(path, data, edges)


@pytest.mark.soak
@pytest.mark.parametrize("path", [p for p in LOGS if p.stat().st_size > SMALL_BYTES])
def test_large_logs_are_scanned_whatever_bytes_have_arrived(path: Path) -> None:
    _arrives(path, np.fromfile(path, np.uint8), None)


def _arrives(path: Path, data: np.ndarray, edges: int | None) -> None:
    log = open_log(str(path))
    head = log.head(log.files[0].number)
    relay, at, checksum = head.own.is_relay_log, head.length, head.source.checksum
    whole = scan(data, at, checksum, relay=relay)
    assert whole.stop == Stop.END
    for tail, stop in ((bytes(40), Stop.NO_EVENT), (b"\xff" * 40, Stop.CUT), (b"\1", Stop.CUT)):
        longer = np.concatenate([data, np.frombuffer(tail, np.uint8)])
        found = scan(longer, at, checksum, relay=relay)
        assert (found.stop, found.resume) == (stop, whole.resume)
        assert np.array_equal(found.numbers, whole.numbers)
    done = 0
    for size in _sizes(data, at, edges):
        found = scan(data[:size], at, checksum, relay=relay)
        assert found.stop in (Stop.END, Stop.OPEN, Stop.CUT)
        count = len(found.numbers)
        assert np.array_equal(found.numbers, whole.numbers[done : done + count])
        assert (found.stop == Stop.END) == (found.resume == size)
        done, at, checksum = done + count, found.resume, found.checksum
    assert done == len(whole.numbers)


def _sizes(data: np.ndarray, start: int, edges: int | None) -> Iterator[int]:
    """Each size, or only those up to so many bytes from where an event begins."""
    while start < data.size:
        end = start + int.from_bytes(data[start + 9 : start + 13].tobytes(), "little")
        near = end if edges is None else min(end, start + edges)
        yield from range(start, near)
        yield from range(max(near, end - 2), end)
        start = end
    yield data.size
