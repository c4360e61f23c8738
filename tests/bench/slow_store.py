"""A bucket whose requests take 20 ms: latency, a start and a backlog.

    python -m tests.bench.slow_store --mysql FOLDER [--latency-ms 20] [--seconds 60] [--rate 200]
        [--tables 100] [--rows 200000] [PART...]

The store is moto's server. Requests pass through ``tests/support/store_proxy``. Both are processes
on this machine. Parts (default: all), each a line of JSON:

* ``latency``: ``bench latency`` beside ``steady_load``: seconds from commit to cut, requests of a
  group;
* ``start``: seconds until an applier of N tables is ready, without Spark, and its requests;
* ``backlog``: ``bench apply`` of N inserted rows, into the bucket and into a local folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_repl.runtime.store_requests import request_counts
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.live.receiving import config_for, toml
from tests.support.local_delta import applier, apply_without_stream, run
from tests.support.s3_server import BUCKET, s3_server
from tests.support.store_proxy import proxy_process

from .one_server import one_server

_ROOM_S = 30
"""the load goes on for so long beside what is measured: start and warm-up"""
_ROWS_EACH = 1000


@contextmanager
def slow_store(latency_ms: float) -> Iterator[str]:
    """The URI of an empty bucket, for this process and those that it starts."""
    with s3_server() as environment:
        upstream = environment["AWS_ENDPOINT_URL"]
        with proxy_process(upstream, "--latency-s", str(latency_ms / 1000)) as url:
            os.environ.update(environment | {"AWS_ENDPOINT_URL": url})
            yield f"s3://{BUCKET}"


def spark_repl(*arguments: str) -> dict[str, Any]:
    """Return the figures of a command."""
    command = [sys.executable, "-m", "spark_repl", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def latency(options: argparse.Namespace, bucket: str, folder: Path) -> dict[str, Any]:
    """Return the seconds from the source's commit to the cut, at a steady rate."""
    with one_server(options.mysql) as (server, _):
        seconds = options.seconds + _ROOM_S + 60
        load = [sys.executable, "-m", "tests.bench.steady_load", "--port", str(server.port)]
        load += ["--user", "app", "--password", "app"]
        load += ["--rate", str(options.rate), "--seconds", str(seconds)]
        config = config_for(server, folder, target__path=f"{bucket}/latency")
        config = config.override({"target.state_path": str(folder / "state")})
        file = folder / "run.toml"
        file.write_text(toml(config))
        with subprocess.Popen(load) as running:
            time.sleep(2)  # the load makes its table first
            snapshot = [sys.executable, "-m", "spark_repl", "snapshot", "--config", str(file)]
            subprocess.run(snapshot, check=True, capture_output=True)
            figures = spark_repl(
                "bench", "latency", "--config", str(file), "--seconds", str(options.seconds)
            )
            running.terminate()
    return figures


def start(options: argparse.Namespace, bucket: str, folder: Path) -> dict[str, Any]:
    """Return the seconds of a start with all tables, three times, and the requests of the last."""
    log, tables = LogWriter(folder / "log"), [Table(f"t{n:04}") for n in range(options.tables)]
    log.ddl("CREATE DATABASE t")
    for table in tables:
        log.ddl(table.create)
    log.transaction(*(insert(table, (1, "a")) for table in tables))
    target, keys = f"{bucket}/start", {"state_path": str(folder / "start_state")}
    run(log.folder, target, keys=keys)
    seconds, requests = list[float](), Counter[str]()
    for _ in range(3):
        before, began = Counter(request_counts()), time.perf_counter()
        with applier(log.folder, target, keys=keys) as replica:
            seconds.append(round(time.perf_counter() - began, 2))
            requests = Counter(request_counts()) - before
            apply_without_stream(replica)
    return {"tables": options.tables, "start_s": seconds, "requests": dict(requests)}


def backlog(options: argparse.Namespace, bucket: str, folder: Path) -> dict[str, Any]:
    """Return the figures of one log applied into the bucket and into a local folder."""
    log, table = LogWriter(folder / "backlog"), Table("backlog")
    log.ddl("CREATE DATABASE t")
    log.ddl(table.create)
    for key in range(0, options.rows, _ROWS_EACH):
        log.transaction(insert(table, *((key + n, f"row {key + n}") for n in range(_ROWS_EACH))))
    bench = ("bench", "apply", "--relay", str(log.folder), "--runs", "3")
    there, here = spark_repl(*bench, "--target", f"{bucket}/backlog"), spark_repl(*bench)
    ratio = round(there["rows_per_s"] / here["rows_per_s"], 2)
    return {"ratio": ratio, "bucket": there, "local": here}


PARTS = {"latency": latency, "start": start, "backlog": backlog}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mysql", type=Path)
    parser.add_argument("--latency-ms", type=float, default=20)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, slow_store(options.latency_ms) as bucket:
        os.environ["SPARK_REPL_CACHE"] = str(Path(place) / "cache")
        for name in options.parts or PARTS:
            folder = Path(place) / name
            folder.mkdir()
            figures = PARTS[name](options, bucket, folder)
            print(json.dumps({"part": name, "latency_ms": options.latency_ms, **figures}))


if __name__ == "__main__":
    main()
