"""Shards of one Delta table beside what else there is: copies, repairs, channels, online tools,
upkeep, foreign keys, others' commits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.records.channels import channel_at
from spark_repl.control.table.cut import reader_tables
from spark_repl.errors import (
    DecodeError,
    OtherChannelError,
    SettingError,
    StatementError,
    TargetError,
)
from spark_repl.observe.metrics import metrics
from spark_repl.observe.status.status import status
from spark_repl.write.tables.table_metadata import copies_of
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice
from tests.support.local_delta import (
    LocalDelta,
    applier,
    apply_without_stream,
    cuts,
    last_shown,
    put,
    run,
    stopped,
)
from tests.support.made_copy import finish, plan, plan_first, read
from tests.support.read_rows import Read, repaired
from tests.support.shards import BOTH, MAPPED, ONE, RULE, TWO, V, of_each, shard
from tests.support.tended import tend

THREE = shard(3)


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl(ONE.create, "shop_1")
    made.ddl(TWO.create, "shop_2")
    made.transaction(insert(ONE, (1, "a"), (2, "b")), insert(TWO, (1, "c"), (3, "d")))
    return made


def test_status_and_metrics_name_each_shard(log: LogWriter, tmp_path: Path) -> None:
    assert run(log.folder, tmp_path / "lake", **BOTH)
    shown = status(str(tmp_path / "lake"))
    assert [*shown["tables"]] == ["lake.orders//1", "lake.orders//2"]
    assert 'table="lake.orders//1"' in metrics(shown)


@pytest.mark.parametrize("tools", ["fold", "follow"])
def test_a_shards_online_alter_is_folded_or_followed(
    log: LogWriter, tmp_path: Path, tools: str
) -> None:
    wide = (("id", "int"), ("v", V), ("w", "int"))
    copy = Table("_orders_gho", wide, database="shop_1")
    log.ddl("CREATE TABLE shop_1._orders_gho LIKE shop_1.orders", "shop_1")
    log.ddl("ALTER TABLE shop_1._orders_gho ADD w INT DEFAULT 5", "shop_1")
    log.transaction(insert(ONE, (4, "y")), insert(copy, (1, "a", 5), (2, "b", 5), (4, "y", 5)))
    log.ddl(
        "RENAME TABLE shop_1.orders TO shop_1._orders_del, shop_1._orders_gho TO shop_1.orders",
        "shop_1",
    )
    log.transaction(insert(shard(1, ("w", "int")), (5, "z", 7)))
    log.ddl("DROP TABLE shop_1._orders_del", "shop_1")
    given = {**BOTH, "ddl": {"online_tools": tools}}
    if tools == "follow":
        error = stopped(log.folder, tmp_path / "lake", **given)
        assert isinstance(error, SettingError) and 'ddl.online_tools = "fold"' in str(error.hint)
        return
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {
        "lake.orders": [
            (1, "a", "1", 5), (1, "c", "2", None), (2, "b", "1", 5), (3, "d", "2", None),
            (4, "y", "1", 5), (5, "z", "1", 7),
        ]
    }  # fmt: skip


def test_names_in_other_letters(tmp_path: Path) -> None:
    """As a source logs them that keeps names in lower case."""
    log = LogWriter(tmp_path / "log")
    eu = Table("orders", ONE.columns, database="shop_eu")
    log.ddl("CREATE TABLE Shop_EU.Orders (id INT PRIMARY KEY, v VARCHAR(40))", "Shop_EU")
    log.ddl("CREATE TABLE shop_us.orders (id INT PRIMARY KEY, v VARCHAR(40))", "shop_us")
    log.transaction(insert(eu, (1, "a")), insert(Table("orders", database="shop_us"), (1, "c")))
    log.ddl("ALTER TABLE Shop_EU.Orders ADD w INT DEFAULT 2", "Shop_EU")
    given = {**BOTH, "source": {"lower_case_table_names": 1}}
    for _ in range(2):
        assert run(log.folder, tmp_path / "lake", **given)
    rows = [(1, "a", "eu", 2), (1, "c", "us", None)]
    assert last_shown(tmp_path / "lake") == {"lake.orders": rows}
    log.transaction(
        delete(Table("orders", (*eu.columns, ("w", "int")), database="shop_eu"), (1, "a", 2))
    )
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"lake.orders": rows[1:]}


def test_an_xa_branch_may_change_several_shards(log: LogWriter, tmp_path: Path) -> None:
    xid = (b"branch", b"1", 1)
    log.xa_prepare(xid, insert(ONE, (7, "x")), insert(TWO, (7, "y")))
    log.ddl(shard(3, ("w", "int")).create, "shop_3")
    assert run(log.folder, tmp_path / "lake", **BOTH)
    log.xa_end("COMMIT", xid)
    assert run(log.folder, tmp_path / "lake", **BOTH)
    shown = last_shown(tmp_path / "lake")["lake.orders"]
    assert shown[-2:] == [(7, "x", "1", None), (7, "y", "2", None)]


def test_shards_may_have_extra_columns(log: LogWriter, tmp_path: Path) -> None:
    rule = {**RULE, "extra_columns": ["source_table", "operation"]}
    log.ddl("ALTER TABLE shop_2.orders ADD w INT", "shop_2")
    assert run(log.folder, tmp_path / "lake", tables=[rule], **MAPPED)
    assert last_shown(tmp_path / "lake")["lake.orders"][:2] == [
        (1, "a", "1", "shop_1.orders", "INSERT", None),
        (1, "c", "2", "shop_2.orders", "INSERT", None),
    ]


def test_cascades_into_shards_stop(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(ONE.create, "shop_1")
    log.ddl(
        "CREATE TABLE shop_1.lines (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES"
        " shop_1.orders (id) ON DELETE CASCADE)", "shop_1",
    )  # fmt: skip
    lines = Table("lines", (("id", "int"), ("p", "int")), database="shop_1")
    log.transaction(insert(ONE, (1, "a")), insert(lines, (1, 1)))
    log.transaction(delete(ONE, (1, "a")))
    error = stopped(log.folder, tmp_path / "lake", ddl={"cascades": "emulate"}, **BOTH)
    assert isinstance(error, DecodeError)


def test_a_second_channel_may_not_feed_a_table_of_shards(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    us = LogWriter(tmp_path / "us", source="99999999-2222-3333-4444-555555555555", server_id=9)
    us.ddl(THREE.create, "shop_3")
    us.transaction(insert(THREE, (1, "us")))
    assert run(log.folder, target, **BOTH)
    error = stopped(us.folder, target, channel="us", **BOTH)
    assert isinstance(error, OtherChannelError) and "lake.orders" in error.message
    plain = LogWriter(tmp_path / "plain", source="88888888-2222-3333-4444-555555555555")
    plain.ddl(Table("orders", database="lake").create, "lake")
    error = stopped(plain.folder, target, channel="us")
    assert isinstance(error, OtherChannelError) and error.table == "lake.orders"
    other = {**BOTH, "tables": [{**RULE, "to": "lake.us"}]}
    assert run(us.folder, target, channel="us", **other)
    assert {*reader_tables(channel_at(str(target), "us").control.cuts()[-1])} == {"lake.us"}


def test_a_foreign_commit_to_a_table_of_shards_stops(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    assert run(log.folder, target, **BOTH)
    folder, delta = str(target / "lake" / "orders"), LocalDelta()
    add = {"path": "x", "size": 1, "dataChange": True, "partitionValues": {}}
    put(folder, delta.version(folder) + 1, [{"add": add}], operation="WRITE")
    error = stopped(log.folder, target, **BOTH)
    assert isinstance(error, TargetError) and "another writer changed the table" in error.message


def test_small_files_of_a_shard_are_joined(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    for number in range(12):
        log.transaction(insert(ONE, (number, "a")), insert(TWO, (number, "c")))
    keys = {"column_mapping": True, "compact_files": 3}
    with applier(log.folder, target, tables=[RULE], keys=keys, group_max_transactions=1) as found:
        apply_without_stream(found)
        tend(found)
    folder, delta = str(target / "lake" / "orders"), LocalDelta()
    snapshot = delta.snapshot(folder)
    assert snapshot is not None and len(delta.files(snapshot)) < 20
    want = [(number, v, s) for number in range(12) for v, s in (("a", "1"), ("c", "2"))]
    assert last_shown(target)["lake.orders"] == want


def test_a_shards_rows_are_repaired(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    assert run(log.folder, target, **BOTH)
    called = Table("orders//2", database="lake")
    made = repaired(
        log, target, Read([(1, "right", "2"), (9, "new", "2")], [(3, None, None)], called), **BOTH
    )
    assert made is not None and made.refused is None
    want = [(1, "a", "1"), (1, "right", "2"), (2, "b", "1"), (9, "new", "2")]
    assert last_shown(target) == {"lake.orders": want}
    log.transaction(update(TWO, ((9, "new"), (9, "newer"))))
    assert run(log.folder, target, **BOTH)
    assert last_shown(target) == {"lake.orders": [*want[:3], (9, "newer", "2")]}


def copied(target: Path, log: LogWriter, until: int = 3) -> None:
    """A first copy of two shards, read between the log's second transaction and ``until``."""
    names = ["lake.orders//1", "lake.orders//2"]
    plan_first(target, f"{log.source}:1-2", *names, tables=[RULE])
    for table, name, rows in (
        (shard(1, ("w", "int")), names[0], [(1, "x", 7, "1"), (2, "b", None, "1")]),
        (TWO, names[1], [(1, "c", "2")]),
    ):
        read(target, table, rows, name=name, tables=[RULE], column_mapping=True)
    finish(target, f"{log.source}:1-{until}")


@pytest.mark.parametrize("step", [0, *range(1, 40, 3)])
def test_a_first_copy_of_shards_catches_up(tmp_path: Path, step: int) -> None:
    source, target = Twice(tmp_path), tmp_path / "lake"
    wide = shard(1, ("w", "int"))
    source.ddl(wide.create, TWO.create)
    source.transaction(update(wide, ((1, "a", 7), (1, "x", 7))), delete(TWO, (3, "d")))
    source.transaction(insert(wide, (5, "n", 1)), update(TWO, ((1, "c"), (1, "y"))))
    source.ddl("ALTER TABLE shop_2.orders ADD w INT DEFAULT 4", "DROP TABLE shop_1.orders")
    log = source.logs[0]
    copied(target, log)
    if not run(log.folder, target, crash=step, **BOTH):
        assert run(log.folder, target, **BOTH)
    shown = list(of_each(target).values())
    assert shown[-1] == {"2": [(("id", 1), ("v", "y"), ("w", 4))]}
    assert not (target / "lake" / "orders@2").exists()


def test_a_statement_while_a_copy_catches_up(tmp_path: Path) -> None:
    """``run`` would copy the table again: a shard it does not."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(shard(1, ("w", "int")).create, "shop_1")
    log.ddl(TWO.create, "shop_2")
    log.ddl("ALTER TABLE shop_1.orders ADD u INT", "shop_1")
    log.transaction(insert(TWO, (7, "n")))
    copied(target, log, until=4)
    for copies in (False, True):
        error = stopped(log.folder, target, copies=copies, **BOTH)
        assert isinstance(error, StatementError), copies


@pytest.mark.parametrize("step", [0, *range(1, 40, 4)])
def test_shards_go_on_beside_a_copy_of_another_table(
    log: LogWriter, tmp_path: Path, step: int
) -> None:
    """The applier goes back to the cut after which the copy began. The shards have the later
    changes already."""
    target, other = tmp_path / "lake", Table("x")
    log.ddl(other.create, "t")
    log.transaction(insert(other, (1, "a")))
    assert run(log.folder, target, **BOTH)
    plan(target, "t.x")
    log.ddl("ALTER TABLE shop_1.orders ADD w INT DEFAULT 3", "shop_1")
    log.transaction(insert(other, (2, "b")), update(TWO, ((1, "c"), (1, "y"))))
    log.ddl("DROP TABLE shop_1.orders", "shop_1")
    log.ddl(THREE.create, "shop_3")
    log.transaction(insert(THREE, (1, "t")), insert(other, (3, "c")))
    log.ddl(shard(1, ("u", "int")).create, "shop_1")
    log.transaction(insert(shard(1, ("u", "int")), (1, "new", 2)))
    assert run(log.folder, target, **BOTH)
    want = last_shown(target)
    assert len(want["lake.orders"]) == 4
    read(target, other, [(1, "a"), (2, "b")], column_mapping=True)
    finish(target, f"{log.source}:1-7")
    if not run(log.folder, target, crash=step, **BOTH):
        assert run(log.folder, target, **BOTH)
    assert last_shown(target) == want
    log.transaction(update(TWO, ((1, "y"), (1, "z"))), insert(THREE, (2, "t")))
    assert run(log.folder, target, **BOTH)
    assert len(last_shown(target)["lake.orders"]) == 5


def test_copies_of_one_are_told_apart() -> None:
    made: dict[str, Any] = {path: copies_of("a", path) for path in ("t/a", "t/a//1", "t/a//2")}
    assert [*made.values()] == ["a:copy", "a:copy//1", "a:copy//2"]


def test_a_start_of_a_running_applier_reads_one_log(log: LogWriter, tmp_path: Path) -> None:
    """All shards share one state of the Delta table."""
    assert run(log.folder, tmp_path / "lake", **BOTH)
    with applier(log.folder, tmp_path / "lake", **BOTH) as found:
        one, two = found.tracking.tables.values()
        assert one.delta is two.delta and one.snapshot is two.snapshot
    assert len(cuts(tmp_path / "lake")) > 0


@pytest.mark.parametrize("alter", ["DROP w", "MODIFY w VARCHAR(40)"])
def test_a_shard_is_not_beside_itself_behind_a_crash(tmp_path: Path, alter: str) -> None:
    """The last cut stands at its CREATE TABLE, which comes again and finds it."""
    log, wide = LogWriter(tmp_path / "log"), shard(1, ("w", "int"))
    log.ddl(wide.create, "shop_1")
    log.ddl(TWO.create, "shop_2")
    log.transaction(insert(wide, (1, "a", 5)), insert(TWO, (1, "z")))
    log.ddl(f"ALTER TABLE shop_1.orders {alter}", "shop_1")

    def columns(target: Path) -> list[tuple[str, str]]:
        at = LocalDelta().snapshot(str(target / "lake" / "orders"))
        assert at is not None
        fields = json.loads(at.schema_string)["fields"]
        return [(field["name"], field["type"]) for field in fields]

    assert run(log.folder, tmp_path / "whole", **BOTH)
    for step in range(1, 99):
        target = tmp_path / f"cut{step}"
        ended = run(log.folder, target, crash=step, **BOTH)
        assert run(log.folder, target, **BOTH)
        assert columns(target) == columns(tmp_path / "whole")
        if ended:
            break
    assert step > 9
