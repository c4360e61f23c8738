"""Shards (``key_prefix`` of ``[[tables]]``) whose columns get wider types and other names one after
the other: each shows at each cut what a table of its own would."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError, StatementError, TargetError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.local_delta import (
    LocalDelta,
    applier,
    apply_without_stream,
    last_shown,
    run,
    stopped,
)
from tests.support.shards import APART, BOTH, ONE, TWO, V, alike, begun, fields, filled, of_each


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return filled(begun(tmp_path / "log"))


def of(number: int, *columns: tuple[str, str], key: int = 0) -> Table:
    return Table("orders", columns, (key,), database=f"shop_{number}")


TYPES = {"smallint": "short", "int": "integer"}
"""of Delta, where the name is another one"""


def lake(target: Path) -> dict[str, Any]:
    return fields(target / "lake")


def files(target: Path) -> set[str]:
    """Paths of the live data files."""
    delta, folder = LocalDelta(), str(target / "lake" / "orders")
    there = delta.snapshot(folder)
    assert there is not None
    return {*delta.files(there)}


def with_w(number: int, kind: str) -> Table:
    return of(number, ("id", "int"), ("v", V), ("w", kind))


def test_a_type_gets_wider_shard_by_shard(log: LogWriter, tmp_path: Path) -> None:
    narrow = [with_w(number, "int") for number in (1, 2)]
    wide = [with_w(number, "bigint") for number in (1, 2)]
    for number in (1, 2):
        log.ddl("ALTER TABLE orders ADD w INT", f"shop_{number}")
    log.transaction(
        update(narrow[0], ((1, "a", None), (1, "a", 7))), insert(narrow[1], (5, "e", 8))
    )
    alike(log, tmp_path)
    assert lake(tmp_path)["w"] == "integer"
    log.ddl("ALTER TABLE orders MODIFY w BIGINT", "shop_1")
    log.transaction(insert(wide[0], (6, "f", 2**40)), update(narrow[1], ((5, "e", 8), (5, "x", 9))))
    log.transaction(delete(narrow[1], (5, "x", 9)), insert(narrow[1], (7, "g", -1)))
    alike(log, tmp_path)
    assert lake(tmp_path)["w"] == "long"
    before = files(tmp_path / "lake")
    log.ddl("ALTER TABLE orders MODIFY w BIGINT", "shop_2")
    assert run(log.folder, tmp_path / "lake", **BOTH)
    assert files(tmp_path / "lake") == before  # which are as wide as that
    log.transaction(update(wide[1], ((7, "g", -1), (7, "g", -(2**40)))))
    alike(log, tmp_path)


def test_a_type_gets_narrower_with_the_last_that_has_it(log: LogWriter, tmp_path: Path) -> None:
    for number in (1, 2):
        log.ddl("ALTER TABLE orders ADD w BIGINT DEFAULT 5", f"shop_{number}")
    for number in (1, 2):
        log.ddl("ALTER TABLE orders MODIFY w SMALLINT", f"shop_{number}")
        log.transaction(update(with_w(number, "smallint"), ((1, "ac"[number - 1], 5), (1, "x", 6))))
    alike(log, tmp_path)
    assert lake(tmp_path)["w"] == "long"
    log.ddl("ALTER TABLE orders DROP w", "shop_1")
    log.ddl("ALTER TABLE orders MODIFY w INT", "shop_2")
    alike(log, tmp_path)
    assert lake(tmp_path)["w"] == "integer"


def test_a_type_stays_wide_with_other_statements(log: LogWriter, tmp_path: Path) -> None:
    """Of the last shard that has the column: ADD writes no file again, which the feed refuses."""
    for number in (1, 2):
        log.ddl("ALTER TABLE orders ADD w BIGINT DEFAULT 5", f"shop_{number}")
    log.ddl("ALTER TABLE orders MODIFY w INT", "shop_2")
    log.ddl("ALTER TABLE orders DROP w", "shop_1")
    assert run(log.folder, tmp_path / "lake", feed=True, **BOTH)
    before = files(tmp_path / "lake")
    log.ddl("ALTER TABLE orders ADD x INT", "shop_2")
    alike(log, tmp_path, feed=True)
    assert files(tmp_path / "lake") == before and lake(tmp_path)["w"] == "long"


@pytest.mark.parametrize(
    ("before", "after", "there", "values"),
    [
        ("smallint", "int", "integer", (7, 70_000)),
        ("int", "decimal(9,4)", "decimal(14,4)", (7, Decimal("8.0625"))),
        ("decimal(6,2)", "decimal(9,4)", "decimal(9,4)", (Decimal("-7.25"), Decimal("8.0625"))),
        ("decimal(9,4)", "decimal(6,2)", "decimal(9,4)", (Decimal("7.2500"), Decimal("8.25"))),
        ("float", "double", "double", (0.5, 0.1)),
        ("int", "double", "double", (7, 0.1)),
        ("double", "int", "double", (7.0, 8)),
    ],
)
@pytest.mark.parametrize("verb", ["MODIFY w", "CHANGE w y"])
def test_a_wider_number_in_one_shard_widens_the_delta_table(
    log: LogWriter, tmp_path: Path, before: str, after: str, there: str, values: tuple[Any, Any],
    verb: str,
) -> None:  # fmt: skip
    for number in (1, 2):
        log.ddl(f"ALTER TABLE orders ADD w {before} FIRST", f"shop_{number}")
    old = [of(number, ("w", before), ("id", "int"), ("v", V), key=1) for number in (1, 2)]
    new = of(1, ("w", after), ("id", "int"), ("v", V), key=1)
    log.transaction(insert(old[0], (values[0], 5, "e")), insert(old[1], (values[0], 5, "f")))
    log.ddl(f"ALTER TABLE orders {verb} {after}", "shop_1")
    name = verb.split()[-1]
    new = of(1, (name, after), ("id", "int"), ("v", V), key=1)
    log.transaction(
        insert(new, (values[1], 6, "g")), update(old[1], ((values[0], 5, "f"), (None, 5, "g"))),
        insert(old[1], (values[0], 6, "h")),
    )  # fmt: skip
    alike(log, tmp_path, group_max_transactions=1)
    assert lake(tmp_path)["w"] == (there if name == "w" else TYPES.get(before, before))


@pytest.mark.parametrize(
    ("before", "after"), [("int", "bigint"), ("smallint", "decimal(9,4)"), ("smallint", "double")]
)
def test_a_wider_key_of_one_shard_finds_its_rows(
    log: LogWriter, tmp_path: Path, before: str, after: str
) -> None:
    """Rows of either shard are found by a key of its own type, also those of before."""
    narrow = of(2, ("id", before), ("v", V))
    wide = [of(number, ("id", after), ("v", V)) for number in (1, 2)]
    for number in (1, 2):
        log.ddl(f"ALTER TABLE orders MODIFY id {before}", f"shop_{number}")
    log.ddl(f"ALTER TABLE orders MODIFY id {after}", "shop_1")
    log.transaction(update(wide[0], ((1, "a"), (1, "x"))), update(narrow, ((1, "c"), (1, "y"))))
    log.transaction(delete(wide[0], (2, "b")), insert(narrow, (2, "z")), delete(narrow, (3, "d")))
    log.ddl(f"ALTER TABLE orders MODIFY id {after}", "shop_2")
    log.transaction(update(wide[1], ((1, "y"), (1, "x"))), delete(wide[1], (2, "z")))
    alike(log, tmp_path, group_max_transactions=1)
    assert last_shown(tmp_path / "lake") == {"lake.orders": [(1, "x", "1"), (1, "x", "2")]}


@pytest.mark.parametrize("filled_before", [False, True])
def test_a_new_shard_or_column_is_wider(tmp_path: Path, filled_before: bool) -> None:
    log = begun(tmp_path / "log")
    if filled_before:
        filled(log)
    log.ddl("ALTER TABLE orders ADD w INT DEFAULT 3", "shop_1")
    log.ddl("ALTER TABLE orders ADD w BIGINT", "shop_2")
    three = of(3, ("id", "decimal(9,4)"), ("w", "smallint"))
    log.transaction(insert(with_w(1, "int"), (8, "h", 8)), insert(with_w(2, "bigint"), (8, "h", 8)))
    log.ddl("ALTER TABLE orders DROP w", "shop_2")
    log.ddl(three.create, "shop_3")
    log.transaction(insert(with_w(1, "int"), (9, "i", 8)), insert(three, (Decimal("0.5"), 1)))
    alike(log, tmp_path)
    assert lake(tmp_path) == {
        "id": "decimal(14,4)", "v": "string", "shop": "string", "w": "long",
    }  # fmt: skip


def test_a_type_that_none_holds(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("ALTER TABLE orders MODIFY id DOUBLE", "shop_1")
    assert run(log.folder, tmp_path / "lake", **BOTH)
    log.ddl("ALTER TABLE orders MODIFY id BIGINT", "shop_2")
    error = stopped(log.folder, tmp_path / "lake", **BOTH)
    assert isinstance(error, SettingError) and error.table == "lake.orders//2"
    assert "column id is double in lake.orders, with lake.orders//1, and would be long" in str(
        error
    )
    assert "spark-repl reset --all --config F" in str(error.hint)


def test_a_shard_that_was_new_at_the_start_has_no_say_once_it_is_dropped(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(ONE.create, "shop_1")
    log.ddl(of(2, ("id", "decimal(9,4)"), ("v", V)).create, "shop_2")
    assert run(log.folder, tmp_path / "lake", **BOTH)
    log.ddl("DROP TABLE orders", "shop_2")
    log.ddl("ALTER TABLE orders MODIFY id DOUBLE NOT NULL, DROP v", "shop_1")
    alike(log, tmp_path)
    assert lake(tmp_path) == {"id": "double", "shop": "string"}


def test_rows_that_are_of_no_known_shard(log: LogWriter, tmp_path: Path) -> None:
    """Their columns are unknown: they would be NULL in a column of another type."""
    assert run(log.folder, tmp_path / "lake", **BOTH)
    log.ddl("ALTER TABLE orders MODIFY id BIGINT", "shop_1")
    with applier(log.folder, tmp_path / "lake", **BOTH) as found:
        del found.tracking.tables["lake.orders//2"]
        with pytest.raises(TargetError, match="the table has rows of shards that are not known: 2"):
            apply_without_stream(found)
    assert lake(tmp_path)["id"] == "integer"
    alike(log, tmp_path)


def test_a_name_changes_shard_by_shard(log: LogWriter, tmp_path: Path) -> None:
    renamed = [of(number, ("id", "int"), ("u", V)) for number in (1, 2)]
    log.ddl("ALTER TABLE orders RENAME COLUMN v TO u", "shop_1")
    log.transaction(update(renamed[0], ((1, "a"), (1, "x"))), update(TWO, ((1, "c"), (1, "y"))))
    alike(log, tmp_path)
    assert [*lake(tmp_path)] == ["id", "v", "shop", "u"]
    log.ddl("ALTER TABLE orders CHANGE v u VARCHAR(40)", "shop_2")
    log.transaction(update(renamed[1], ((1, "y"), (1, "z"))), delete(renamed[0], (2, "b")))
    alike(log, tmp_path)
    assert [*lake(tmp_path)] == ["id", "shop", "u"]
    log.ddl("ALTER TABLE orders RENAME COLUMN u TO v", "shop_1")
    log.ddl("ALTER TABLE orders DROP u, ADD v VARCHAR(40) DEFAULT 'n'", "shop_2")
    alike(log, tmp_path)
    assert [*lake(tmp_path)] == ["id", "shop", "v"]


def test_a_name_of_another_case(log: LogWriter, tmp_path: Path) -> None:
    """It is the same column; the Delta table has the name that came first."""
    log.ddl("ALTER TABLE orders RENAME COLUMN v TO V", "shop_1")
    log.ddl("ALTER TABLE orders CHANGE ID Id BIGINT", "shop_2")
    log.transaction(update(of(1, ("id", "int"), ("V", V)), ((1, "a"), (1, "x"))))
    log.transaction(update(of(2, ("Id", "bigint"), ("v", V)), ((1, "c"), (2**40, "y"))))
    assert run(log.folder, tmp_path / "lake", **BOTH)
    assert lake(tmp_path) == {"id": "long", "v": "string", "shop": "string"}
    shown = last_shown(tmp_path / "lake")["lake.orders"]
    assert shown == [(1, "x", "1"), (2, "b", "1"), (3, "d", "2"), (2**40, "y", "2")]


def test_a_key_gets_another_name(log: LogWriter, tmp_path: Path) -> None:
    one, two = (of(number, ("no", "bigint"), ("v", V)) for number in (1, 2))
    log.ddl("ALTER TABLE orders CHANGE id no BIGINT", "shop_1")
    log.transaction(update(one, ((1, "a"), (1, "x"))), update(TWO, ((1, "c"), (1, "y"))))
    alike(log, tmp_path)
    assert [*lake(tmp_path)] == ["id", "v", "shop", "no"]
    log.ddl("ALTER TABLE orders CHANGE id no INT", "shop_2")
    log.transaction(delete(of(2, ("no", "int"), ("v", V)), (1, "y")), delete(one, (2, "b")))
    alike(log, tmp_path)
    assert lake(tmp_path) == {"v": "string", "shop": "string", "no": "long"}
    log.ddl("ALTER TABLE orders MODIFY no BIGINT", "shop_2")
    log.transaction(delete(two, (3, "d")), insert(two, (2**40, "e")))
    alike(log, tmp_path)


def test_columns_that_swap_names_in_one_shard_stay_right_in_both(
    log: LogWriter, tmp_path: Path
) -> None:
    swapped = of(1, ("id", "int"), ("w", V), ("v", V))
    for number in (1, 2):
        log.ddl("ALTER TABLE orders ADD w VARCHAR(40) DEFAULT 'w'", f"shop_{number}")
    log.ddl("ALTER TABLE orders RENAME COLUMN v TO w, RENAME COLUMN w TO v", "shop_1")
    log.transaction(update(swapped, ((1, "a", "w"), (1, "b", "c"))))
    alike(log, tmp_path)
    assert [*lake(tmp_path)] == ["id", "v", "shop", "w"]


def test_generated_columns_of_shards_are_right_within_one_group(
    log: LogWriter, tmp_path: Path
) -> None:
    """Rows before and after a statement in one group, also of images that lack columns."""
    for number in (1, 2):
        log.ddl("ALTER TABLE orders ADD w INT AS (id + 1) STORED", f"shop_{number}")
    log.ddl("ALTER TABLE orders RENAME COLUMN id TO no, RENAME COLUMN v TO u", "shop_1")
    log.ddl("ALTER TABLE orders MODIFY w BIGINT AS (id + 1) STORED", "shop_2")
    one = of(1, ("no", "int"), ("u", V), ("w", "int"))
    log.transaction(
        update(one, ({0: 1}, {1: "x"})), update(with_w(2, "bigint"), ({0: 1}, {1: "y"})),
        insert(with_w(2, "bigint"), (9, "n", 10)),
    )  # fmt: skip
    log.ddl("ALTER TABLE orders MODIFY w BIGINT AS (no + 2) STORED", "shop_1")
    alike(log, tmp_path)
    assert last_shown(tmp_path / "lake")["lake.orders"][0] == (None, None, "1", 3, 1, "x")


@pytest.mark.parametrize("alter", ["MODIFY id BIGINT", "RENAME COLUMN v TO u"])
def test_alters_of_shards_with_a_change_data_feed_stop(
    log: LogWriter, tmp_path: Path, alter: str
) -> None:
    """Delta refuses to write rows again in a commit by which a column goes, or is another one."""
    log.ddl("ALTER TABLE orders CHANGE v u VARCHAR(40)", "shop_1")
    assert run(log.folder, tmp_path / "lake", feed=True, **BOTH)
    assert last_shown(tmp_path / "lake")["lake.orders"][0] == (1, None, "1", "a")
    log.ddl(f"ALTER TABLE orders {alter}", "shop_2")
    error = stopped(log.folder, tmp_path / "lake", feed=True, **BOTH)
    assert isinstance(error, StatementError) and "with a change data feed" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True])
def test_a_crash_between_shards_alters_leaves_each_equal(tmp_path: Path, lost: bool) -> None:
    source = Twice(tmp_path)
    source.ddl(ONE.create, TWO.create)
    source.transaction(insert(ONE, (1, "a"), (2, "b")), insert(TWO, (1, "c"), (3, "d")))
    source.ddl("ALTER TABLE shop_1.orders CHANGE id id BIGINT, RENAME COLUMN v TO u")
    one = of(1, ("id", "bigint"), ("u", V))
    source.transaction(update(one, ((1, "a"), (1, "x"))), update(TWO, ((1, "c"), (1, "y"))))
    three = of(3, ("id", "decimal(9,4)"))
    source.ddl(three.create, "ALTER TABLE shop_2.orders MODIFY id BIGINT")
    two = of(2, ("id", "bigint"), ("v", V))
    source.transaction(insert(three, (Decimal("2.5"),)), delete(two, (3, "d")))
    source.ddl("ALTER TABLE shop_2.orders CHANGE v u VARCHAR(40)")
    source.transaction(delete(one, (1, "x")), insert(of(2, ("id", "bigint"), ("u", V)), (7, "z")))
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, see=of_each, **BOTH)
    assert step > 30 or lost
    assert run(source.logs[0].folder, tmp_path / "apart", group_max_transactions=1, **APART)
    assert want == of_each(tmp_path / "apart")


def test_rows_of_a_partition_by_a_wider_column(tmp_path: Path) -> None:
    """No bound is told by what statistics say of it in the wider type: 2^53 + 1 is no double."""
    log, first = LogWriter(tmp_path / "log"), 2**53 + 1
    log.ddl(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY) PARTITION BY RANGE (id)"
        f" (PARTITION a VALUES LESS THAN ({first}), PARTITION b VALUES LESS THAN MAXVALUE)",
        "shop_1",
    )
    log.ddl("CREATE TABLE orders (id DECIMAL(9, 4) PRIMARY KEY)", "shop_2")
    log.transaction(insert(of(1, ("id", "bigint")), (first,)))
    log.ddl("ALTER TABLE orders DROP PARTITION a", "shop_1")
    alike(log, tmp_path)
    assert last_shown(tmp_path / "lake") == {"lake.orders": [(first, "1")]}
