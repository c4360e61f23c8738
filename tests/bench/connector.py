"""mysql-binlog-connector-java beside this decoder on the same files, in turn in one run.

    python -m tests.bench.connector [--rounds N] FILE...

Needs a JDK (javac). The connector is fetched once by Ivy, as Delta's jars are; it is no dependency
of the product. Of ``--rounds`` rounds after a warm-up the best counts, in processor time, which
other work on the machine disturbs least. All images of a row count: an UPDATE has two. Ours is
checked (CRC32) and becomes Arrow columns; the connector's objects are dropped at once. JSON stays
the server's bytes on both sides.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from spark_repl import read_changes
from spark_repl.bench.recorded import bench_decode
from spark_repl.binlog.kernels.jit import Bytes, Ints
from spark_repl.binlog.rows import row_images
from spark_repl.binlog.types import text_values
from spark_repl.binlog.types.column_values import Values
from spark_repl.user_cache import cache_folder

CONNECTOR = "com.zendesk:mysql-binlog-connector-java:0.30.1"
SOURCE = Path(__file__).with_name("Decode.java")
Round = tuple[int, float, float]
"""Row images, seconds, processor seconds."""


def jars() -> str:
    """Class path with the connector and what it needs."""
    ivy = cache_folder() / "connector"
    if not list(ivy.glob("jars/*connector*.jar")):
        script = (
            "from pyspark.sql import SparkSession;"
            "SparkSession.builder.master('local[1]').config('spark.ui.enabled','false')"
            f".config('spark.jars.packages',{CONNECTOR!r})"
            f".config('spark.jars.ivy',{str(ivy)!r}).getOrCreate().stop()"
        )
        subprocess.run([sys.executable, "-c", script], check=True)
    return os.pathsep.join(map(str, sorted(ivy.glob("jars/*.jar"))))


def connector(mode: str, rounds: int, files: list[str], classes: str) -> Iterator[Round]:
    """The JVM's rounds, the first ones to warm it up."""
    path = os.pathsep.join((jars(), classes))
    command = ["java", "-XX:+UseSerialGC", "-Xmx2g", "-cp", path, "Decode", mode, str(rounds)]
    clean = {k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"}
    with subprocess.Popen(
        [*command, *files], stdout=subprocess.PIPE, text=True, env=clean
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            rows, seconds, cpu = line.split()
            yield int(rows), float(seconds), float(cpu)
    if process.returncode:
        raise SystemExit(process.returncode)


def timed(decode: Callable[[], int]) -> Round:
    began, cpu = time.perf_counter(), time.process_time()
    rows = decode()
    return rows, time.perf_counter() - began, time.process_time() - cpu


def all_images(files: list[str]) -> int:
    """Every image of every change, as ``read_changes`` gives them; dates as they come."""
    rows = 0
    for path in files:
        for batch in read_changes(path, zero_dates="null"):
            sides = (batch.column("before"), batch.column("after"))
            rows += sum(len(side) - side.null_count for side in sides)
    return rows


def raw(buffer: Bytes, offset: Ints, length: Ints) -> pa.Array:
    """Instead of ``to_text``: the bytes of JSON documents as they are, which are no text."""
    return text_values.gather(Values(buffer, offset, length.astype(np.int32)), pa.string())


def report(name: str, rounds: list[Round], size: int) -> None:
    rows, seconds, cpu = min(rounds, key=lambda found: found[2])
    print(
        f"{name:24} {rows:>10,} rows {seconds:7.2f} s {cpu:7.2f} s cpu"
        f" {rows / cpu / 1e3:>9,.0f} k rows/s {size / cpu / 1e6:>7,.0f} MB/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    pa.set_cpu_count(1)
    with patch.object(row_images, "to_text", raw):
        compare(args.files, args.rounds)
    print(f"{'bench decode':24} {bench_decode(args.files)}")


def compare(files: list[str], rounds: int) -> None:
    size = sum(os.path.getsize(path) for path in files)
    all_images(files)  # compiles
    with tempfile.TemporaryDirectory() as classes:
        compile_ = ["javac", "-proc:none", "-cp", jars(), "-d", classes, str(SOURCE)]
        subprocess.run(compile_, check=True)
        ours = [timed(lambda: all_images(files)) for _ in range(rounds)]
        for mode in ("default", "fastest"):
            found = list(connector(mode, rounds + 2, files, classes))[2:]
            report(f"connector, {mode}", found, size)
        ours += [timed(lambda: all_images(files)) for _ in range(rounds)]
    report("read_changes", ours, size)


if __name__ == "__main__":
    main()
