"""A start does not wait for Spark: what the log holds already is applied while Spark starts."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl import Config
from spark_repl.apply.start.replica import Replica
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.errors import LogError, RowError, SetupError, SparkReplError
from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.runtime.starting_session import starting
from tests.spark.lab import assert_applied_once, assert_rows
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.dump_stream import receive
from tests.support.live.killing import children
from tests.support.local_delta import cuts
from tests.support.relay_reader import receive_into
from tests.support.s3_server import BUCKET, s3_server
from tests.support.wait_until import wait_until

A = Table("a")


def config_of(log: LogWriter, target: Path | str, **apply: Any) -> Config:
    keys = {"relay.path": str(log.folder), "target.path": str(target)}
    return Config().override({**keys, **{f"apply.{key}": value for key, value in apply.items()}})


@contextmanager
def following(replica: Replica) -> Iterator[list[BaseException]]:
    """Follow the log on a thread; the list gets the error that ended it."""
    errors = list[BaseException]()

    def follow() -> None:
        try:
            replica.apply(follow=True)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield errors
    finally:
        replica.stop()
        thread.join()


def test_a_small_log_is_applied_before_the_session_is_built(spark, tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    session: Future[SparkSession] = Future()
    with Replica(session, config_of(log, target)) as replica, following(replica) as errors:
        wait_until(lambda: replica.counters.transactions == 2)  # with CREATE TABLE
        assert cuts(target)
        assert not session.done()
        session.set_result(spark)
        log.transaction(insert(A, (2, "x")))  # the stream brings it, after what the tables have
        wait_until(lambda: replica.counters.transactions == 3)
    assert errors == []
    assert_rows(spark, target, A, [(1, "x"), (2, "x")])
    assert_applied_once(target)


def test_a_log_is_read_to_its_end_without_a_session(tmp_path, monkeypatch):
    """Nor a stream, however many batches a follower would make of it. Its groups are small enough
    for this process while Spark starts."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    monkeypatch.setattr("spark_repl.apply.stream.stream._FIRST_BATCH", 1_000)
    log.ddl(A.create)
    session: Future[SparkSession] = Future()
    for count in (5_000, 1):
        for _ in range(count):
            log.transaction(insert(A, (log.gno, "x" * 100)))
        with Replica(session, config_of(log, target)) as replica:
            replica.apply()
            assert replica.counters.transactions >= count
    assert not session.done()
    assert not list((target / "_repl" / "checkpoint").rglob("offsets"))
    assert len(read(str(target / "t" / "a"))) == 5_001
    assert_applied_once(target)


def test_an_apply_without_a_stream_ends_although_the_log_grows(tmp_path):
    """Each look at the log finds more transactions; what came after the first look is left."""
    log, ended = LogWriter(tmp_path / "log"), threading.Event()
    log.ddl(A.create)

    def grow() -> None:
        while not ended.is_set():
            log.transaction(insert(A, (log.gno, "x")))

    thread, session = threading.Thread(target=grow), Future[SparkSession]()
    thread.start()
    try:
        with Replica(session, config_of(log, tmp_path / "lake")) as replica:
            replica.apply()
    finally:
        ended.set()
        thread.join()
    assert replica.counters.transactions >= 1


def test_cascades_of_a_small_group_do_not_wait_for_the_session(tmp_path, monkeypatch):
    """Also on a store, where the disks of executors depend on the session's master."""
    parent, child = Table("a", map_flags=2), Table("b", (("id", "int"), ("p", "int")))
    log = LogWriter(tmp_path / "log")
    log.ddl(parent.create)
    key = ", FOREIGN KEY (p) REFERENCES a (id) ON DELETE CASCADE)"
    log.ddl(child.create.removesuffix(")") + key)
    log.transaction(insert(parent, (1, "x"), (2, "y")), insert(child, (10, 1), (11, 2)))
    log.transaction(delete(parent, (1, "x")))
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        config = config_of(log, f"s3://{BUCKET}/lake", group_max_transactions=1)
        config = config.override({"target.state_path": str(tmp_path / "state")})
        session: Future[SparkSession] = Future()
        with Replica(session, config) as replica, following(replica) as errors:
            wait_until(lambda: replica.counters.transactions == 4)
        assert errors == [] and not session.done()
        assert read(f"s3a://{BUCKET}/lake/t/b").to_pylist() == [{"id": 11, "p": 2}]


def test_groups_after_the_first_batch_are_left_to_the_stream(spark, tmp_path):
    """The first batch is as large as one of the stream's: eight groups."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    for number in range(40):
        log.transaction(insert(A, (number, "x" * 30)))
    session: Future[SparkSession] = Future()
    config = config_of(log, target, group_max_bytes=300)
    with Replica(session, config) as replica, following(replica) as errors:
        wait_until(lambda: replica.counters.transactions >= 7)
        assert replica.counters.transactions < 12
        session.set_result(spark)
        wait_until(lambda: replica.counters.transactions == 41)
    assert errors == []
    assert_rows(spark, target, A, [(number, "x" * 30) for number in range(40)])
    assert_applied_once(target)


def test_a_purge_spares_the_place_where_the_stream_begins(spark, tmp_path):
    """Found: the tables had passed it before the stream had begun, and the purge removed it."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    for number in range(30):
        log.transaction(insert(A, (number, "x" * 30)))
    folder = receive_into(tmp_path / "relay", log)
    config = Config().override({"relay.path": str(folder), "target.path": str(target)})
    session: Future[SparkSession] = Future()
    with Replica(session, config) as replica, following(replica) as errors:
        wait_until(lambda: replica.counters.transactions == 31)
        purged = purge(folder, 100).files
        assert purged == ()
        session.set_result(spark)
        wait_until(lambda: len(purge(folder, 100).files) > 5)
        log.transaction(insert(A, (30, "x" * 30)))
        with RelayWriter(folder, 4711, Limits(700, 0)) as writer:
            receive(writer, sorted(log.folder.iterdir()))
        wait_until(lambda: replica.counters.transactions == 32)
    assert errors == []
    assert_applied_once(target)


def test_an_error_of_the_first_batch_is_raised(spark, tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (1, "x")))
    with Replica(spark, config_of(log, target)) as replica, pytest.raises(RowError):
        replica.apply()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (SetupError("no Java"), "no Java"),
        (OSError(errno.ENOSPC, "No space left on device"), "Spark does not start: .*No space left"),
    ],
)
def test_an_error_of_building_the_session_is_raised(tmp_path, error, text):
    """Also one that would be retried if the tables met it: the session stays as it is."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))

    def build() -> SparkSession:
        raise error

    with (
        starting(build) as session,
        Replica(session, config_of(log, target)) as replica,
        pytest.raises(SparkReplError, match=text),
    ):
        replica.apply()


def test_an_error_of_building_the_session_ends_a_first_batch_that_waits(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.gno += 200_000_000  # seconds of its commit time also: it is not due yet
    log.transaction(insert(A, (1, "x")))
    session: Future[SparkSession] = Future()
    session.set_exception(SetupError("no Java"))
    with (
        Replica(session, config_of(log, target, delay_s=3600)) as replica,
        pytest.raises(SetupError, match="no Java"),
    ):
        replica.apply()
    assert replica.counters.transactions <= 1


def test_a_stop_ends_the_wait_for_a_session(tmp_path):
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    session: Future[SparkSession] = Future()
    with Replica(session, config_of(log, target)) as replica, following(replica) as errors:
        wait_until(lambda: replica.counters.transactions == 1)
    assert errors == [] and not session.done()


def test_a_stop_ends_the_wait_of_a_large_group_for_a_session(tmp_path, monkeypatch):
    """Spark looks for a master that does not answer for a minute, and YARN waits for ever."""
    monkeypatch.setattr("spark_repl.runtime.workers._WHILE_BUILT", 0)  # each group is large
    log, given_up = LogWriter(tmp_path / "log"), threading.Event()
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))

    def build() -> SparkSession:
        given_up.wait()
        raise SetupError("the start was ended")

    with starting(build, end_spark=given_up.set) as session:
        with Replica(session, config_of(log, tmp_path / "lake")) as replica:
            thread = threading.Thread(target=replica.apply)
            thread.start()
            wait_until(lambda: replica.counters.transactions == 1)  # CREATE TABLE
            assert not given_up.is_set()
            replica.stop()
            thread.join(60)
            assert not thread.is_alive() and given_up.is_set()
        assert replica.counters.transactions == 1


def test_damage_is_an_error_without_a_session(tmp_path):
    """After everything before it was applied."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    for number in range(3):
        log.transaction(insert(A, (number, "abc")))
    file, start, end = log.spans[3]
    content = bytearray((log.folder / file).read_bytes())
    content[content.index(b"abc", start, end)] ^= 1
    (log.folder / file).write_bytes(content)
    session: Future[SparkSession] = Future()
    with (
        Replica(session, config_of(log, tmp_path / "lake")) as replica,
        pytest.raises(LogError),
    ):
        replica.apply()
    assert replica.counters.transactions == 3 and not session.done()


_APPLY = """
import sys
from spark_repl.cli.main import main
sys.exit(main(["apply", "--relay", sys.argv[1], "--target", sys.argv[2],
               "--master", "spark://127.0.0.1:1"]))
"""


def test_ctrl_c_ends_a_start_without_a_master(tmp_path):
    """Spark looks for its master for a minute."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    command = [sys.executable, "-c", _APPLY, str(log.folder), str(target)]
    with (tmp_path / "output").open("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        wait_until(lambda: len(cuts(target)) > 0, 120)
        process.send_signal(signal.SIGINT)
        assert process.wait(45) == 0
        output.seek(0)
        text = output.read()
    assert (
        "applied: 2 transactions" in text
        and "Traceback" not in text
        and "does not start" not in text
    )


_FOLLOW = """
import sys
from spark_repl.apply.stream import stream
from spark_repl.cli.main import main
from spark_repl.runtime import workers
stream._REST_S = 0.5
workers._WHILE_BUILT = 1  # a group above the bound of a session that runs
sys.exit(main(["apply", "--follow", "--relay", sys.argv[1], "--target", sys.argv[2]]))
"""


def test_spark_runs_only_from_a_large_group_until_it_rests(tmp_path):
    """Before and after that there is neither a JVM nor a Python process of its, and no stream. A
    new stream goes on where the tables are."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)

    def add(*sizes: int) -> None:
        for size in sizes:
            first = log.gno * 10_000
            log.transaction(*(insert(A, (first + number, "x")) for number in range(size)))

    def streams() -> int:
        return len(list((target / "_repl" / "checkpoint").rglob("offsets/[0-9]*")))

    def executed() -> bool:
        return bool(cuts(target)) and f"1-{log.gno - 1}" in cuts(target)[-1].gtid_executed

    command = [sys.executable, "-c", _FOLLOW, str(log.folder), str(target)]
    with (tmp_path / "output").open("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            for _ in range(2):
                batches = streams()
                add(1, 1)
                wait_until(executed, each_s=0.1)
                assert not children(process.pid) and streams() == batches
                add(6000)  # above the bound of rows
                wait_until(lambda: "java" in " ".join(children(process.pid).values()))
                wait_until(executed, each_s=0.1)
                wait_until(lambda: not children(process.pid), 240, each_s=0.1)
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        assert "Traceback" not in output.read()
    assert len(read(str(target / "t" / "a"))) == 12_004
    assert_applied_once(target)


_KILLED = """
import os, signal
from spark_repl.runtime.spark_session import build_session, end_session, jvm_process
for killed in (True, False, False):
    spark = build_session(master="local[1]", delta=False)
    assert spark.range(3).count() == 3
    if killed:
        os.kill(jvm_process(spark), signal.SIGKILL)
    end_session(spark)
"""


def test_spark_starts_again_after_its_end_even_if_it_was_killed_right_before():
    """Found: pyspark took the dead context for another program's."""
    subprocess.run([sys.executable, "-c", _KILLED], check=True, timeout=300)
