"""``bench receive``, ``bench latency``: what a live source and this machine do together."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .applier_status import Counters
from .config import Config
from .errors import SetupError, SourceError
from .gtid import GtidSet
from .live import Supervisor, wait_for_log
from .relay.connection import connect, password_of
from .relay.index import build_index
from .relay.log import open_log
from .relay.receiver import Receiver
from .session import build_session

_POLL_S = 0.002
_WARM_UP_S = 20.0


def bench_receive(config: Config, mysqlbinlog: str = "", runs: int = 1) -> dict[str, Any]:
    """Receives everything that the source still has into a temporary folder; with the path of
    ``mysqlbinlog`` that one too, by turns. The best of ``runs`` counts.

    Raises SourceError, SetupError. Shows up on the source as a replica of its own.
    """
    found, others = list[dict[str, Any]](), list[float]()
    for _ in range(max(1, runs)):
        if mysqlbinlog:
            others.append(_raw(config, mysqlbinlog))
        found.append(_receive(config))
    best = min(found, key=lambda run: run["seconds"])
    if others:
        best["mysqlbinlog_mb_per_s"] = round(best["mb"] / min(others), 1)
    return best


def _receive(config: Config) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        executed, purged = _gtids(config)
        receiver = Receiver(config.override({"relay.path": folder}), purged)
        done: list[float] = []
        watching = threading.Thread(
            target=_watch, args=(receiver, executed.subtract(purged).count(), done), daemon=True
        )
        began, cpu = time.perf_counter(), time.process_time()
        watching.start()
        receiver.run()
        watching.join()
        seconds, cpu = done[0] - began, time.process_time() - cpu
        size = receiver.writer.total_bytes()
        records = build_index(open_log(folder), os.path.join(folder, "index")).records
    return {
        "transactions": len(records),
        "mb": round(size / 1e6, 1),
        "seconds": round(seconds, 3),
        "cpu_s": round(cpu, 3),
        "mb_per_s": round(size / 1e6 / seconds, 1),
        "transactions_per_s": round(len(records) / seconds),
    }


def _raw(config: Config, mysqlbinlog: str) -> float:
    """Seconds that ``mysqlbinlog --raw`` takes for the same."""
    source = config.source
    connection = connect(source)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            first = str(cursor.fetchall()[0][0])
    finally:
        connection.close()
    place = [f"--socket={source.socket}"] if source.socket else [
        "--protocol=TCP", f"--host={source.host}", f"--port={source.port}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        command = [
            mysqlbinlog, "--no-defaults", "--read-from-remote-server", "--raw", "--to-last-log",
            f"--result-file={Path(folder)}/", f"--user={source.user}",
            f"--ssl-mode={source.tls.upper()}", f"--connection-server-id={source.server_id}",
            *place, first,
        ]  # fmt: skip
        began = time.perf_counter()
        environment = {**os.environ, "MYSQL_PWD": password_of(source)}
        try:
            ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        except OSError as error:
            raise SetupError(f"{mysqlbinlog}: {error.strerror}") from error
        if ran.returncode:
            raise SetupError(f"mysqlbinlog failed: {ran.stderr.strip()}")
        return time.perf_counter() - began


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


def bench_latency(config: Config, config_file: str, seconds: int) -> dict[str, Any]:
    """How long transactions take from the source's commit to the cut that shows them, under the
    load that the source has meanwhile. Starts ``run``'s receiver and applier on the configured
    target; what is committed in the first 20 s (a cold JVM) doesn't count.

    Needs the source's clock to be this machine's. Raises what ``run`` raises.
    """
    from .replica import Replica

    shown: list[tuple[float, int]] = []  # when a cut was published, its packed position

    def on_group(_: Counters, position: int) -> None:
        shown.append((time.time(), position))

    with Supervisor(config, config_file) as receiver:
        spark = build_session(master=f"local[{config.apply.workers}]", target=config.target.path)
        wait_for_log(config, receiver, threading.Event())
        with Replica(spark, config, on_group) as replica:
            begin = time.time() + _WARM_UP_S
            threading.Timer(_WARM_UP_S + seconds, replica.stop).start()
            replica.apply(follow=True)
            records = replica.index.records
        if receiver.error is not None:
            raise receiver.error
    first = int(np.searchsorted(records["commit_time"], begin * 1e6))
    took = _latencies(records[first:], shown)
    if not len(took):
        raise SourceError("nothing was committed on the source", hint="put it under load meanwhile")
    half, most, worst = (round(float(at), 3) for at in np.quantile(took, (0.5, 0.99, 1)))
    return {
        "transactions": len(took),
        "transactions_per_s": round(len(took) / seconds),
        "p50_s": half,
        "p99_s": most,
        "max_s": worst,
        "cuts": len(shown),
    }


def _latencies(records: Any, shown: list[tuple[float, int]]) -> npt.NDArray[np.float64]:
    """Seconds from each commit to the first cut at or behind its end, of those that have one."""
    moment = np.array([at for at, _ in shown])
    cut = np.searchsorted([position for _, position in shown], records["end"])
    seen = cut < len(shown)
    found: npt.NDArray[np.float64] = moment[cut[seen]] - records["commit_time"][seen] / 1e6
    return found
