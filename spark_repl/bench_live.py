"""``bench receive``: how fast a source's whole log comes in."""

from __future__ import annotations

import tempfile
import threading
import time
from typing import Any

from .config import Config
from .gtid import GtidSet
from .relay.connection import connect
from .relay.receiver import Receiver

_POLL_S = 0.002


def bench_receive(config: Config) -> dict[str, Any]:
    """Receives everything that the source still has into a temporary folder.

    Raises SourceError. Shows up on the source as a replica of its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        executed, purged = _gtids(config)
        receiver = Receiver(config.override({"relay.path": folder}), purged)
        done: list[float] = []
        watching = threading.Thread(
            target=_watch, args=(receiver, executed.subtract(purged).count(), done), daemon=True
        )
        began = time.perf_counter()
        watching.start()
        receiver.run()
        watching.join()
        seconds = done[0] - began
        size = receiver.writer.total_bytes()
    return {
        "transactions": receiver.writer.transactions,
        "mb": round(size / 1e6, 1),
        "seconds": round(seconds, 3),
        "mb_per_s": round(size / 1e6 / seconds, 1),
    }


def _gtids(config: Config) -> tuple[GtidSet, GtidSet]:
    connection = connect(config.source)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")
            ((executed, purged),) = cursor.fetchall()
    finally:
        connection.close()
    return GtidSet.parse(executed), GtidSet.parse(purged)


def _watch(receiver: Receiver, want: int, done: list[float]) -> None:
    while receiver.writer.published_transactions < want:
        time.sleep(_POLL_S)
    done.append(time.perf_counter())
    receiver.stop()
