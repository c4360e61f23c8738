"""Streams downstream of a table that statements change: what Delta's own schema tracking gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.lab import run
from tests.support.binlog_writer import LogWriter, Table, insert, update

A = Table("a")
ADDED = Table("a", (*A.columns, ("n", "int")))
RENAMED = Table("a", (("id", "int"), ("w", "varchar(40)"), ("n", "int")))
FILLED = Table("a", (*RENAMED.columns, ("m", "int")))
KEPT = Table("a", (*FILLED.columns, ("k", "int")), not_null=(4,))
_STARTS = 5
_BLOCKED = "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
Batch = tuple[list[str], list[tuple[Any, ...]]]


class Reader:
    """A stream over t.a with a checkpoint of its own, started again for each look."""

    def __init__(
        self, spark: SparkSession, target: Path, *, feed: bool, tracks: bool = True, **options: str
    ) -> None:
        self._spark, self._table = spark, str(target / "t" / "a")
        self._checkpoint = f"{target}_reader_{feed}_{tracks}"
        tracked = {"schemaTrackingLocation": f"{self._checkpoint}/_schema"} if tracks else {}
        kind = {"readChangeFeed": "true"} if feed else {"skipChangeCommits": "true"}
        self._options = {**tracked, **kind, **options}

    def look(self) -> list[Batch]:
        """What is new, a batch each: (columns, rows). Where Delta has taken note of new columns,
        and asks for it, it starts again. Raises StreamingQueryException for all else."""
        batches: list[Batch] = []

        def take(rows: Any, number: int) -> None:
            own = rows.drop("_commit_version", "_commit_timestamp")
            found = sorted(map(tuple, own.collect()), key=repr)
            if found:
                batches.append((own.columns, found))

        for _ in range(_STARTS):
            stream = self._spark.readStream.format("delta").options(**self._options)
            query = stream.load(self._table).writeStream.foreachBatch(take)
            query = query.trigger(availableNow=True)
            try:
                query.option("checkpointLocation", self._checkpoint).start().awaitTermination()
                return batches
            except StreamingQueryException as error:
                if "[DELTA_STREAMING_METADATA_EVOLUTION]" not in str(error):
                    raise
        raise AssertionError("it has new columns again and again")


@pytest.mark.slow
def test_a_stream_gets_each_change_until_columns_change(
    spark: SparkSession, log: LogWriter, target: Path
) -> None:
    def apply() -> None:
        keys = {"target.change_data_feed": True}
        run(spark, log.folder, target, keys=keys, group_max_transactions=1)

    feed, rows = (Reader(spark, target, feed=of) for of in (True, False))
    renames = (Reader(spark, target, feed=of, allowSourceColumnRename="always")
               for of in (True, False))  # fmt: skip
    feed_on, rows_on = renames
    log.transaction(insert(A, (1, "x"), (2, "y")))
    apply()
    assert feed.look() == [(["id", "v", "_change_type"], [(1, "x", "insert"), (2, "y", "insert")])]
    assert rows.look() == [(["id", "v"], [(1, "x"), (2, "y")])]

    log.ddl("ALTER TABLE t.a ADD COLUMN n INT")
    log.transaction(insert(ADDED, (3, "z", 7)))
    apply()
    assert feed.look() == [(["id", "v", "n", "_change_type"], [(3, "z", 7, "insert")])]
    assert rows.look() == [(["id", "v", "n"], [(3, "z", 7)])]

    log.ddl("ALTER TABLE t.a RENAME COLUMN v TO w")
    log.transaction(update(RENAMED, ((1, "x", None), (1, "xx", 8))))
    apply()
    for reader in (feed, rows):
        with pytest.raises(StreamingQueryException, match=_BLOCKED):
            reader.look()
    both = [(1, "x", None, "update_preimage"), (1, "xx", 8, "update_postimage")]
    assert feed_on.look() == [(["id", "w", "n", "_change_type"], both)]
    assert rows_on.look() == []  # a commit that changes rows is passed over as a whole

    log.ddl("ALTER TABLE t.a ADD m INT DEFAULT 5")
    log.transaction(insert(FILLED, (4, "q", 9, 6)))
    apply()
    there = [(1, "xx", 8), (2, "y", None), (3, "z", 7)]
    anew = [
        (*row, value, kind) for row in there for value, kind in ((5, "insert"), (None, "delete"))
    ]
    columns = ["id", "w", "n", "m"]
    assert feed_on.look() == [([*columns, "_change_type"], [*anew, (4, "q", 9, 6, "insert")])]
    assert rows_on.look() == [(columns, [(4, "q", 9, 6)])]

    log.ddl("ALTER TABLE t.a ADD k INT NOT NULL DEFAULT 7")
    log.transaction(insert(KEPT, (5, "r", 0, 1, 2)))
    apply()
    with pytest.raises(StreamingQueryException, match="Required column is missing in data file"):
        feed_on.look()  # the rows as they were lack it
    assert rows_on.look() == [([*columns, "k"], [(5, "r", 0, 1, 2)])]


def test_comments_stop_no_stream(spark: SparkSession, log: LogWriter, target: Path) -> None:
    """A stream with schema tracking starts once more, as after any change of metadata."""
    readers = [Reader(spark, target, feed=False, tracks=tracks) for tracks in (True, False)]
    log.transaction(insert(A, (1, "x")))
    run(spark, log.folder, target)
    for reader in readers:
        assert reader.look() == [(["id", "v"], [(1, "x")])]
    log.ddl("ALTER TABLE t.a COMMENT 'c', MODIFY v VARCHAR(40) COMMENT 'text'")
    log.transaction(insert(A, (2, "y")))
    run(spark, log.folder, target)
    for reader in readers:
        assert reader.look() == [(["id", "v"], [(2, "y")])]
