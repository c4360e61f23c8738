"""Apply: tables equal the server's, whatever happens in the log, in one group or between runs."""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_repl
from spark_repl.errors import (
    FencedError, HistoryError, LogError, RowError, SchemaError, SparkReplError, StatementError,
    TargetError,
)
from spark_repl.position import RelayPosition
from spark_repl.replica import resume_offset
from tests.binlog_writer import LogWriter, Table, delete, insert, update
from tests.spark.lab import (
    assert_applied_once, assert_rows, assert_server_state, commits, cuts, read, rows, run, stopped,
    versions,
)

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpora" / "oltp"


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(scope="module")
def applied(
    spark: SparkSession, bank: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, spark_repl.replica.Result]:
    """The bank's log, applied in groups of 400. Read only: a test that writes takes a copy."""
    target = tmp_path_factory.mktemp("bank") / "lake"
    return target, run(spark, bank, target, group_max_transactions=400)


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
    result = run(spark, bank, target)
    assert (result.counters.transactions, versions(target)) == (0, before)
    assert cuts(target) == published


def test_every_cut_has_all_the_money(spark, applied):
    target, _ = applied
    published = [cut for cut in cuts(target) if "bank.pending" in cut.tables and cut.position]
    chosen = published[:: max(1, len(published) // 6)]
    with_money = 0
    for found in chosen:
        reader = spark_repl.cut(spark, str(target), found.gtid_executed)
        total = sum(
            (
                reader.table(f"bank.{table}").selectExpr(f"sum({column})").collect()[0][0] or 0
                for table, column in
                (("account", "balance"), ("till", "balance"), ("pending", "amount"))
            ),
            Decimal(0),
        )
        assert total in (0, Decimal("1000000.00")), found.gtid_executed
        with_money += total > 0
    assert with_money >= 5


def test_corpus_ends_as_the_server(spark, target):
    if not CORPUS.is_dir():
        pytest.skip(f"the big corpus is not there: {CORPUS}")
    run(spark, CORPUS, target)
    assert_server_state(spark, target, CORPUS / "expected")


@pytest.mark.parametrize(("workers", "bound"), [(4, {}), (1, {"group_max_rows": 3000})])
def test_workers_and_bounds_make_no_difference(
    spark, bank, target, monkeypatch, workers, bound
):
    """With several workers and shards even for a small group."""
    monkeypatch.setattr("spark_repl.coordinator.HERE_BYTES", 0)
    monkeypatch.setattr("spark_repl.coordinator._SHARD_BYTES", 0)
    monkeypatch.setattr("spark_repl.group._HERE_ROWS", 0)
    run(spark, bank, target, workers=workers, **bound)
    assert_server_state(spark, target, bank / "expected")


# Rows.


def test_table_without_key(spark, log, target):
    log.ddl(BAG.create)
    log.transaction(insert(BAG, (1, "x"), (1, "x"), (1, "x"), (2, None), (2, None)))
    log.transaction(delete(BAG, (1, "x")), update(BAG, ((2, None), (3, "y"))))
    run(spark, log.folder, target)
    assert_rows(spark, target, BAG, [(1, "x"), (1, "x"), (2, None), (3, "y")])
    # A second run: what goes now lies in a file of the first one.
    log.transaction(delete(BAG, (1, "x")), insert(BAG, (2, None), (2, None)))
    log.transaction(update(BAG, ((2, None), (9, "z")), ((3, "y"), (9, "z"))))
    run(spark, log.folder, target)
    assert_rows(spark, target, BAG, [(1, "x"), (2, None), (2, None), (9, "z"), (9, "z")])
    log.transaction(delete(BAG, (1, "x"), (1, "x")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, RowError)
    assert (error.number, error.table) == (1032, "t.bag")


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
    assert_rows(spark, target, A, [(2, "one"), (1, "two"), (3, "again"), (40, "four"), (8, "7")])
    assert versions(target)["t/a"] == before + 1, "one group is one Delta commit"


def test_one_transaction_a_group(spark, log, target):
    """Every key is looked up in the files of earlier groups; each version is one transaction."""
    log.ddl(TEXT.create)
    for i in range(6):
        log.transaction(insert(TEXT, (f"k{i}", "a"), (f"ключ {i}", None)))
    for i in range(0, 6, 2):
        log.transaction(update(TEXT, ((f"k{i}", "a"), (f"k{i}", "b"))), delete(TEXT, (f"ключ {i}", None)))
    run(spark, log.folder, target, group_max_transactions=1)
    want = [(f"k{i}", "ab"[i % 2 == 0]) for i in range(6)] + [(f"ключ {i}", None) for i in (1, 3, 5)]
    assert_rows(spark, target, TEXT, want)
    assert versions(target)["t/text"] == 9
    assert len(cuts(target)) == len(log.spans)


def test_restart_with_other_bounds(spark, log, target):
    for i in range(30):
        log.transaction(insert(A, (i, "a")), *([update(A, ((i - 1, "a"), (i - 1, "b")))] if i else []))
        if i in (9, 19):
            run(spark, log.folder, target, group_max_transactions={9: 3, 19: 100}[i], workers=1 + i % 2)
    run(spark, log.folder, target, group_max_transactions=1)
    assert_rows(spark, target, A, [(i, "b") for i in range(29)] + [(29, "a")])
    assert_applied_once(target)


# Rows that don't fit.


@pytest.mark.parametrize("bound", [100, 1])
def test_missing_row_stops_behind_the_prefix(spark, log, target, bound):
    log.transaction(insert(A, (1, "a"), (2, "a")))
    log.transaction(insert(A, (3, "a")))
    log.transaction(insert(A, (4, "no")), delete(A, (77, "gone")))
    log.transaction(insert(A, (5, "later")))
    error = stopped(spark, log.folder, target, group_max_transactions=bound)
    file, start, _ = log.spans[4]
    assert isinstance(error, RowError)
    assert (error.number, error.table, error.gtid) == (1032, "t.a", log.gtid(4))
    assert error.file == str(log.folder / file)
    assert RelayPosition.parse(error.position).offset == start
    assert "77" in error.message
    # All before it has landed, nothing of it or behind it; the cut says so.
    assert_rows(spark, target, A, [(1, "a"), (2, "a"), (3, "a")])
    assert cuts(target)[-1].gtid_executed == f"{log.source}:1-4"
    reader = spark_repl.cut(spark, str(target))
    assert reader.table("t.a").count() == 3
    # Mended as MySQL's manual says (skip such rows), it goes on.
    run(spark, log.folder, target, exec_mode="idempotent")
    assert_rows(spark, target, A, [(1, "a"), (2, "a"), (3, "a"), (4, "no"), (5, "later")])
    assert_applied_once(target)


@pytest.mark.parametrize("between", [True, False], ids=["between-runs", "in-one-group"])
def test_duplicate_key_stops_behind_the_prefix(spark, log, target, between):
    log.transaction(insert(A, (1, "a")))
    if between:
        run(spark, log.folder, target)
    log.transaction(insert(A, (2, "a")))
    log.transaction(insert(A, (1, "again")))
    error = stopped(spark, log.folder, target)
    if between and not isinstance(error, RowError):
        raise AssertionError(error)
    assert (error.number, error.table, error.gtid) == (1062, "t.a", log.gtid(4))
    assert RelayPosition.parse(error.position).offset == log.spans[4][1]
    assert_rows(spark, target, A, [(1, "a"), (2, "a")])


def test_idempotent_mode(spark, log, target):
    log.transaction(insert(A, (1, "a"), (2, "a")))
    run(spark, log.folder, target)
    log.transaction(insert(A, (1, "over")))  # there already: overwritten
    log.transaction(delete(A, (50, "x")))  # not there: passed over
    log.transaction(update(A, ((60, "x"), (60, "y"))))  # not there: passed over
    log.transaction(update(A, ((2, "other"), (2, "b"))))  # by key: done
    run(spark, log.folder, target, exec_mode="idempotent")
    assert_rows(spark, target, A, [(1, "over"), (2, "b")])


# Statements.


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE t.a ADD COLUMN c INT", "TRUNCATE TABLE t.a", "DROP TABLE t.a",
     "RENAME TABLE t.a TO t.z", "INSERT INTO t.a VALUES (1, 'x')", "DROP DATABASE t"],
)
def test_unsupported_statement_stops(spark, log, target, statement):
    log.transaction(insert(A, (1, "a")))
    log.ddl(statement)
    log.transaction(insert(A, (2, "later")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, StatementError)
    assert error.gtid == log.gtid(3)
    assert RelayPosition.parse(error.position).offset == log.spans[3][1]
    assert_rows(spark, target, A, [(1, "a")])


def test_harmless_statements_pass(spark, log, target):
    harmless = [
        "CREATE INDEX i ON t.a (v)", "CREATE USER 'x'@'%'", "GRANT SELECT ON t.* TO 'x'@'%'",
        "CREATE VIEW t.w AS SELECT 1", "DROP TABLE IF EXISTS t.nothing", "ANALYZE TABLE t.a",
        "CREATE DATABASE other", "DROP DATABASE other", "FLUSH TABLES",
        "CREATE TRIGGER t.g BEFORE INSERT ON t.a FOR EACH ROW SET NEW.v = 'q'",
    ]
    for i, statement in enumerate(harmless):
        log.ddl(statement)
        log.transaction(insert(A, (i, "a")))
    result = run(spark, log.folder, target)
    assert result.counters.statements == 2 + len(harmless)
    assert_rows(spark, target, A, [(i, "a") for i in range(len(harmless))])


def test_changed_definition_without_statement(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    wider = Table("a", (("id", "int"), ("v", "varchar(40)"), ("w", "int")))
    log.transaction(insert(wider, (2, "a", 7)))
    assert isinstance(stopped(spark, log.folder, target), SparkReplError)
    log.transaction(insert(A, (3, "a")))
    error = stopped(spark, log.folder, target, group_max_transactions=1)
    assert isinstance(error, SchemaError)
    assert_rows(spark, target, A, [(1, "a")])


# The log's beginning, end and damage.


def test_log_that_begins_in_mid_history(spark, log, target):
    log.transaction(insert(A, (1, "before"), (2, "before")))
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    (log.folder / "bin.000001").unlink()
    result = run(spark, log.folder, target)
    assert result.gtid_executed == f"{log.source}:1-4"
    assert_rows(spark, target, A, [(3, "a")])
    log.transaction(update(A, ((1, "before"), (1, "after"))))
    error = stopped(spark, log.folder, target)
    assert error.number == 1032
    assert "incomplete" in error.message


def test_gap_between_target_and_log(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    log.transaction(insert(A, (2, "a")))
    log.rotate()
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    for name in ("bin.000001", "bin.000002"):
        (log.folder / name).unlink()
    error = stopped(spark, log.folder, target)
    assert isinstance(error, HistoryError)
    assert f"{log.source}:4" in str(error)
    assert_rows(spark, target, A, [(1, "a")])


def test_flipped_byte(spark, log, target):
    for i in range(5):
        log.transaction(insert(A, (i, "abc")))
    file, start, end = log.spans[4]
    path = log.folder / file
    good = path.read_bytes()
    bad = bytearray(good)
    bad[good.index(b"abc", start, end)] ^= 1
    path.write_bytes(bad)
    error = stopped(spark, log.folder, target)
    assert isinstance(error, LogError)
    assert error.file == str(path)
    assert start <= RelayPosition.parse(error.position).offset < end
    assert_rows(spark, target, A, [(0, "abc"), (1, "abc")])
    path.write_bytes(good)
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(i, "abc") for i in range(5)])
    assert_applied_once(target)


def test_cut_tail(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    path, whole = log.path, log.path.read_bytes()
    path.write_bytes(whole[:-20])
    result = run(spark, log.folder, target)
    assert path.name in (result.tail or "")
    assert str(log.spans[-1][1]) in result.tail
    assert_rows(spark, target, A, [(1, "a")])
    path.write_bytes(whole)
    assert run(spark, log.folder, target).tail is None
    assert_rows(spark, target, A, [(1, "a"), (2, "a")])


def test_missing_and_foreign_files(spark, log, target, tmp_path):
    log.rotate()
    log.rotate()
    (log.folder / "bin.000002").unlink()
    error = stopped(spark, log.folder, target)
    assert isinstance(error, LogError)
    assert "bin.000002" in str(error)
    (tmp_path / "empty").mkdir()
    assert isinstance(stopped(spark, tmp_path / "empty", target), LogError)
    (tmp_path / "text.000001").write_text("no binlog at all")
    assert "text.000001" in str(stopped(spark, tmp_path / "text.000001", target))


def test_another_servers_log(spark, log, target, tmp_path):
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    other = LogWriter(tmp_path / "other", source="99999999-2222-3333-4444-555555555555", server_id=9)
    other.ddl(A.create)
    other.transaction(insert(A, (2, "wrong")))
    error = stopped(spark, other.folder, target)
    assert isinstance(error, HistoryError)
    assert_rows(spark, target, A, [(1, "a")])
    log.transaction(insert(A, (3, "a")))
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(1, "a"), (3, "a")])


def test_new_log_of_the_same_server_goes_on_by_gtid(spark, log, target, tmp_path):
    """As after RESET or on another replica: file 1 again, which holds some of the old ones."""
    log.transaction(insert(A, (1, "a")))
    log.transaction(insert(A, (2, "a")))
    first = run(spark, log.folder, target)
    again = LogWriter(tmp_path / "again", gno=4, server_id=2, created=1_700_009_999)
    again.transaction(insert(A, (2, "a")))
    again.transaction(insert(A, (3, "a")), update(A, ((1, "a"), (1, "b"))))
    result = run(spark, again.folder, target)
    assert_rows(spark, target, A, [(1, "b"), (2, "a"), (3, "a")])
    assert result.gtid_executed == f"{log.source}:1-5"
    assert result.position.packed > first.position.packed
    before = versions(target)
    run(spark, again.folder, target)
    assert versions(target) == before
    again.transaction(insert(A, (4, "a")))
    run(spark, again.folder, target)
    assert_rows(spark, target, A, [(1, "b"), (2, "a"), (3, "a"), (4, "a")])
    assert_applied_once(target)


# The checkpoint.


def _two_runs(spark: SparkSession, log: LogWriter, target: Path, old: Path) -> None:
    """Two runs; ``old`` is the target as it was between them."""
    log.ddl(B.create)
    log.transaction(insert(A, (1, "a")), insert(B, (1, "a")))
    run(spark, log.folder, target)
    shutil.copytree(target, old)
    log.transaction(insert(A, (2, "a")))
    log.transaction(insert(B, (2, "a")), update(A, ((1, "a"), (1, "b"))))
    run(spark, log.folder, target)


def _whole(spark: SparkSession, target: Path) -> None:
    assert_rows(spark, target, A, [(1, "b"), (2, "a")])
    assert_rows(spark, target, B, [(1, "a"), (2, "a")])
    assert_applied_once(target)


@pytest.mark.parametrize("change", ["deleted", "rolled back", "ahead"])
def test_checkpoint_is_only_a_hint(spark, log, target, tmp_path, change):
    old = tmp_path / "old"
    _two_runs(spark, log, target, old)
    before, checkpoint = versions(target), target / "_repl" / "checkpoint"
    at = target
    if change == "ahead":  # tables of the older run under the checkpoint of the newer one
        at = old
        shutil.rmtree(old / "_repl" / "checkpoint")
        shutil.copytree(checkpoint, old / "_repl" / "checkpoint")
        ahead = resume_offset(str(old / "_repl" / "checkpoint"))
        assert ahead is not None and ahead > cuts(old)[-1].position
    else:
        shutil.rmtree(checkpoint)
        if change == "rolled back":
            shutil.copytree(old / "_repl" / "checkpoint", checkpoint)
    result = run(spark, log.folder, at)
    assert result.counters.at_start == (2 if change == "ahead" else 0)
    _whole(spark, at)
    assert versions(at) == before
    log.transaction(insert(A, (3, "a")))
    assert run(spark, log.folder, at).counters.at_start == 0
    assert (3, "a") in rows(spark, at, A)


def test_txn_is_the_transactions_end(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    run(spark, log.folder, target)
    file, _, end = log.spans[-1]
    assert commits(target, "t.a")[-1] == RelayPosition(1, end).packed
    cut = cuts(target)[-1]
    assert (cut.position, cut.source["file"], cut.source["position"]) == (
        RelayPosition(1, end).packed, file, end,
    )


# Others.


def test_second_applier_is_fenced(spark, log, target):
    log.transaction(insert(A, (1, "a")))
    config = spark_repl.Config.from_mapping(
        {"relay": {"path": str(log.folder)}, "target": {"path": str(target)}}
    )
    with spark_repl.Replica(spark, config) as first:
        error = stopped(spark, log.folder, target)
        assert isinstance(error, FencedError)
        assert f"pid {os.getpid()}" in error.message
        first.apply()
    run(spark, log.folder, target)
    # One that slept while another one took over can't publish anything.
    with spark_repl.Replica(spark, config) as slept:
        log.transaction(insert(A, (2, "a")))
        with spark_repl.Replica(spark, config, take_over=True) as second:
            second.apply()
        with pytest.raises(FencedError):
            slept.apply()
    assert_rows(spark, target, A, [(1, "a"), (2, "a")])


def test_foreign_update_stops(spark, log, target):
    log.transaction(insert(A, (1, "a"), (2, "a")))
    run(spark, log.folder, target)
    spark.sql(f"UPDATE delta.`{target}/t/a` SET v = 'mine' WHERE id = 1")
    log.transaction(insert(A, (3, "a")))
    error = stopped(spark, log.folder, target)
    assert isinstance(error, TargetError)
    assert error.table == "t.a"
    assert "UPDATE" in error.message
    assert read(spark, target, "t.a").count() == 2


def test_foreign_optimize_is_fine(spark, log, target):
    for i in range(4):
        log.transaction(insert(A, (i, "a")))
    run(spark, log.folder, target, group_max_transactions=1)
    spark.sql(f"OPTIMIZE delta.`{target}/t/a`")
    log.transaction(update(A, ((2, "a"), (2, "b"))), delete(A, (0, "a")))
    run(spark, log.folder, target)
    assert_rows(spark, target, A, [(1, "a"), (2, "b"), (3, "a")])
