"""``bench receive``, ``snapshot``, ``latency``: what a live source and this machine do together."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, SetupError, SourceError
from ..observe.progress import print_progress
from ..receiver.receiver import Receiver
from ..relay.index import build_index
from ..relay.log import open_log
from ..relay.published_end import read_end
from ..runtime.spark_session import build_session, end_of
from ..runtime.starting_session import built, starting
from ..runtime.store_requests import request_counts
from ..service.supervisor import Supervisor, wait_for_log
from ..source.account import password_of
from ..source.connection import connect, present_gtids
from .hot_readers import HotReaders
from .memory import Memory
from .recorded import requests_per_group

if TYPE_CHECKING:
    from ..config import Config
    from ..observe.reports.applier_status import Counters
    from ..runtime.starting_session import Session

_POLL_S = 0.002
_LOOK_S = 0.0002  # the published end is polled, as by every reader: nothing wakes it
_WARM_UP_S = 20.0
_SETTLE_S = 2.0


def bench_receive(
    config: Config, mysqlbinlog: str = "", runs: int = 1, readers: int = 0
) -> dict[str, Any]:
    """Receive everything that the source still has into a temporary folder, ``runs`` times.

    With the path of ``mysqlbinlog``, alternate with runs of that program. With ``readers``, also
    measure with that number of processes that follow the log. Report the best run.

    Raise SourceError, SetupError. The source shows the receiver as a separate replica.
    """
    figures, others = list[dict[str, Any]](), list[float]()
    beside = list[dict[str, Any]]()
    for _ in range(max(1, runs)):
        if mysqlbinlog:
            others.append(_raw(config, mysqlbinlog))
        figures.append(_receive(config))
        if readers:
            beside.append(_receive(config, readers))
    best = min(figures, key=lambda run: run["seconds"])
    if others:
        best["mysqlbinlog_mb_per_s"] = round(best["mb"] / min(others), 1)
    if beside:
        met = min(beside, key=lambda run: run["seconds"])
        ratio = round(best["seconds"] / met["seconds"], 3)
        best |= {"readers": readers, "with_readers": met, "ratio_with_readers": ratio}
    return best


def _receive(config: Config, readers: int = 0) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, HotReaders(folder, readers, idle=True) as reading:
        executed, purged = present_gtids(config.source)
        into = config.override({"relay.path": folder})
        receiver = Receiver(into, purged, on_published=reading.published)
        done: list[float] = []
        watching = threading.Thread(
            target=_watch, args=(receiver, executed.subtract(purged).count(), done), daemon=True
        )
        began, cpu = time.perf_counter(), time.process_time()
        watching.start()
        receiver.run()
        watching.join()
        seconds, cpu = done[0] - began, time.process_time() - cpu
        read = reading.figures()
        size = receiver.writer.total_bytes()
        records = build_index(open_log(folder), os.path.join(folder, "index")).records
    return {
        "transactions": len(records),
        "mb": round(size / 1e6, 1),
        "seconds": round(seconds, 3),
        "cpu_s": round(cpu, 3),
        "mb_per_s": round(size / 1e6 / seconds, 1),
        "transactions_per_s": round(len(records) / seconds),
        **read,
    }


def _raw(config: Config, mysqlbinlog: str) -> float:
    """Return the seconds that ``mysqlbinlog --raw`` takes for the same log."""
    source = config.source
    connection = connect(source)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            first = str(cursor.fetchall()[0][0])
    finally:
        connection.close()
    address = [f"--socket={source.socket}"] if source.socket else [
        "--protocol=TCP", f"--host={source.host}", f"--port={source.port}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        command = [
            mysqlbinlog, "--no-defaults", "--read-from-remote-server", "--raw", "--to-last-log",
            f"--result-file={Path(folder)}/", f"--user={source.user}",
            f"--ssl-mode={source.tls.upper()}", f"--connection-server-id={source.server_id}",
            *address, first,
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


def _watch(receiver: Receiver, want: int, done: list[float]) -> None:
    while receiver.writer.published_transactions < want:
        time.sleep(_POLL_S)
    done.append(time.perf_counter())
    receiver.stop()


def bench_steady(
    config: Config, config_file: str, seconds: int, readers: int = 0
) -> dict[str, Any]:
    """Measure the time from the source's commit to the published end of a relay log.

    The source's own clients cause the load. The receiver runs in a separate process, which begins
    at the source's current position in an empty ``relay.path``. The source dates a commit before
    its own fsync, so the fsync is included. With ``readers``, also measure how long that number of
    processes take to see an end.

    The source must use this machine's clock. Raise SourceError, ConfigError.
    """
    folder = config.relay.path
    if read_end(folder) is not None:
        raise ConfigError(
            "the folder holds a relay log already", file=folder,
            hint="give a configuration whose relay.path is a new folder",
        )  # fmt: skip
    ends: list[tuple[float, int]] = []  # when an end was seen first, its packed position
    reading = HotReaders(folder, readers)
    with reading, Supervisor(config, config_file, "--from-end") as receiver:
        while read_end(folder) is None and receiver.error is None:
            time.sleep(_POLL_S)
        begin = time.time() + _SETTLE_S
        last = 0
        while time.time() < begin + seconds and receiver.error is None:
            end = read_end(folder)
            if end is not None and end.position.packed != last:
                last = end.position.packed
                ends.append((time.time(), last))
                reading.published(end)
            time.sleep(_LOOK_S)
        if receiver.error is not None:
            raise receiver.error
        read = reading.figures()
    with tempfile.TemporaryDirectory() as index:
        records = build_index(open_log(folder), index).records
    return _reported(_latencies(_since(records, begin), ends), seconds) | read


def bench_snapshot(config: Config, runs: int) -> dict[str, Any]:
    """Copy all tables of the source, ``runs`` times in one session, each into a new target.

    The first run, as of a new process, starts Spark only if the copy is large (FirstCopy). Later
    runs use Spark's workers. The last run is reported, and the speed of the first one.
    Raise the errors of ``snapshot``.
    """
    from ..copy.copy_plan import plan_copy
    from ..copy.first_copy import FirstCopy
    from ..runtime.workers import Workers

    master = f"local[{config.apply.workers}]"
    session = partial(build_session, master=master, delta=False)
    spark: Session | None = None
    speeds = list[int]()
    with Memory() as memory, ExitStack() as end:
        for _ in range(max(1, runs)):
            with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as target:
                fresh = config.override({"target.path": target, "target.state_path": ""})
                plan_copy(fresh)
                spark = spark or end.enter_context(starting(session, end=end_of(master)))
                run = Workers(spark, config.apply.workers).run
                copied = FirstCopy(spark, fresh, run, lambda *_: None).copy()
            speeds.append(copied.rows_per_s)
            built(spark)  # the next run's JVM is warm
    return {
        "tables": copied.tables,
        "rows": copied.rows,
        "seconds": round(copied.seconds, 3),
        "rows_per_s": speeds[-1],
        "cold_rows_per_s": speeds[0],
        "peak_pss_mib": memory.peak_mib,
    }


def bench_latency(config: Config, config_file: str, seconds: int) -> dict[str, Any]:
    """Measure the time from the source's commit to the cut that shows a transaction.

    The source's own clients cause the load. The receiver and applier of ``run`` work on the
    configured target. Commits of the first 20 s (a cold JVM) do not count.

    The source must use this machine's clock. Raise what ``run`` raises.
    """
    from ..apply.start.replica import Replica

    shown: list[tuple[float, int]] = []  # when a cut was published, its packed position

    def on_group(_: Counters, position: int) -> None:
        shown.append((time.time(), position))

    master = f"local[{config.apply.workers}]"
    session = partial(build_session, master=master, delta=False)
    with (
        Supervisor(config, config_file) as receiver,
        starting(session, end=end_of(master)) as spark,
    ):
        wait_for_log(config, receiver, threading.Event(), partial(print_progress, config))
        with Replica(spark, config, on_group) as replica:
            begin, requests = time.time() + _WARM_UP_S, request_counts()
            threading.Timer(_WARM_UP_S + seconds, replica.stop).start()
            groups = replica.apply(follow=True).counters.groups
            records = replica.index.records
        if receiver.error is not None:
            raise receiver.error
    took = _latencies(_since(records, begin), shown)
    figures = {**_reported(took, seconds), "cuts": len(shown)}
    return figures | requests_per_group(requests, groups)


def _since(records: Any, begin: float) -> Any:
    return records[int(np.searchsorted(records["commit_time"], begin * 1e6)) :]


def _reported(took: npt.NDArray[np.float64], seconds: int) -> dict[str, Any]:
    if not len(took):
        raise SourceError("nothing was committed on the source", hint="put it under load meanwhile")
    half, nine, most, worst = (float(at) for at in np.quantile(took, (0.5, 0.9, 0.99, 1)))
    return {
        "transactions": len(took),
        "transactions_per_s": round(len(took) / seconds),
        "p50_s": round(half, 4),
        "p90_s": round(nine, 4),
        "p99_s": round(most, 4),
        "max_s": round(worst, 4),
    }


def _latencies(records: Any, shown: list[tuple[float, int]]) -> npt.NDArray[np.float64]:
    """Return seconds from each commit to the first cut at or after its end, if there was one."""
    moment = np.array([at for at, _ in shown])
    first_shown = np.searchsorted([position for _, position in shown], records["end"])
    seen = first_shown < len(shown)
    seconds: npt.NDArray[np.float64] = (
        moment[first_shown[seen]] - records["commit_time"][seen] / 1e6
    )
    return seconds
