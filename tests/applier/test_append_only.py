"""mode = "append" of ``[[tables]]``: a row for each INSERT, once, and nothing takes one away."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import ConfigError, StatementError
from spark_repl.gtid import GtidSet
from spark_repl.observe.metrics import metrics
from spark_repl.observe.screen import screen
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.extra_model import FIRST, T, begun, told
from tests.support.local_delta import last_shown, run, stopped
from tests.support.made_copy import finish, plan_first, read

BAG = Table("bag", T.columns, ())


def rule(match: str = "t.a", **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": match, "mode": "append", **more}]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


@pytest.mark.parametrize("mode", ["strict", "idempotent"])
def test_updates_and_deletes_leave_inserted_rows(log: LogWriter, tmp_path: Path, mode: str) -> None:
    lake = tmp_path / "lake"
    log.transaction(update(T, (FIRST[0], (1, 9, "x")), (FIRST[1], (7, 5, "y"))))
    log.transaction(delete(T, FIRST[2]), insert(T, (3, 1, "again"), (1, 1, "x")))
    log.transaction(delete(T, (3, 1, "again")), insert(T, {0: 3, 2: "part"}))
    assert run(log.folder, lake, exec_mode=mode, **rule(extra_columns=["gtid", "operation"]))
    first = [(*row, log.gtid(2), "INSERT") for row in FIRST]
    more = [(1, 1, "x", log.gtid(4)), (3, 1, "again", log.gtid(4)), (3, None, "part", log.gtid(5))]
    want = [*first, *((*row, "INSERT") for row in more)]
    assert sorted(last_shown(lake)["t.a"], key=repr) == sorted(want, key=repr)
    found = status(str(lake))
    assert found["passed_over"] == {"t.a": 4} and found["counters"]["row_changes"] == 6
    assert "left out of t.a (mode append, or copy = none): 4 row changes" in screen(found)
    assert 'passed_over_total{channel="default",table="t.a"} 4.0' in metrics(found)


@pytest.mark.parametrize("mode", ["strict", "idempotent"])
def test_updates_of_a_table_without_a_key(log: LogWriter, tmp_path: Path, mode: str) -> None:
    """Both halves of one are entries of their own, of which the second is no INSERT."""
    log.ddl(BAG.create)
    log.transaction(insert(BAG, FIRST[0], FIRST[1]))
    log.transaction(update(BAG, (FIRST[0], (1, 9, "u"))), delete(BAG, (1, 9, "u")))
    log.transaction(update(BAG, (FIRST[1], (2, 9, "u")), ((2, 9, "u"), (2, 5, "y"))))
    assert run(log.folder, tmp_path / "lake", exec_mode=mode, **rule("t.%"))
    assert last_shown(tmp_path / "lake")["t.bag"] == FIRST[:2]
    assert status(str(tmp_path / "lake"))["passed_over"] == {"t.bag": 4, "t.a": 0}


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_log_s_inserts(tmp_path: Path, seed: int) -> None:
    rand = random.Random(seed)
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(T.create)
    log.ddl(BAG.create)
    want: dict[str, list[Any]] = {"t.a": [], "t.bag": []}
    there: dict[int, Any] = {}
    for number in range(20):
        made = []
        for _ in range(rand.randint(1, 4)):
            key, row = rand.randrange(4), (rand.randrange(4), number % 3, "v")
            if key in there and rand.random() < 0.5:
                made.append(delete(T, there.pop(key)))
            elif key in there and row[0] not in there:
                made.append(update(T, (there.pop(key), row)))
                there[row[0]] = row
            elif row[0] not in there:
                there[row[0]] = row
                made.append(insert(T, row))
                want["t.a"].append(row)
            made.append(insert(BAG, (1, 1, "same"), row))
            want["t.bag"] += [(1, 1, "same"), row]
            made.append(delete(BAG, (1, 1, "same")))
            made.append(update(BAG, (row, (row[0] + 9, 2, "moved"))))
        log.transaction(*made)
        if number == 9:
            run(log.folder, lake, workers=2, **rule("t.%"))
    bound = rand.choice([1, 3, 100])
    assert run(log.folder, lake, group_max_transactions=bound, workers=3, **rule("t.%"))
    assert last_shown(lake) == {name: sorted(rows) for name, rows in want.items()}


def test_a_crash_at_any_step_leaves_each_insert_once(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", T.create)
    source.transaction(insert(T, *FIRST))
    source.transaction(delete(T, FIRST[0]), insert(T, (1, 1, "back")))
    source.ddl("ALTER TABLE t.a ADD w INT DEFAULT 3 FIRST")
    wide = Table("a", (("w", "int"), *T.columns), (1,))
    source.transaction(
        insert(wide, (3, 1, 9, "more")), update(wide, ((3, 2, 5, "y"), (4, 2, 5, "y")))
    )
    source.ddl("TRUNCATE t.a")
    source.transaction(insert(wide, (1, 1, 9, "new")))
    want, step = cut_off_anywhere(source, tmp_path, lost=False, **rule())
    assert step > 15
    rows = [*((3, *row) for row in FIRST), (3, 1, 1, "back"), (3, 1, 9, "more"), (1, 1, 9, "new")]
    assert sorted([*want.values()][-1]["t.a"], key=repr) == sorted(rows, key=repr)


def test_an_xa_transactions_inserts_are_appended_at_its_commit(
    log: LogWriter, tmp_path: Path
) -> None:
    xid, lake = (b"x", b"", 1), tmp_path / "lake"
    log.xa_prepare(xid, insert(T, (4, 4, "q")), delete(T, FIRST[0]))
    assert run(log.folder, lake, **rule())
    log.xa_end("COMMIT", xid)
    assert run(log.folder, lake, **rule())
    assert sorted(last_shown(lake)["t.a"], key=repr) == [*FIRST, (4, 4, "q")]


def test_a_copy_that_was_read_as_of_one_moment(log: LogWriter, tmp_path: Path) -> None:
    lake, held = tmp_path / "lake", f"{log.source}:1-4"
    log.transaction(insert(T, (4, 4, "q")), delete(T, FIRST[0]))
    log.transaction(insert(T, (1, 2, "back")))
    given = rule(extra_columns=["gtid", "operation"])
    plan_first(lake, f"{log.source}:1-3", "t.a")
    read(lake, T, [(*row, held, "COPY") for row in (*FIRST[1:], (4, 4, "q"))], **given)
    finish(lake, f"{log.source}:1-5", views=("t.a",), exact={"t.a": GtidSet.parse(held)})
    assert run(log.folder, lake, **given)
    rows = [(*row, held, "COPY") for row in (*FIRST[1:], (4, 4, "q"))]
    rows.append((1, 2, "back", *told(log, 5, "INSERT")[1:4:2]))
    assert sorted(last_shown(lake)["t.a"], key=repr) == sorted(rows, key=repr)


def test_append_goes_with_filters_masks_and_exclusions(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(update(T, (FIRST[0], (1, 9, "x"))), insert(T, (8, 8, "new"), (9, 0, "less")))
    given = rule(row_filter="n > 2", exclude=["n"], mask={"v": "keep_last:1"})
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake")["t.a"] == [(2, "*"), (8, "**w")]


def test_statements_change_columns_and_name_and_drop_the_table(
    log: LogWriter, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    log.ddl("ALTER TABLE t.a DROP PRIMARY KEY, ADD w BIGINT DEFAULT 7, MODIFY v VARCHAR(80)")
    log.ddl("ALTER TABLE t.a ADD PRIMARY KEY (n, id), RENAME TO t.a2")
    wide = Table("a2", (*T.columns[:2], ("v", "varchar(80)"), ("w", "int")), (1, 0))
    log.ddl("ALTER TABLE t.a2 MODIFY w INT")
    log.transaction(insert(wide, (4, 4, "q", 1)), delete(wide, (1, 1, "x", 7)))
    assert run(log.folder, lake, **rule("t.a%"))
    rows = [*((*row, 7) for row in (*FIRST[:2], (3, 0, "z"))), (4, 4, "q", 1)]
    assert sorted(last_shown(lake)["t.a2"], key=repr) == rows
    log.ddl("DROP TABLE t.a2")
    assert run(log.folder, lake, **rule("t.a%"))
    assert last_shown(lake) == {}


def test_nulls_of_rows_that_the_source_has_not(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(delete(T, FIRST[2]))
    strict = b"\1" + (1 << 22).to_bytes(8, "little")  # a session's sql_mode
    log.ddl("ALTER TABLE t.a MODIFY n INT NOT NULL", status=strict)
    error = stopped(log.folder, tmp_path / "lake", copies=True, **rule())
    assert isinstance(error, StatementError) and "there are NULLs" in str(error)
    assert last_shown(tmp_path / "lake")["t.a"] == FIRST


def test_a_dropped_partition_leaves_its_rows_in_the_target(tmp_path: Path) -> None:
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(
        f"{T.create} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (3),"
        " PARTITION q VALUES LESS THAN (9))"
    )
    log.transaction(insert(T, *FIRST))
    log.ddl("ALTER TABLE t.a TRUNCATE PARTITION p")
    log.ddl("ALTER TABLE t.a DROP PARTITION p")
    log.transaction(insert(T, (4, 4, "q")))
    assert run(log.folder, lake, **rule())
    assert sorted(last_shown(lake)["t.a"], key=repr) == [*FIRST, (4, 4, "q")]


def test_rows_of_which_the_log_says_nothing(log: LogWriter, tmp_path: Path) -> None:
    """A copy would have only the source's present rows, so the applier makes none."""
    log.ddl("ALTER TABLE t.a DISCARD TABLESPACE")
    error = stopped(log.folder, tmp_path / "lake", copies=True, **rule())
    assert isinstance(error, StatementError) and error.table == "t.a"
    assert last_shown(tmp_path / "lake")["t.a"] == FIRST


def test_append_refuses_settings_without_meaning() -> None:
    with pytest.raises(ConfigError, match=r'deleted, which mode = "append" never sets'):
        Config.from_mapping(rule(extra_columns=["deleted"]))
