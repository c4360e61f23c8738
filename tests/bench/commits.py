"""Processor time of a commit of nine actions, on tables of so many files.

``python -m tests.bench.commits [FILES ...]`` prints a line of JSON for each number of files: the
milliseconds of a commit that replaces four files by four, once it is warm and what the applier
keeps of the table is carried on, and the seconds and MiB of opening the table.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import pyarrow as pa

from spark_repl.delta.files.delta_columns import schema_json
from spark_repl.delta.log import checkpoint_writer
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable

COMMITS, WARM = 200, 20
STATS = json.dumps({"numRecords": 1000, "minValues": {"id": 1}, "maxValues": {"id": 9}})
VECTORS = {"delta.enableDeletionVectors": "true"}


def add(number: int) -> dict[str, Any]:
    return {
        "path": f"part-{number:07d}-c000.snappy.parquet", "partitionValues": {}, "size": 10_000,
        "modificationTime": 1, "dataChange": True, "stats": STATS,
    }  # fmt: skip


def remove(path: str) -> dict[str, Any]:
    return {
        "path": path, "deletionTimestamp": int(time.time() * 1000), "dataChange": True,
        "extendedFileMetadata": True, "partitionValues": {}, "size": 10_000,
    }  # fmt: skip


def measure(files: int, folder: str) -> dict[str, Any]:
    log = TableLog()
    log.create(
        folder,
        NewTable(schema_json(pa.schema([("id", pa.int64())])), VECTORS),
        Stamp("app", 1, "{}"),
    )
    first = log.snapshot(folder)
    assert first is not None
    version = log.commit(first, [{"add": add(n)} for n in range(files)], Stamp("app", 2, "{}"))
    snapshot = log.advance(first, version)
    checkpoint_writer.write(folder, snapshot.state)
    began = time.process_time()
    opened = TableLog().snapshot(folder)
    assert opened is not None
    snapshot, live = opened, log.files(opened)
    open_s = time.process_time() - began
    times, number = [], files
    for at in range(COMMITS):
        fresh = [add(n) for n in range(number, number + 4)]
        number += 4
        gone = [
            f"part-{n:07d}-c000.snappy.parquet" for n in range(number - 4 - files, number - files)
        ]
        actions = [{"remove": remove(path)} for path in gone] + [{"add": one} for one in fresh]
        began = time.process_time()
        version = log.commit(snapshot, actions, Stamp("app", at + 3, "{}"))
        snapshot, live = log.advance(snapshot, version), live.after([actions])
        times.append(1000 * (time.process_time() - began))
    return {
        "files": files, "commit_ms": round(statistics.median(times[WARM:]), 2),
        "open_s": round(open_s, 3), "open_mib": opened_mib(folder), "live": len(live),
    }  # fmt: skip


def opened_mib(folder: str) -> float:
    """Return by how many MiB a process grows that opens the table and holds its files."""
    code = (
        "import sys; from spark_repl.delta.log.table_log import TableLog\n"
        "def rss(): return int(open('/proc/self/statm').read().split()[1]) * 4 / 1024\n"
        "log = TableLog(); before = rss(); opened = log.snapshot(sys.argv[1])\n"
        "files = log.files(opened); import pyarrow as pa, gc; gc.collect()\n"
        "pa.default_memory_pool().release_unused(); print(rss() - before)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, check=True
    )
    return round(float(ran.stdout), 1)


def main() -> None:
    for files in map(int, sys.argv[1:] or ("50", "100000")):
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(files, f"{folder}/t")), flush=True)


if __name__ == "__main__":
    main()
