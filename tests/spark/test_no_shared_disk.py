"""Executors that can't read the driver's disk give the same tables: a bucket is all they share."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_repl.delta.store.delta_rs_read import read
from spark_repl.demo.expected import differences, expected_tables
from spark_repl.relay.archived_ranges import (
    ArchivedChunk,
    ArchiveRecord,
    append_chunk,
    chunk_uri,
    write_record,
)
from spark_repl.runtime.object_store import ObjectStore
from tests.support import standalone as cluster
from tests.support.binlog_writer import LogWriter, Table, Xid, delete, insert, update
from tests.support.s3_server import BUCKET, s3_server

A = Table("a")
ONE: Xid = (b"one", b"", 1)
TWO: Xid = (b"two", b"", 1)
_CHUNK_BYTES = 300_000

# One JVM has one master, hence a process of its own. Without the bounds everything small is done
# in the driver; here every task has to go to an executor.
_SCRIPT = """
import sys
import spark_repl.apply.group.stager, spark_repl.decode.stage_task, spark_repl.runtime.workers
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.apply.group.stager._SHARD_BYTES = 0
spark_repl.runtime.workers.HERE_ROWS = spark_repl.runtime.workers.HERE_FILE_BYTES = 0
from spark_repl import Config, Replica
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.runtime.spark_session import build_session
from spark_repl.verify.verifier import VerifyLimits
from spark_repl.verify.verify_run import between
master, folder, bucket = sys.argv[1:]
spark = build_session(
    master=master, delta=False,
    settings={
        "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1",
        "spark.python.daemon.module": "spark_repl.service.worker_daemon",
    },
)
for name, bound in (("branches", 1), ("bank", 1000)):
    config = Config.from_mapping({
        "relay": {"path": f"{folder}/{name}", "archive": f"{bucket}/archive"},
        "target": {"path": f"{bucket}/{name}", "state_path": f"{folder}/state/{name}",
                   "compact_files": 2, "deletion_vectors": name == "bank"},
        "apply": {"workers": 2, "group_max_transactions": bound, "task_log_bytes": 200_000},
    })
    with Replica(spark, config) as replica:
        print(name, replica.apply().counters.groups, "groups")
cuts = sorted(Control(Layout.of(config.target).control).cuts(), key=lambda cut: cut.position)
middle = cuts[len(cuts) // 2].gtid_executed
found = between(config, (middle, "latest"), (), VerifyLimits(), master)
print("compared:", found["tables"], "tables,", len(found["not_compared"]), "not")
spark.stop()
"""


def archive(relay: Path, uri: str, shares: list[float]) -> None:
    """Put the first bytes of the log's files into a store, in objects as an archive has them."""
    for number, share in enumerate(shares, 1):
        content = (relay / f"bank-bin.{number:06d}").read_bytes()
        content, objects = content[: int(len(content) * share)], f"{uri}/bank-bin.{number:06d}"
        write_record(relay, number, ArchiveRecord(objects))
        for begin in range(0, len(content), _CHUNK_BYTES):
            part = content[begin : begin + _CHUNK_BYTES]
            chunk = ArchivedChunk(begin, begin + len(part), chunk_uri(objects, begin))
            ObjectStore().put(chunk.uri, part)
            append_chunk(relay, number, chunk)


def branches(folder: Path) -> LogWriter:
    """A log whose XA branches are prepared in one group and end in another."""
    log = LogWriter(folder)
    log.ddl(A.create)
    log.transaction(insert(A, *[(number, "x" * 50) for number in range(5000)]))
    log.xa_prepare(ONE, update(A, ((1, "x" * 50), (1, "one"))), insert(A, (9001, "one")))
    log.xa_prepare(TWO, insert(A, (9002, "two")), compressed=True)
    log.transaction(delete(A, *[(number, "x" * 50) for number in range(10, 5000)]))
    log.xa_end("COMMIT", TWO)
    log.xa_end("COMMIT", ONE)
    return log


@pytest.mark.slow
@pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing())
def test_executors_read_the_bucket(
    bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, bucket = tmp_path / "driver", f"s3a://{BUCKET}"
    driver.mkdir(mode=0o700)
    shutil.copytree(bank, driver / "bank")
    branches(driver / "branches")
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        archive(driver / "bank", f"{bucket}/archive", [1, 0.5])
        with cluster.standalone(tmp_path, driver, environment) as master:
            ran = subprocess.run(
                [sys.executable, "-c", _SCRIPT, master, str(driver), bucket],
                capture_output=True, text=True, cwd=driver, timeout=900, check=False,
            )  # fmt: skip
        print(ran.stdout)
        assert ran.returncode == 0, ran.stderr[-5000:]
        for name, columns, want in expected_tables(bank / "expected"):
            table = read(f"{bucket}/bank/{name.replace('.', '/')}")
            got = [tuple(row.values()) for row in table.to_pylist()]
            assert differences(table.column_names, got, columns, want)[:5] == [], name
        rows = read(f"{bucket}/branches/t/a").to_pylist()
        want = [(0, "x" * 50), (1, "one"), *[(number, "x" * 50) for number in range(2, 10)]]
        assert sorted(tuple(row.values()) for row in rows) == [*want, (9001, "one"), (9002, "two")]
        assert "compared: 4 tables, 0 not" in ran.stdout
        names = ObjectStore().names(f"{bucket}/bank/_repl")
        assert "staging" not in names, "every group's files are removed"
