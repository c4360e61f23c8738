"""Apply: tables equal the server's, whatever happens in the log, in one group or between runs."""

from __future__ import annotations

from decimal import Decimal

import pytest

import spark_repl
from spark_repl.delta.store.delta_rs_read import read as read_table
from spark_repl.errors import RowError
from tests.spark.lab import (
    assert_applied_once,
    assert_rows_in_spark,
    assert_server_state,
    assert_server_state_elsewhere,
    cuts,
    needs_delta,
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


@needs_delta
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
    monkeypatch.setattr("spark_repl.apply.group.stager._SHARD_BYTES", 0)
    monkeypatch.setattr("spark_repl.runtime.workers.HERE_ROWS", 0)
    run(spark, bank, target, workers=workers, **bound)
    assert_server_state_elsewhere(target, bank / "expected")


# Rows.


def test_rows_of_a_table_without_key_are_found_by_all_values(spark, log, target):
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
