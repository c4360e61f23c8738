"""``key_prefix`` of ``[[tables]]``: many tables of the source in one Delta table, each row with its
shard; its columns are those of any shard, whatever ALTERs, statements and crashes come."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import RowError, SettingError, StatementError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import cuts, last_shown, run, stopped
from tests.support.shards import (
    APART,
    BOTH,
    ONE,
    RULE,
    THREE,
    TWO,
    alike,
    begun,
    columns,
    filled,
    of_each,
    shard,
)


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def test_equal_keys_are_two_rows(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(ONE, (1, "a"), (2, "b")), insert(TWO, (1, "c")))
    log.transaction(update(ONE, ((1, "a"), (1, "x"))), delete(TWO, (1, "c")))
    log.transaction(insert(TWO, (2, "y")))
    alike(log, tmp_path)
    assert last_shown(tmp_path / "lake") == {
        "lake.orders": [(1, "x", "1"), (2, "b", "1"), (2, "y", "2")]
    }
    versions = {at.version for at in cuts(tmp_path / "lake")[-1].tables.values()}
    assert len(versions) == 1


def test_a_group_is_one_commit(log: LogWriter, tmp_path: Path) -> None:
    """A reader of the Delta table itself never sees half of a transaction."""
    assert run(log.folder, tmp_path / "lake", **BOTH)
    before = {at.version for at in cuts(tmp_path / "lake")[-1].tables.values()}
    log.transaction(insert(ONE, (1, "a")), insert(TWO, (1, "c")))
    assert run(log.folder, tmp_path / "lake", **BOTH)
    after = {at.version for at in cuts(tmp_path / "lake")[-1].tables.values()}
    assert after == {version + 1 for version in before}


@pytest.mark.parametrize("number", [1, 2])
def test_a_key_that_is_there_in_one_shard_alone(
    log: LogWriter, tmp_path: Path, number: int
) -> None:
    log.transaction(insert(ONE, (1, "a")))
    log.transaction(insert(shard(number), (1, "again")))
    if number == 2:
        alike(log, tmp_path)
    else:
        error = stopped(log.folder, tmp_path / "lake", **BOTH)
        assert isinstance(error, RowError) and error.number == 1062
        assert error.table == "lake.orders//1"


def test_a_row_of_another_shard_is_not_found(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(ONE, (1, "a")))
    log.transaction(delete(TWO, (1, "a")))
    error = stopped(log.folder, tmp_path / "lake", **BOTH)
    assert isinstance(error, RowError) and error.number == 1032


def test_columns_come_and_go_shard_by_shard(log: LogWriter, tmp_path: Path) -> None:
    filled(log)
    log.ddl("ALTER TABLE orders ADD w INT", "shop_1")
    log.transaction(insert(shard(1, ("w", "int")), (5, "e", 5)), insert(TWO, (5, "e")))
    alike(log, tmp_path)
    assert columns(tmp_path / "lake") == ["id", "v", "shop", "w"]
    log.ddl("ALTER TABLE orders ADD w INT DEFAULT 7", "shop_2")  # of the rows that are there, too
    wide = [shard(number, ("w", "int")) for number in (1, 2)]
    log.transaction(update(wide[1], ((5, "e", 7), (5, "e", 8))))
    log.ddl("ALTER TABLE orders DROP w", "shop_1")
    log.transaction(update(ONE, ((5, "e"), (5, "f"))))
    assert run(log.folder, tmp_path / "lake", **BOTH)
    assert columns(tmp_path / "lake") == ["id", "v", "shop", "w"]
    log.ddl("ALTER TABLE orders ADD w INT", "shop_1")  # nothing of before comes back
    log.ddl("ALTER TABLE orders DROP w", "shop_2")
    log.ddl("ALTER TABLE orders DROP w", "shop_1")
    alike(log, tmp_path)
    assert columns(tmp_path / "lake") == ["id", "v", "shop"]


def test_a_group_spans_a_statement_of_one_shard(log: LogWriter, tmp_path: Path) -> None:
    """Rows from before and behind it of both shards, each by its own definition."""
    filled(log)
    log.ddl("ALTER TABLE orders ADD w INT FIRST", "shop_2")
    first = Table(
        "orders", (("w", "int"), ("id", "int"), ("v", "varchar(40)")), (1,), database="shop_2"
    )
    log.transaction(update(first, ((None, 1, "c"), (4, 1, "z"))), update(ONE, ((1, "a"), (1, "y"))))
    alike(log, tmp_path)


def test_a_shards_column_of_another_type_stops(log: LogWriter, tmp_path: Path) -> None:
    filled(log)
    log.ddl("ALTER TABLE orders ADD w INT", "shop_1")
    log.ddl("ALTER TABLE orders ADD w VARCHAR(9)", "shop_2")
    error = stopped(log.folder, tmp_path / "lake", **BOTH)
    assert isinstance(error, SettingError)
    assert "column w is integer in lake.orders, with lake.orders//1, and would be string" in str(
        error
    )
    assert list(of_each(tmp_path / "lake"))[-1] == f"{log.source}:1-4"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER TABLE orders MODIFY v INT", "column v is string in lake.orders"),
        ("RENAME TABLE orders TO shop_4.orders", "would be called lake.orders//4"),
        ("RENAME TABLE orders TO other", "would be called shop_1.other"),
        ("ALTER TABLE orders RENAME other", "would be called shop_1.other"),
        ("ALTER TABLE orders DROP PRIMARY KEY", "key_prefix: the table has no key"),
        (
            "ALTER TABLE orders ADD shop INT",
            "key_prefix: the source's table has a column shop, too",
        ),
    ],
)
def test_statements_that_one_delta_table_can_not_follow_stop(
    log: LogWriter, tmp_path: Path, statement: str, says: str
) -> None:
    filled(log)
    log.ddl(statement, "shop_1")
    for copies in (False, True):
        error = stopped(log.folder, tmp_path / "lake", copies=copies, **BOTH)
        assert isinstance(error, SettingError | StatementError) and says in str(error)
    assert list(of_each(tmp_path / "lake"))[-1] == f"{log.source}:1-3"


def test_a_rename_into_a_shard_stops(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("CREATE TABLE shop_3.other (id INT PRIMARY KEY, v VARCHAR(40))", "shop_3")
    log.ddl("RENAME TABLE shop_3.other TO shop_3.orders", "shop_3")
    error = stopped(log.folder, tmp_path / "lake", **BOTH)
    assert isinstance(error, SettingError) and "would be called lake.orders//3" in str(error)


def test_the_only_shard_changes_a_type(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(ONE.create, "shop_1")
    log.transaction(insert(ONE, (1, "17")))
    log.ddl("ALTER TABLE orders MODIFY v INT", "shop_1")
    alike(log, tmp_path)


@pytest.mark.parametrize("verb", ["TRUNCATE", "DROP"])
def test_rows_of_one_shard_go(log: LogWriter, tmp_path: Path, verb: str) -> None:
    filled(log)
    log.ddl(f"{verb} TABLE orders", "shop_1")
    log.transaction(update(TWO, ((1, "c"), (1, "x"))))
    got = alike(log, tmp_path)
    assert set(list(got.values())[-1]) == ({"1", "2"} if verb == "TRUNCATE" else {"2"})
    assert last_shown(tmp_path / "lake")["lake.orders"] == [(1, "x", "2"), (3, "d", "2")]


@pytest.mark.parametrize(
    "statement", ["DROP TABLE shop_1.orders, shop_2.orders", "DROP DATABASE shop_1"]
)
def test_shards_that_come_again(log: LogWriter, tmp_path: Path, statement: str) -> None:
    filled(log)
    log.ddl(statement, "shop_1")
    log.ddl(shard(1, ("w", "int")).create, "shop_1")
    log.transaction(insert(shard(1, ("w", "int")), (1, "new", 1)))
    log.ddl(THREE.create, "shop_3")
    log.transaction(insert(THREE, (1, "c")))
    alike(log, tmp_path)


def test_shards_are_made_by_their_rows(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(ONE, (1, "a")))
    wide = shard(2, ("w", "int"))
    log.transaction(insert(wide, (1, "b", 2)), insert(ONE, (2, "c")), insert(THREE, (1, "d")))
    alike(log, tmp_path)


def test_without_deletion_vectors_and_with_a_feed(log: LogWriter, tmp_path: Path) -> None:
    filled(log)
    log.transaction(delete(ONE, (1, "a")), update(TWO, ((1, "c"), (2, "e"))))
    log.ddl("ALTER TABLE orders ADD w INT DEFAULT 3", "shop_2")
    log.ddl("TRUNCATE TABLE orders", "shop_1")
    (tmp_path / "a").mkdir()
    alike(log, tmp_path / "a", vectors=False)
    (tmp_path / "b").mkdir()
    alike(log, tmp_path / "b", feed=True)


def test_other_rules_than_the_table_was_made_with(log: LogWriter, tmp_path: Path) -> None:
    assert run(filled(log).folder, tmp_path / "lake", **BOTH)
    for more in (
        {"tables": [{**RULE, "key_prefix": "other"}]},
        {"tables": [{**RULE, "extra_columns": ["gtid"]}]},
        APART,
        {"filters": {"ignore_db": ["shop_1"]}},
        {"ddl": {"policy": ["lake.*: ignore_drop"]}},
        {"ddl": {"policy": ["lake.orders: additive_only"]}},
    ):
        assert isinstance(
            stopped(log.folder, tmp_path / "lake", **{**BOTH, **more}), SettingError
        ), more
    assert run(log.folder, tmp_path / "lake", **BOTH)


@pytest.mark.slow
def test_a_crash_at_any_step_leaves_each_shard_equal(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    for made in (ONE, TWO):
        source.ddl(made.create)
    source.transaction(insert(ONE, (1, "a"), (2, "b")), insert(TWO, (1, "c"), (3, "d")))
    source.ddl("ALTER TABLE shop_1.orders ADD w INT DEFAULT 4")
    wide = [shard(number, ("w", "int")) for number in (1, 2)]
    source.transaction(update(wide[0], ((1, "a", 4), (1, "x", 5))), delete(TWO, (1, "c")))
    source.ddl("ALTER TABLE shop_2.orders ADD w INT", THREE.create)
    source.transaction(insert(THREE, (1, "t")), insert(wide[1], (9, "n", 9)))
    source.ddl("ALTER TABLE shop_1.orders DROP w", "TRUNCATE TABLE shop_2.orders")
    source.transaction(insert(ONE, (9, "n")), insert(wide[1], (1, "again", 1)))
    source.ddl("DROP TABLE shop_1.orders, shop_3.orders", ONE.create)
    source.transaction(insert(ONE, (1, "new")))
    want, step = cut_off_anywhere(source, tmp_path, lost=False, see=of_each, **BOTH)
    assert step > 40
    assert run(source.logs[0].folder, tmp_path / "apart", group_max_transactions=1, **APART)
    assert want == of_each(tmp_path / "apart")


def test_cut_off_anywhere_and_the_log_is_lost(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl(ONE.create, TWO.create)
    source.transaction(insert(ONE, (1, "a")), insert(TWO, (1, "c"), (3, "d")))
    source.ddl("ALTER TABLE shop_1.orders ADD w INT DEFAULT 4")
    source.transaction(insert(shard(1, ("w", "int")), (5, "e", 1)), delete(TWO, (1, "c")))
    source.ddl(shard(3, ("u", "int")).create, "TRUNCATE TABLE shop_1.orders")
    source.transaction(insert(shard(3, ("u", "int")), (5, "e", 1)), insert(TWO, (1, "n")))
    source.ddl("DROP TABLE shop_2.orders")
    cut_off_anywhere(source, tmp_path, lost=True, see=of_each, **BOTH)


@pytest.mark.parametrize("seed", range(12))
def test_equals_tables_of_their_own(tmp_path: Path, seed: int) -> None:
    """Random rows and statements of three shards, in groups of random bounds."""
    rand = random.Random(f"shards {seed}")
    log = LogWriter(tmp_path / "log")
    there: dict[int, dict[int, tuple[Any, ...]]] = {}
    more: dict[int, list[str]] = {}
    for step in range(rand.randint(15, 40)):
        number = rand.randint(1, 3)
        database = f"shop_{number}"
        if number not in there:
            more[number] = [one for one in "wu" if rand.random() < 0.4]
            log.ddl(shard(number, *((one, "int") for one in more[number])).create, database)
            there[number] = {}
        elif (kind := rand.random()) < 0.1:
            log.ddl("TRUNCATE TABLE orders", database)
            there[number] = {}
        elif kind < 0.15:
            log.ddl("DROP TABLE orders", database)
            del there[number]
        elif kind < 0.4:
            column = rand.choice("wu")
            if column in more[number]:
                log.ddl(f"ALTER TABLE orders DROP {column}", database)
                at = 2 + more[number].index(column)
                more[number].remove(column)
                rows = there[number].items()
                there[number] = {key: row[:at] + row[at + 1 :] for key, row in rows}
            else:
                value = rand.choice([None, 7])
                default = "" if value is None else f" DEFAULT {value}"
                log.ddl(f"ALTER TABLE orders ADD {column} INT{default}", database)
                more[number].append(column)
                there[number] = {key: (*row, value) for key, row in there[number].items()}
        else:
            log.transaction(*_changes(rand, there, more, step))
    given = {"group_max_transactions": rand.choice([1, 3, 100]), "workers": rand.choice([1, 3])}
    given["vectors"] = rand.random() < 0.7
    run(log.folder, tmp_path / "lake", crash=rand.randint(5, 90), **{**BOTH, **given})
    alike(log, tmp_path, **given)


def _changes(
    rand: random.Random,
    there: dict[int, dict[int, tuple[Any, ...]]],
    more: Mapping[int, list[str]],
    step: int,
) -> list[Any]:
    """Changes of one transaction, over the shards that are there; ``there`` is what they make."""
    made = []
    for _ in range(rand.randint(1, 6)):
        number = rand.choice([*there])
        table = shard(number, *((one, "int") for one in more[number]))
        key, rows = rand.randint(1, 5), there[number]
        new = (key, f"{number} {step}", *(rand.randint(0, 9) for _ in more[number]))
        if key not in rows:
            made.append(insert(table, new))
            rows[key] = new
        elif rand.random() < 0.5:
            made.append(update(table, (rows[key], new)))
            rows[key] = new
        else:
            made.append(delete(table, rows.pop(key)))
    return made
