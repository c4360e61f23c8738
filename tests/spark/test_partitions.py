"""Partitioned tables: made, filled, changed, folded, rewritten by others, and read as any table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.store.delta_rs_read import read as read_elsewhere
from spark_repl.errors import RowError, SchemaError, TargetError
from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    assert_server_state,
    read,
    run,
    stopped,
    versions,
)
from tests.spark.test_table_features import alter, feed
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.wait_until import wait_until

A, BAG = Table("a"), Table("bag", key=())
BY_TEXT = {"target.partition_by": ["t.a(v)", "t.bag(id)"]}


def partitions(target: Path, table: str) -> dict[str, tuple[Any, ...]]:
    """Live file -> the values of its partition."""
    name = table.replace(".", "/")
    live = live_files(str(target / name), versions(target)[name])
    assert live is not None
    return {path: tuple(add["partitionValues"].values()) for path, add in live.items()}


def begin(spark, log: LogWriter, target: Path, **keys: Any) -> None:
    log.ddl(BAG.create)
    log.transaction(insert(A, *[(key, "xyz"[key % 3]) for key in range(9)]))
    log.transaction(insert(BAG, (1, "b"), (1, "b"), (2, "c")))
    run(spark, log.folder, target, keys={**BY_TEXT, **keys})


@pytest.mark.soak
def test_bank_ends_as_the_server(spark, bank, target):
    by = ["bank.account(branch_id)", "bank.pending(to_account)"]
    keys = {"target.partition_by": by, "target.compact_files": 4}
    run(spark, bank, target, keys=keys, group_max_transactions=2500)
    assert_server_state(spark, target, bank / "expected")
    assert_applied_once(target)
    values = set(partitions(target, "bank.account").values())
    assert values == {(str(branch),) for branch in range(1, len(values) + 1)}
    account = read(spark, target, "bank.account")
    one = account.where("branch_id = 3")
    assert 0 < len(one.inputFiles()) < len(account.inputFiles())
    assert one.count() == len([row for row in account.collect() if row.branch_id == 3])


def test_rows_move_between_partitions(spark, log, target):
    begin(spark, log, target)
    log.transaction(update(A, ((0, "x"), (0, "z")), ((1, "y"), (11, "new"))), delete(A, (2, "z")))
    log.transaction(delete(BAG, (1, "b")), insert(BAG, (7, "d")))
    run(spark, log.folder, target)  # the tables know how they were made
    want = [(0, "z"), (11, "new"), (3, "x"), (4, "y"), (5, "z"), (6, "x"), (7, "y"), (8, "z")]
    assert_rows(spark, target, A, want)
    assert_rows(spark, target, BAG, [(1, "b"), (2, "c"), (7, "d")])
    assert set(partitions(target, "t.a").values()) == {("x",), ("y",), ("z",), ("new",)}
    query = "select id, v from t where v = 'z' order by id"
    elsewhere = read_elsewhere(str(target / "t" / "a"), query=query).to_pylist()
    assert elsewhere == [{"id": key, "v": "z"} for key in (0, 5, 8)]


@pytest.mark.slow
def test_others_keep_the_columns_in_their_files(spark, log, target):
    """OPTIMIZE and UPDATE by Spark; then rows are looked up in its files, by key and by value."""
    begin(spark, log, target, **{"target.compact_files": 0})
    log.transaction(insert(A, (20, "x"), (21, "y")), insert(BAG, (2, "e")))
    run(spark, log.folder, target)
    for table in ("a", "bag"):
        spark.sql(f"OPTIMIZE delta.`{target}/t/{table}`")
    spark.sql(f"UPDATE delta.`{target}/t/a` SET v = 'moved' WHERE id = 21")
    for path, (value,) in partitions(target, "t.a").items():
        assert set(pq.read_table(target / "t/a" / path).column(1).to_pylist()) == {value}
    log.transaction(update(A, ((20, "x"), (20, "y")), ((3, "x"), (33, "x"))), delete(BAG, (2, "c")))
    log.transaction(delete(A, (21, "y")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, TargetError)
    run(spark, log.folder, target, keys={"target.on_foreign_change": "accept"})
    kept = [(key, "xyz"[key % 3]) for key in range(9) if key != 3]
    assert_rows(spark, target, A, [*kept, (20, "y"), (33, "x")])
    assert_rows(spark, target, BAG, [(1, "b"), (1, "b"), (2, "e")])


def test_small_files_of_a_partition_become_one(spark, log, target):
    begin(spark, log, target, **{"target.compact_files": 3})
    before = partitions(target, "t.a")  # one file or two of each, as the keys were cut into shards
    for key in range(30, 42):
        log.transaction(insert(A, (key, "xy"[key % 2])))

    def is_folded() -> bool:
        return len(partitions(target, "t.a")) < len(before) + 8

    run(
        spark, log.folder, target, on_group=lambda *_: wait_until(is_folded),
        keys={"target.compact_files": 3}, group_max_transactions=1,
    )  # fmt: skip
    assert is_folded(), "of twelve more"
    after = partitions(target, "t.a")  # those of a partition at rest stay
    assert {p for p, v in before.items() if v == ("z",)} == {
        p for p, v in after.items() if v == ("z",)
    }
    rows = [(key, "xyz"[key % 3]) for key in range(9)]
    assert_rows(spark, target, A, rows + [(key, "xy"[key % 2]) for key in range(30, 42)])


def test_the_change_feed_of_a_partitioned_table_has_each_change(spark, log, target):
    begin(spark, log, target, **{"target.change_data_feed": True})
    log.transaction(update(A, ((0, "x"), (0, "z"))), delete(A, (1, "y")), insert(A, (50, "n")))
    run(spark, log.folder, target)
    assert feed(spark, target, "a", versions(target)["t/a"]) == [
        (0, "x", "update_preimage"), (0, "z", "update_postimage"), (1, "y", "delete"),
        (50, "n", "insert"),
    ]  # fmt: skip


def test_partitioning_by_a_missing_column_stops(spark, log, target):
    with pytest.raises(SchemaError, match="there is no column w") as found:
        run(spark, log.folder, target, keys={"target.partition_by": ["t.a(w)"]})
    assert found.value.table == "t.a"


@pytest.mark.parametrize("text", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_text_that_spark_takes_for_null_stops_behind_the_prefix(spark, log, target, text):
    """No value is changed in silence. The transaction that brings it is named, and the one whose
    later change had hidden it."""
    begin(spark, log, target)
    log.transaction(insert(A, (20, "x")))
    log.transaction(insert(A, (21, text)), update(A, ((21, text), (21, "passes"))))
    log.transaction(insert(A, (22, "x")))
    log.transaction(update(A, ((20, "x"), (20, text))))
    log.transaction(update(A, ((20, text), (20, text))), delete(A, (0, "x")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, RowError)
    assert (error.number, error.table) == (1526, "t.a")
    assert "no partition for a value (id=20)" in error.message
    assert error.gtid == log.gtid(len(log.spans) - 2)
    rows = [(key, "xyz"[key % 3]) for key in range(9)]
    assert_rows(spark, target, A, [*rows, (20, "x"), (21, "passes"), (22, "x")])


def test_ignored_update_needs_no_partition(spark, log, target):
    begin(spark, log, target)
    log.transaction(update(A, ((77, "x"), (77, ""))), insert(A, (20, "x")))
    run(spark, log.folder, target, exec_mode="idempotent")
    assert read(spark, target, "t.a").count() == 10


def test_properties_may_be_set(spark, log, target):
    begin(spark, log, target)
    alter(spark, target, "a", "enableInCommitTimestamps")
    log.transaction(insert(A, (20, "x")))
    run(spark, log.folder, target)
    assert read(spark, target, "t.a").count() == 10
