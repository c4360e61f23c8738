"""PublicLog: where Delta's internals are not those that we know, MERGE is chosen by itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_repl import cut
from spark_repl.control.layout import Layout
from spark_repl.delta import delta_log, public_log
from spark_repl.delta.public_log import PublicLog
from spark_repl.errors import ConfigError, SetupError, TargetError
from tests.spark.lab import (
    assert_applied_once,
    assert_rows_in_spark,
    assert_server_state,
    rows,
    run,
    stopped,
)
from tests.support.binlog_writer import Table, delete, insert, update

A, BAG = Table("a"), Table("bag", key=())
# What SQL's text could take for something else.
ODD = Table("odd", (("k", "int"), ("it's \\ ${spark.master} `é`", "varchar(20)")))


@pytest.fixture(autouse=True)
def unknown_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "KNOWN_DELTA", ("0.",))


def _operations(target: Path, table: str) -> list[str]:
    found = []
    for path in sorted((target / table / "_delta_log").glob("*.json")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        found += [line["commitInfo"]["operation"] for line in lines if "commitInfo" in line]
    return found


@pytest.mark.soak
def test_bank_ends_as_the_server(spark, bank, target):
    run(spark, bank, target, writer="", group_max_transactions=400)
    assert_server_state(spark, target, bank / "expected")
    assert_applied_once(target)
    assert {"CREATE TABLE AS SELECT", "MERGE"} <= set(_operations(target, "bank/account"))


@pytest.mark.slow
def test_run_after_run(spark, log, target, caplog):
    log.ddl(BAG.create)
    log.ddl(ODD.create)
    log.transaction(insert(A, (1, "x"), (2, "y")), insert(BAG, (1, "b"), (1, "b")))
    log.transaction(insert(ODD, (1, "1"), (2, "'")))
    with caplog.at_level(logging.WARNING, public_log.__name__):
        run(spark, log.folder, target, writer="", keys={"target.partition_by": ["t.a(v)"]})
    assert "changed by MERGE" in caplog.text
    assert DeltaTable(str(target / "t" / "a")).metadata().partition_columns == ["v"]
    log.transaction(update(A, ((1, "x"), (1, "z"))), delete(A, (2, "y")), delete(BAG, (1, "b")))
    log.transaction(update(ODD, ((1, "1"), (1, "\\"))))
    run(spark, log.folder, target, writer="")
    assert run(spark, log.folder, target, writer="").counters.transactions == 0
    assert_rows_in_spark(spark, target, A, [(1, "z")])
    assert_rows_in_spark(spark, target, BAG, [(1, "b")])
    assert rows(spark, target, ODD) == [(1, "\\"), (2, "'")]
    assert_applied_once(target)


@pytest.mark.slow
def test_a_truncate_is_a_row_of_a_changelog(spark, log, target):
    """Appended: what is there stays."""
    log.transaction(insert(A, (1, "x"), (2, "y")))
    log.ddl("TRUNCATE t.a")
    log.transaction(insert(A, (1, "z")))
    keys = {"tables": [{"match": "t.a", "mode": "changelog"}]}
    run(spark, log.folder, target, writer="", keys=keys)
    found = sorted((tuple(row) for row in rows(spark, target, A)), key=lambda row: row[-2:])
    assert [(*row[:2], row[4]) for row in found] == [
        (1, "x", "INSERT"), (2, "y", "INSERT"), (None, None, "TRUNCATE"), (1, "z", "INSERT")
    ]  # fmt: skip
    assert_applied_once(target)


@pytest.mark.slow
def test_names_that_others_decode_or_take_for_patterns(spark, log, tmp_path):
    """Folders with percent signs, and a target's own with what SQL and Spark's readers know."""
    target, table = tmp_path / "Küche 100% *{x} `b`", Table("ü_%41")
    log.ddl(table.create.replace(table.name, f"`{table.name}`", 1))
    log.transaction(insert(table, (1, "x"), (2, "y")))
    run(spark, log.folder, target, writer="")
    log.transaction(update(table, ((1, "x"), (1, "z"))), delete(table, (2, "y")))
    run(spark, log.folder, target, writer="")
    public, folder = PublicLog(spark), Layout(str(target)).table(Layout.path_of("t", table.name))
    before = public.snapshot(folder)
    asked = {"delta.logRetentionDuration": "interval 9 weeks"}
    after = public.altered(before, public.set_properties(before, asked, "app"))
    assert after.configuration == {**before.configuration, **asked}
    public.vacuum(folder)
    now = cut(spark, str(target))
    assert now.table(f"t.{table.name}").collect() == [(1, "z")]
    now.create_views("a`b_")
    assert spark.table(f"`a``b_t_{table.name}`").count() == 1


@pytest.mark.soak
def test_either_log_goes_on_with_the_others_tables(spark, log, target, monkeypatch):
    log.transaction(insert(A, (1, "x"), (2, "y")))
    run(spark, log.folder, target, writer="")
    log.transaction(update(A, ((1, "x"), (1, "z"))))
    with monkeypatch.context() as known:
        known.setattr(delta_log, "KNOWN_DELTA", ("4.4.",))
        run(spark, log.folder, target, writer="")
    assert _operations(target, "t/a")[-1] == "STREAMING UPDATE"
    log.transaction(delete(A, (2, "y")))
    run(spark, log.folder, target, writer="")
    assert _operations(target, "t/a")[-1] == "MERGE"
    assert_rows_in_spark(spark, target, A, [(1, "z")])


def test_others_table_is_left_alone(spark, log, target):
    spark.range(1).write.format("delta").save(str(target / "t" / "a"))
    error = stopped(spark, log.folder, target, writer="")
    assert isinstance(error, TargetError)
    assert "did not make" in error.message


def test_what_needs_the_direct_writer_is_refused(spark, log, target):
    error = stopped(spark, log.folder, target, writer="direct")
    assert isinstance(error, SetupError)
    assert "the direct writer knows 0.x" in error.message
    assert "merge" in str(error.hint)
    with pytest.raises(ConfigError, match=r"json_as.*needs apply\.writer = \"direct\""):
        run(spark, log.folder, target, writer="", keys={"target.json_as": "variant"})
    with pytest.raises(SetupError, match="S3"):
        PublicLog(spark).snapshot("s3a://bucket/lake/t/a")


def test_no_delta_at_all_is_said(spark, monkeypatch):
    monkeypatch.setattr(delta_log, "JavaPackage", object)  # as if no class were known
    with pytest.raises(SetupError, match="class path"):
        delta_log.DeltaLog(spark)
