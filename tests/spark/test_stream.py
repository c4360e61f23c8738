"""mysql_relay alone: one row per transaction, admitted by bytes, going on from a checkpoint."""

from __future__ import annotations

import gc
import json
import shutil
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_repl import Config, MySQLRelaySource
from spark_repl.apply.start.replica import Replica
from spark_repl.apply.stream.stream import said_by_python
from spark_repl.errors import LogError, RowError
from spark_repl.observe.status.status import status
from spark_repl.position import RelayPosition
from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.runtime.spark_release import ADMITS
from tests.spark.lab import assert_applied_once, assert_rows, run, streaming
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.decoder_log import transactions
from tests.support.dump_stream import receive
from tests.support.local_delta import at_any_port
from tests.support.relay_reader import receive_into
from tests.support.wait_until import wait_until
from tests.support.written_files import STATE, patterns

A = Table("a")


@pytest.fixture
def relay(spark: SparkSession, tmp_path: Path) -> Iterator[Any]:
    """Reads a folder through the source until its end: list of batches, each a list of rows."""
    spark.dataSource.register(MySQLRelaySource)

    def read(path: Path, name: str = "c", **options: Any) -> list[list[Any]]:
        batches: list[list[Any]] = []
        frame = (
            spark.readStream.format("mysql_relay")
            .option("path", str(path))
            .option("index", str(tmp_path / "index"))
        )
        for key, value in options.items():
            frame = frame.option(key, value)

        def keep(batch: DataFrame, _: int) -> None:
            batches.append(batch.orderBy("position").collect())

        query = (
            frame.load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [batch for batch in batches if batch]

    return read


def test_a_stream_has_a_row_for_each_transaction_of_the_log(spark, relay, bank, tmp_path):
    """Compared with the events' own headers, not with the index that the source reads from."""
    [batch] = relay(bank)
    spans = [
        (RelayPosition(int(path.suffix[1:]), start), end - start)
        for path in sorted(bank.glob("*.0*"))
        for start, end in transactions(path.read_bytes(), compressed=True)
    ]
    assert [(row.position, row.length) for row in batch] == [
        (at.packed, length) for at, length in spans
    ]
    executed = [row.gtid for row in batch]
    source = executed[0].partition(":")[0]
    assert executed == [f"{source}:{number}" for number in range(1, len(spans) + 1)]
    assert f"{source}:1-{len(spans)}" == (bank / "gtid_executed.txt").read_text().strip()
    assert {row.kind for row in batch} == {"QUERY", "ROWS"}
    frame = spark.readStream.format("mysql_relay").option("path", str(bank)).load()
    names = [
        "position",
        "end",
        "gtid",
        "last_committed",
        "sequence_number",
        "kind",
        "length",
        "commit_time",
    ]
    assert frame.columns == names


def test_a_batch_read_has_the_same_rows(spark, relay, bank, tmp_path):
    """Of a log with nothing in it: none."""
    [streamed] = relay(bank)
    frame = spark.read.format("mysql_relay").option("path", str(bank)).load()
    assert frame.orderBy("position").collect() == streamed
    empty = LogWriter(tmp_path / "empty")
    frame = spark.read.format("mysql_relay").option("path", str(empty.folder)).load()
    assert frame.collect() == []


def test_batches_are_bounded_and_whole(spark, relay, bank):
    """Before Spark 4.2, a stream ends after one batch, and the next one goes on from there."""
    limit = 400_000
    batches = relay(bank, maxBytesPerTrigger=limit)
    while not ADMITS and (rest := relay(bank, maxBytesPerTrigger=limit)):
        batches += rest
    [whole] = relay(bank, "other")
    assert len(batches) >= 5
    # A batch ends with the transaction that reaches the limit.
    assert all(sum(row.length for row in batch[:-1]) < limit for batch in batches)
    frames = [
        spark.createDataFrame(rows) for rows in ([row for batch in batches for row in batch], whole)
    ]
    assert_df_equality(*frames, ignore_row_order=True)


def test_a_stream_goes_on_from_its_checkpoint(relay, tmp_path):
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "a")))
    assert [len(batch) for batch in relay(log.folder)] == [2]
    assert relay(log.folder) == []
    log.transaction(insert(A, (2, "a")))
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    log.transaction(insert(A, (4, "a")), commit=False)
    found = [row.gtid for batch in relay(log.folder) for row in batch]
    assert found == [log.gtid(2), log.gtid(3)], "the open transaction at the end is not there yet"


@pytest.mark.slow
@pytest.mark.skipif(not ADMITS, reason="Spark ends the stream after one batch")
def test_a_streams_checkpoint_is_bounded(relay, tmp_path):
    """A batch for each transaction: Spark keeps notes of the last hundred."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    for key in range(110):
        log.transaction(insert(A, (key, "a")))
    assert len(relay(log.folder, maxBytesPerTrigger=1)) == 111
    known, found = patterns(STATE), Counter[str]()
    for path in (tmp_path / "c").rglob("*"):
        name = f"checkpoint/1/{path.relative_to(tmp_path / 'c').as_posix()}"
        assert path.is_dir() or any(regex.fullmatch(name) for regex in known.values()), name
        found[path.parent.name] += path.is_file()
    assert 100 <= found["offsets"] <= 102 and 100 <= found["commits"] <= 102
    assert found["c"] == 1 and found["0"] <= 102, "metadata, and what the source notes"


def purged(folder: Path) -> None:
    """Purge all files but the last, after the reader of the ended stream has gone. Until its
    process ends, the reader holds the file that it read and all later ones."""
    wait_until(lambda: not purge(folder, 100).warning, each_s=0.1)


def test_a_place_that_was_purged_ends_the_stream(relay, tmp_path):
    log = LogWriter(tmp_path / "source")
    log.ddl(A.create)
    folder = receive_into(tmp_path / "relay", more(log))
    assert sum(map(len, relay(folder))) == 31
    with RelayWriter(folder, 4711, Limits(700, 0)) as writer:
        receive(writer, sorted(more(log).folder.iterdir()))
    purged(folder)
    with pytest.raises(StreamingQueryException, match="was purged: the log begins with relay"):
        relay(folder)
    assert relay(folder, "again")
    shutil.rmtree(folder)
    receive_into(folder, log)
    with pytest.raises(StreamingQueryException, match="is one of another log"):
        relay(folder, "again")


def test_the_applier_goes_on_where_the_stream_would_not(spark, tmp_path):
    """Killed behind a batch that its checkpoint does not know as done, and its files purged."""
    log = LogWriter(tmp_path / "source")
    for statement in ("CREATE DATABASE t", A.create):
        log.ddl(statement)
    folder, target = receive_into(tmp_path / "relay", more(log)), tmp_path / "lake"
    run(spark, folder, target, stream=True)
    with RelayWriter(folder, 4711, Limits(700, 0)) as writer:
        receive(writer, sorted(more(log, 30).folder.iterdir()))
    run(spark, folder, target, stream=True)
    found = (target / "_repl" / "checkpoint").rglob("commits/[0-9]*")
    commits = sorted(found, key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    purge(folder, 100)
    with RelayWriter(folder, 4711, Limits(700, 0)) as writer:
        receive(writer, sorted(more(log, 60).folder.iterdir()))
    run(spark, folder, target, stream=True)
    assert_rows(spark, target, A, [(key, "x" * 30) for key in range(90)])
    assert_applied_once(target)


def more(log: LogWriter, begin: int = 0) -> LogWriter:
    for key in range(begin, begin + 30):
        log.transaction(insert(A, (key, "x" * 30)))
    return log


def test_a_stream_begins_at_its_start_option(relay, bank):
    [whole] = relay(bank)
    start = whole[100].end
    [rest] = relay(bank, "other", start=start)
    assert rest == whole[101:]


def test_damage_stops_the_stream_behind_what_is_good(spark, relay, tmp_path):
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    for key in range(3):
        log.transaction(insert(A, (key, "x")))
    file, at, _ = log.spans[-1]
    data = bytearray((log.folder / file).read_bytes())
    data[at + 4] = 99
    (log.folder / file).write_bytes(data)
    if not ADMITS:
        relay(log.folder)
    with pytest.raises(StreamingQueryException, match="event type 99 is unknown"):
        relay(log.folder)
    taken = spark.read.text(str(tmp_path / "c" / "offsets" / "0")).collect()[-1][0]
    assert json.loads(taken)["position"] & (1 << 40) - 1 == at


def test_the_applier_reads_to_the_end_of_a_log_of_several_batches(
    spark, bank, tmp_path, monkeypatch
):
    """Before Spark 4.2 each batch is a stream of its own. No Spark job reads a batch's rows."""
    monkeypatch.delattr("spark_repl.apply.stream.stream.extent")
    result = run(spark, bank, tmp_path / "lake", stream=True, group_max_bytes=50_000)
    assert result.gtid_executed == (bank / "gtid_executed.txt").read_text().strip()
    assert result.counters.groups > 20
    assert_applied_once(tmp_path / "lake")


def test_damage_stops_the_applier_behind_what_is_good(spark, tmp_path):
    """In what a receiver has published: the applier's stream goes up to that without a look."""
    log = LogWriter(tmp_path / "source")
    for statement in ("CREATE DATABASE t", A.create):
        log.ddl(statement)
    folder, target = receive_into(tmp_path / "relay", more(log)), tmp_path / "lake"
    index = build_index(open_log(str(folder)), str(tmp_path / "own"))
    at = RelayPosition.unpack(int(index.records["position"][-2]))
    file = open_log(str(folder)).file(at.file_no).path
    data = bytearray(Path(file).read_bytes())
    data[at.offset + 4] = 99
    Path(file).write_bytes(data)
    config = Config().override({"relay.path": str(folder), "target.path": str(target)})
    stop_file = target / "_repl" / "index" / "stopping"
    for _ in range(2):  # again where nothing comes that is good
        with (
            pytest.raises(LogError, match="event type 99 is unknown") as stopped,
            Replica(spark, config) as replica,
        ):
            replica.apply(follow=True)
        assert stopped.value.position == str(at.offset)
        assert_rows(spark, target, A, [(key, "x" * 30) for key in range(28)])
        assert not stop_file.exists() and stop_file.parent.exists()
        stop_file.touch()  # as a killed one leaves it
    assert_applied_once(target)


def test_an_error_of_the_source_is_told_in_its_own_words(relay, bank, tmp_path):
    (tmp_path / "index").write_text("no folder")
    with pytest.raises(StreamingQueryException) as stopped:
        relay(bank)
    assert said_by_python(str(stopped.value)).startswith("FileExistsError: ")
    assert said_by_python("[STREAM_FAILED] something of Java's") == ""


def test_what_spark_says_of_a_batch_is_in_the_status(spark, tmp_path):
    """With an endpoint alone; without one no listener is asked for. The transaction comes after
    what is applied while Spark starts the stream."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    values = {"relay": {"path": str(log.folder)}, "target": {"path": str(tmp_path / "lake")}}
    config = at_any_port(Config.from_mapping(values))
    seen: list[Any] = []

    def look() -> None:
        def has_stream() -> bool:
            seen.append(status(config.target.path)["stream"])
            return bool(seen[-1])

        try:
            wait_until(lambda: replica.counters.transactions, 300)
            log.transaction(insert(A, (1, "x")))
            wait_until(has_stream, each_s=0.1)
        finally:
            replica.stop()

    with Replica(spark, config) as replica:
        looking = threading.Thread(target=look)
        looking.start()
        replica.apply(follow=True)
        looking.join()
    assert seen[-1]["batch"] == 0 and seen[-1]["rows"] in (1, 2) and seen[-1]["seconds"] > 0


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_of_an_applier_outlives_it(spark, log, tmp_path, fails):
    """The JVM's side of callbacks may stay for hours, and Py4J keeps what they call."""
    log.transaction(insert(A, (1, "x")))
    if fails:
        log.transaction(insert(A, (1, "x")))
    paths = {"relay.path": str(log.folder), "target.path": str(tmp_path / "lake")}
    config = Config().override({**paths, "observe.listen": "127.0.0.1:0"})

    def applied() -> list[weakref.ref[Any]]:
        with Replica(spark, config, serves=True) as replica:
            assert replica.page, "so it listens to the stream"
            kept = [replica, replica.opened.coordinator, replica.opened.applied, replica.tracking]
            with streaming(), pytest.raises(RowError) if fails else nullcontext():
                replica.apply()
        return [weakref.ref(one) for one in kept]

    left = applied()

    def alive() -> list[Any]:
        gc.collect()
        return [one() for one in left if one() is not None]

    with suppress(AssertionError):  # a thread of the applier's may be in its last step
        wait_until(lambda: not alive(), each_s=0.1)
    assert alive() == []
