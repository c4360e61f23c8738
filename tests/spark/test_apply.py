"""Apply: tables equal the server's, whatever happens in the log, in one group or between runs."""

from __future__ import annotations

from decimal import Decimal

import pytest

import spark_repl
from spark_repl.delta.reader import read as read_table
from spark_repl.errors import RowError
from tests.spark.lab import (
    assert_applied_once,
    assert_rows_in_spark,
    assert_server_state,
    cuts,
    read,
    run,
    stopped,
    versions,
)
from tests.support.binlog_writer import Table, delete, insert, update
from tests.support.oltp_corpora import CORPORA

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))


# The end state.


def test_bank_ends_as_the_server(spark, bank, applied):
    target, result = applied
    assert_server_state(spark, target, bank / "expected")
    assert result.tail is None
    assert result.gtid_executed == (bank / "gtid_executed.txt").read_text().strip()
    assert result.counters.at_start == 0, "on a first run everything comes through the stream"
    assert result.counters.cuts == result.counters.groups
    assert_applied_once(target)


def test_second_run_changes_nothing(spark, bank, applied):
    target, _ = applied
    before, published = versions(target), cuts(target)
    result = run(spark, bank, target, stream=True)
    assert (result.counters.transactions, versions(target)) == (0, before)
    assert cuts(target) == published


def test_every_cut_has_all_the_money(applied):
    """Read by another engine, which is quick enough for all of them."""
    target, _ = applied
    sums, with_money = {"account": "balance", "till": "balance", "pending": "amount"}, 0
    for found in cuts(target):
        total = Decimal(0)
        for table, column in sums.items():
            if at := found.tables.get(f"bank.{table}"):
                query = f"select sum({column}) as s from t"
                total += read_table(str(target / at.path), at.version, query)["s"][0].as_py() or 0
        assert total in (0, Decimal("1000000.00")), found.gtid_executed
        with_money += total > 0
    assert with_money >= 7


def test_a_cut_is_read_at_its_versions(spark, applied):
    """``cut`` gives every table as it was then, although all of them went on."""
    target, _ = applied
    found = next(cut for cut in cuts(target) if "bank.transfer" in cut.tables)
    then = spark_repl.cut(spark, str(target), found.gtid_executed)
    for name, at in found.tables.items():
        rows = read_table(str(target / at.path), at.version, "select count(*) as n from t")
        assert then.table(name).count() == rows["n"][0].as_py(), name
    assert then.table("bank.transfer").count() < read(spark, target, "bank.transfer").count()


@pytest.mark.parametrize(("corpus", "changes"), CORPORA)
def test_corpus_ends_as_the_server(spark, target, corpus, changes):
    result = run(spark, corpus, target)
    assert result.counters.row_changes > changes
    assert_server_state(spark, target, corpus / "expected")


@pytest.mark.parametrize(("workers", "bound"), [(4, {}), (1, {"group_max_rows": 3000})])
def test_workers_and_bounds_make_no_difference(spark, bank, target, monkeypatch, workers, bound):
    """With several workers and shards even for a small group."""
    monkeypatch.setattr("spark_repl.runtime.workers.HERE_LOG_BYTES", 0)
    monkeypatch.setattr("spark_repl.apply.stager._SHARD_BYTES", 0)
    monkeypatch.setattr("spark_repl.runtime.workers.HERE_ROWS", 0)
    run(spark, bank, target, workers=workers, **bound)
    assert_server_state(spark, target, bank / "expected")


# Rows.


@pytest.mark.usefixtures("each_writer")
def test_table_without_key(spark, log, target):
    log.ddl(BAG.create)
    log.transaction(insert(BAG, (1, "x"), (1, "x"), (1, "x"), (2, None), (2, None)))
    log.transaction(delete(BAG, (1, "x")), update(BAG, ((2, None), (3, "y"))))
    run(spark, log.folder, target)
    assert_rows_in_spark(spark, target, BAG, [(1, "x"), (1, "x"), (2, None), (3, "y")])
    # A second run: what goes now lies in a file of the first one.
    log.transaction(delete(BAG, (1, "x")), insert(BAG, (2, None), (2, None)))
    log.transaction(update(BAG, ((2, None), (9, "z")), ((3, "y"), (9, "z"))))
    run(spark, log.folder, target)
    assert_rows_in_spark(spark, target, BAG, [(1, "x"), (2, None), (2, None), (9, "z"), (9, "z")])
    log.transaction(delete(BAG, (1, "x"), (1, "x")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, RowError)
    assert (error.number, error.table) == (1032, "t.bag")


@pytest.mark.usefixtures("either_writer")
def test_keys_change_inside_one_group(spark, log, target):
    log.transaction(insert(A, (1, "one"), (2, "two"), (3, "three"), (4, "four")))
    run(spark, log.folder, target)
    before = versions(target)["t/a"]
    # 1 and 2 swap, 3 is deleted and comes again, 4 moves away, 5 comes and goes, 6 moves twice.
    log.transaction(update(A, ((1, "one"), (9, "one")), ((2, "two"), (1, "two"))))
    log.transaction(update(A, ((9, "one"), (2, "one"))))
    log.transaction(delete(A, (3, "three")))
    log.transaction(insert(A, (3, "again"), (5, "brief")))
    log.transaction(update(A, ((4, "four"), (40, "four"))), delete(A, (5, "brief")))
    log.transaction(insert(A, (6, "six")), update(A, ((6, "six"), (7, "6")), ((7, "6"), (8, "7"))))
    run(spark, log.folder, target)
    assert_rows_in_spark(
        spark, target, A, [(2, "one"), (1, "two"), (3, "again"), (40, "four"), (8, "7")]
    )
    assert versions(target)["t/a"] == before + 1, "one group is one Delta commit"


def test_one_transaction_a_group(spark, log, target):
    """Every key is looked up in the files of earlier groups; each version is one transaction."""
    log.ddl(TEXT.create)
    for i in range(6):
        log.transaction(insert(TEXT, (f"k{i}", "a"), (f"ключ {i}", None)))
    for i in range(0, 6, 2):
        log.transaction(
            update(TEXT, ((f"k{i}", "a"), (f"k{i}", "b"))), delete(TEXT, (f"ключ {i}", None))
        )
    run(spark, log.folder, target, group_max_transactions=1)
    want = [(f"k{i}", "ab"[i % 2 == 0]) for i in range(6)] + [
        (f"ключ {i}", None) for i in (1, 3, 5)
    ]
    assert_rows_in_spark(spark, target, TEXT, want)
    assert versions(target)["t/text"] == 9
    assert len(cuts(target)) == len(log.spans)


def test_restart_with_other_bounds(spark, log, target):
    for i in range(30):
        log.transaction(
            insert(A, (i, "a")), *([update(A, ((i - 1, "a"), (i - 1, "b")))] if i else [])
        )
        if i in (9, 19):
            run(
                spark,
                log.folder,
                target,
                group_max_transactions={9: 3, 19: 100}[i],
                workers=1 + i % 2,
            )
    run(spark, log.folder, target, group_max_transactions=1)
    assert_rows_in_spark(spark, target, A, [(i, "b") for i in range(29)] + [(29, "a")])
    assert_applied_once(target)
