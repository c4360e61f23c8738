"""Tables and targets with names outside ASCII, or with characters that have a meaning in paths or
SQL."""

from __future__ import annotations

import pytest

from spark_repl.cli.main import main
from spark_repl.control.table.layout import Layout, encode
from spark_repl.delta.log import checkpoint_schedule
from spark_repl.delta.store.delta_rs_read import newest_version, read
from spark_repl.errors import SettingError, TargetError
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import LocalDelta, run, stopped

NAMES = (
    "ü", "a b", "100%", "%41", "%C3%BC", "☃", "名前", "it's", '"', "a;b", "_x", "{x}*[y]", "a\\b",
    "试" * 64,
)  # fmt: skip
APP = "spark_repl:default"
TARGETS = ("Küche 100% 😀", "a;b&c#d?e", "*{x}", "it's @2 ~`")


@pytest.fixture(params=TARGETS)
def odd_target(tmp_path, request):
    return tmp_path / request.param


def test_tables_with_odd_names_are_applied_and_read(tmp_path, odd_target, monkeypatch, capsys):
    monkeypatch.setattr(checkpoint_schedule, "EVERY", 1)
    log = LogWriter(tmp_path / "log")
    tables = [Table(name) for name in NAMES]
    log.ddl("CREATE DATABASE t")
    for table in tables:
        log.ddl(table.create.replace(f"t.{table.name} ", f"t.`{table.name}` "))
        log.transaction(insert(table, (1, table.name), (2, "x")))
    for number in range(2):
        run(log.folder, odd_target)
        for table in tables:
            log.transaction(insert(table, (3 + number, "y")))
    run(log.folder, odd_target)
    layout, delta = Layout(str(odd_target)), LocalDelta()
    for table in tables:
        folder = layout.table(layout.path_of("t", table.name))
        expected = [(1, table.name), (2, "x"), (3, "y"), (4, "y")]
        assert sorted(map(tuple, (row.values() for row in read(folder).to_pylist()))) == expected
        assert newest_version(folder) == delta.version(folder)
        snapshot = delta.snapshot(folder)
        assert snapshot is not None  # of the last run upkeep may not have come to all tables
        assert checkpoint_schedule.write_if_due(snapshot) or checkpoint_schedule.last(folder)
        assert checkpoint_schedule.last(folder) > 0
        assert len(read(folder, 1)) == 2
    assert set(status(str(odd_target))["tables"]) == {f"t.{name}" for name in NAMES}
    assert main(["status", "--target", str(odd_target)]) == 0
    assert "t.名前" in capsys.readouterr().out


def test_an_absent_table_with_an_odd_name_has_no_snapshot(tmp_path):
    folder = tmp_path / encode("ü")
    assert LocalDelta().snapshot(str(folder)) is None
    (folder / "_delta_log").mkdir(parents=True)
    assert LocalDelta().version(str(folder)) == -1


def test_on_an_object_store_it_is_said():
    with pytest.raises(TargetError, match="percent signs"):
        newest_version("s3a://bank/lake/t/%C3%BC")


@pytest.mark.parametrize("how", ["CREATE TABLE", "rows alone", "ADD", "RENAME COLUMN"])
@pytest.mark.parametrize("copies", [False, True])
def test_columns_that_spark_takes_for_one(tmp_path, how, copies):
    """No copy could have both, so the table does not wait for one."""
    log, both = LogWriter(tmp_path / "log"), (("id", "int"), ("Ꭰ", "int"), ("ꭰ", "int"))
    if how == "CREATE TABLE":
        log.ddl(Table("a", both).create)
    elif how == "rows alone":
        log.transaction(insert(Table("a", both), (1, 2, 3)))
    else:
        log.ddl(Table("a", (*both[:2], ("b", "int"))).create)
        log.ddl(f"ALTER TABLE t.a {how} {'b TO' if how != 'ADD' else ''} `ꭰ`"
                f"{' INT' if how == 'ADD' else ''}")  # fmt: skip
    error = stopped(log.folder, tmp_path / "lake", copies=copies)
    assert isinstance(error, SettingError) and error.table == "t.a"
    assert "names of columns Ꭰ and ꭰ for one" in error.message and error.gtid
