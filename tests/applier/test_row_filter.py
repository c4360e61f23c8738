"""row_filter of ``[[tables]]``: the target has the rows for which it is true, whatever statements,
images without all columns and crashes come; what can't be told stops by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import (
    ConfigError,
    DecodeError,
    RowError,
    SchemaError,
    SettingError,
    SparkReplError,
    StatementError,
)
from spark_repl.observe.metrics import metrics
from spark_repl.observe.screen import screen
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.extra_model import carried_on
from tests.support.local_delta import at_cut, cuts, last_shown, run, stopped

A = Table("a", (("id", "int"), ("v", "int"), ("s", "varchar(40)"), ("n", "int")))
B = Table("b", A.columns, ())
FIRST = [(1, 1, "x", 7), (2, 5, "y", 8), (3, None, "z", 9)]


def rule(text: str = "v > 2", match: str = "t.a", **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": match, "row_filter": text, **more}]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    made.transaction(insert(A, *FIRST))
    return made


def place(log: LogWriter, ordinal: int) -> str:
    return f"gtid {log.gtid(ordinal)},"


def test_rows_enter_and_leave_as_their_values_change(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(update(A, (FIRST[0], (1, 3, "x", 7)), (FIRST[1], (2, 2, "y", 8))))
    log.transaction(update(A, (FIRST[2], (3, 1, "z", 9)), ((3, 1, "z", 9), (4, 9, "z", 9))))
    log.transaction(update(A, ((2, 2, "y", 8), (2, 0, "y", 1))), delete(A, (2, 0, "y", 1)))
    assert run(log.folder, tmp_path / "lake", **rule())
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, 3, "x", 7), (4, 9, "z", 9)]}
    assert status(str(tmp_path / "lake"))["row_filters"] == {"t.a": 5}
    assert run(log.folder, tmp_path / "lake", **rule())  # a second start


@pytest.mark.parametrize("exec_mode", ["strict", "idempotent"])
def test_a_row_whose_key_changes_enters_or_leaves_by_its_filter(
    log: LogWriter, tmp_path: Path, exec_mode: str
) -> None:
    log.transaction(update(A, (FIRST[1], (20, 5, "y", 8)), (FIRST[2], (30, 9, "z", 9))))
    assert run(log.folder, tmp_path / "lake", exec_mode=exec_mode, **rule())
    assert last_shown(tmp_path / "lake") == {"t.a": [(20, 5, "y", 8), (30, 9, "z", 9)]}
    four = (4, 1, "q", 1)
    log.transaction(insert(A, (50, 7, "i", 1), four), update(A, (four, (40, 7, "q", 1))))
    log.transaction(delete(A, (50, 7, "i", 1), (40, 7, "q", 1)))
    whole = {0: 1, 1: 1, 2: "x", 3: 7}
    log.transaction(
        update(A, ({0: 20, 1: 5}, {0: 2})), update(A, ({0: 30, 1: 9}, {0: 3, 1: 0})),
        update(A, (whole, {0: 10, 1: 9})),
    )  # fmt: skip
    given = {"exec_mode": exec_mode, "group_max_transactions": 1, **rule()}
    assert run(log.folder, tmp_path / "lake", **given)
    rows = [at_cut(tmp_path / "lake", cut).get("t.a", []) for cut in cuts(tmp_path / "lake")]
    assert [(40, 7, "q", 1), (50, 7, "i", 1)] in [shown[2:] for shown in rows]
    assert last_shown(tmp_path / "lake") == {"t.a": [(2, 5, "y", 8), (10, 9, "x", 7)]}


def test_a_row_that_is_missing_is_an_error_all_the_same(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(update(A, ((9, 5, "q", 1), (9, 6, "q", 1))))
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(error, RowError) and error.number == 1032
    log.transaction(update(A, ((9, 1, "q", 1), (9, 2, "q", 1))))
    assert not isinstance(stopped(log.folder, tmp_path / "lake", **rule()), DecodeError)


def test_a_table_made_by_its_first_table_map(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(A, *FIRST), insert(B, *FIRST, *FIRST))
    assert run(log.folder, tmp_path / "lake", **rule(match="t.%"))
    assert last_shown(tmp_path / "lake") == {"t.a": [FIRST[1]], "t.b": [FIRST[1], FIRST[1]]}


def test_filters_may_have_patterns_and_compare_texts(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    table = Table("a", (("id", "int"), ("s", "varchar(40) COLLATE utf8mb4_bin")))
    log.ddl(table.create)
    log.transaction(insert(table, (1, "eu-1"), (2, "eu_2"), (3, "uk"), (4, "EU_4"), (5, "zü")))
    log.transaction(update(table, ((3, "uk"), (3, "eu_3")), ((2, "eu_2"), (2, "f"))))
    lake = tmp_path / "lake"
    assert run(log.folder, lake, **rule("s LIKE 'eu|_%' ESCAPE '|' OR s >= 'z'"))
    assert last_shown(lake) == {"t.a": [(3, "eu_3"), (5, "zü")]}
    found = status(str(lake))
    assert found["row_filters"] == {"t.a": 3}
    assert "left out by row_filter of t.a: 3 row changes" in screen(found)
    assert 'row_filter_left_out_total{channel="default",table="t.a"} 3.0' in metrics(found)


def test_a_filter_that_no_row_passes_leaves_an_empty_table(log: LogWriter, tmp_path: Path) -> None:
    assert run(log.folder, tmp_path / "lake", **rule("v = 77"))
    assert last_shown(tmp_path / "lake") == {"t.a": []}


def test_columns_that_nobody_sees_are_looked_at(log: LogWriter, tmp_path: Path) -> None:
    given = rule("v > 2 AND s = 'y'", exclude=["v"], mask={"s": "null"})
    log.transaction(update(A, (FIRST[1], (2, 9, "y", 1)), (FIRST[0], (1, 9, "x", 7))))
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake") == {"t.a": [(2, None, 1)]}


def test_a_crash_at_any_step_leaves_filtered_rows_equal(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", A.create)
    source.transaction(insert(A, *FIRST))
    source.ddl("ALTER TABLE t.a ADD w INT DEFAULT 3 FIRST, MODIFY n DOUBLE")
    wide = Table("a", (("w", "int"), *A.columns[:3], ("n", "double")), (1,))
    source.transaction(update(wide, ((3, 1, 1, "x", 7.0), (4, 1, 8, "x", 7.0))))
    source.ddl("ALTER TABLE t.a DROP COLUMN s")
    less = Table("a", (("w", "int"), ("id", "int"), ("v", "int"), ("n", "double")), (1,))
    source.transaction(update(less, ((3, 2, 5, 8.0), (3, 2, 1, 8.0))), insert(less, (5, 9, 9, 0.5)))
    want, step = cut_off_anywhere(source, tmp_path, lost=False, **rule())
    assert step > 15
    assert [*want.values()][-1] == {"t.a": [(4, 1, 8, 7.0), (5, 9, 9, 0.5)]}


def test_filters_decide_by_images_without_all_columns(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(update(A, ({0: 1, 1: 1}, {2: "never"})), update(A, ({0: 2, 1: 5}, {2: "new"})))
    log.transaction(update(A, ({0: 2, 1: 5}, {1: 6})), update(A, ({0: 3, 1: None}, {2: "no"})))
    assert run(log.folder, tmp_path / "lake", **rule())
    assert last_shown(tmp_path / "lake") == {"t.a": [(2, 6, "new", 8)]}
    log.transaction(update(A, ({0: 2, 1: 6}, {1: 1})), delete(A, {0: 1, 1: 1}))
    assert run(log.folder, tmp_path / "lake", **rule())
    assert last_shown(tmp_path / "lake") == {"t.a": []}


def test_images_with_the_key_alone_are_enough_for_a_filter_by_it(
    log: LogWriter, tmp_path: Path
) -> None:
    log.transaction(update(A, ({0: 1}, {2: "one"})), update(A, ({0: 2}, {1: 0}), ({0: 2}, {1: 3})))
    log.transaction(update(A, ({0: 3}, {0: 4})), delete(A, {0: 2}))
    assert run(log.folder, tmp_path / "lake", **rule("id % 2 = 1"))
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, 1, "one", 7)]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (update(A, ({0: 1}, {1: 9})), "an image lacks column v"),
        (delete(A, {0: 1}), "an image lacks column v"),
        (insert(A, {0: 9, 2: "q"}), "an image lacks column v"),
        (update(A, ({0: 1, 1: 1}, {1: 9})), "begins to pass row_filter v > 2, and its image lacks"),
    ],
    ids=["update", "delete", "insert", "begins"],
)
def test_images_that_do_not_tell(log: LogWriter, tmp_path: Path, change: Any, says: str) -> None:
    log.transaction(change)
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(error, DecodeError) and says in str(error) and place(log, 3) in str(error)
    assert error.table == "t.a" and "binlog_row_image=FULL" in (error.hint or "")
    assert last_shown(tmp_path / "lake") == {"t.a": [FIRST[1]]}


def test_a_value_that_a_filter_can_not_decide_stops(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(A, (7, 1, "Y", 1)))
    log.transaction(insert(A, (8, 1, "ÿ", 1)))
    error = stopped(log.folder, tmp_path / "lake", **rule("s = 'y'"))
    assert isinstance(error, DecodeError) and place(log, 4) in str(error)
    assert "how utf8mb4_0900_ai_ci compares 'ÿ' is not known here" in str(error)
    assert last_shown(tmp_path / "lake") == {"t.a": [FIRST[1], (7, 1, "Y", 1)]}
    hidden = rule("s = 'y'", exclude=["s"])
    error = stopped(log.folder, tmp_path / "other", **hidden)
    assert "is not known" in str(error) and "ÿ" not in str(error)
    assert run(log.folder, tmp_path / "bytes", **rule("CAST(s AS BINARY) = 'y'"))
    assert last_shown(tmp_path / "bytes") == {"t.a": [FIRST[1]]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("w > 2", "there is no column w"),
        ("f(v) = 1", "F() is not computed here"),
        ("s < 'b'", "an order of TEXT"),
        ("v LIKE 'b'", "LIKE of INTEGER is not computed here"),
    ],
)
@pytest.mark.parametrize("made", [True, False], ids=["by CREATE", "by its first TABLE_MAP"])
def test_expressions_that_the_table_has_no_room_for(
    tmp_path: Path, text: str, says: str, made: bool
) -> None:
    log = LogWriter(tmp_path / "log")
    if made:
        log.ddl(A.create)
    log.transaction(insert(A, *FIRST))
    error = stopped(log.folder, tmp_path / "lake", **rule(text))
    assert isinstance(error, SettingError) and says in str(error) and error.table == "t.a"
    assert f"[[tables]] t.a: row_filter {text}" in str(error) and "gtid" in str(error)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("RAND() < 0.5", "RAND() is not deterministic"),
        ("v > 2 AND d < CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP() is not deterministic"),
        ("v = MAX(v)", "MAX() looks at other rows"),
        ("v IN (SELECT v FROM t.b)", "SELECT is a subquery"),
        ("v = @a", "@a is a variable"),
        ("1 = 1", "it looks at no column"),
        ("v > ", "it is not understood from its end"),
        ("(v > 2", "ends too early"),
        ("s RLIKE 'x'", "RLIKE is not computed here"),
    ],
)
def test_expressions_that_no_table_has_room_for(
    log: LogWriter, tmp_path: Path, text: str, says: str
) -> None:
    error = stopped(log.folder, tmp_path / "lake", **rule(text))
    assert isinstance(error, ConfigError) and says in str(error)
    assert "tables[1].row_filter" in str(error) and not (tmp_path / "lake").exists()


def test_a_quarantine_would_keep_the_rows() -> None:
    with pytest.raises(ConfigError, match=r"tables\[1\] withholds rows"):
        Config.from_mapping({"apply": {"on_error": "quarantine"}, **rule()})


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        ("ALTER TABLE t.a RENAME COLUMN v TO w", SettingError, "column v becomes w"),
        ("ALTER TABLE t.a DROP COLUMN v", SettingError, "column v goes"),
        ("ALTER TABLE t.a DROP COLUMN v, ADD v INT", SettingError, "column v goes"),
        ("ALTER TABLE t.a MODIFY v BIGINT", StatementError, "becomes another type"),
        ("ALTER TABLE t.a MODIFY v INT NOT NULL", StatementError, "becomes another type"),
        ("ALTER TABLE t.a ADD w INT, RENAME TO t.c", SettingError, "rows are filtered otherwise"),
        ("RENAME TABLE t.a TO t.c", SettingError, "rows are filtered otherwise"),
        ("RENAME TABLE t.b TO t.d, t.a TO t.c", SettingError, "rows are filtered otherwise"),
        ("RENAME TABLE t.a TO t.c, t.b TO t.a", SettingError, "rows are filtered otherwise"),
    ],
)
def test_statements_that_would_break_a_filter_stop(
    log: LogWriter, tmp_path: Path, statement: str, error: type[SparkReplError], says: str
) -> None:
    log.transaction(insert(B, *FIRST))
    log.ddl(statement)
    found = stopped(log.folder, tmp_path / "lake", **rule())
    assert type(found) is error and says in str(found) and found.table == "t.a"
    assert last_shown(tmp_path / "lake") == {"t.a": [FIRST[1]], "t.b": FIRST}


def test_statements_that_a_rule_has_room_for(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("ALTER TABLE t.a ADD g INT AS (n + 1) STORED, MODIFY s VARCHAR(80), ADD w INT FIRST")
    log.ddl("RENAME TABLE t.a TO t.a2")
    columns = (("w", "int"), *A.columns[:2], ("s", "varchar(80)"), ("n", "int"), ("g", "int"))
    renamed = Table("a2", columns, (1,))
    log.transaction(insert(renamed, (0, 4, 4, "q", 1, 2), (0, 5, 1, "q", 1, 2)))
    assert run(log.folder, tmp_path / "lake", **rule(match="t.a%"))
    want = [(None, *FIRST[1], 9), (0, 4, 4, "q", 1, 2)]
    assert last_shown(tmp_path / "lake") == {"t.a2": want}
    log.ddl("TRUNCATE t.a2")
    assert run(log.folder, tmp_path / "lake", **rule(match="t.a%"))
    assert last_shown(tmp_path / "lake") == {"t.a2": []}


def test_a_dropped_partition_takes_its_filtered_rows_away(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(
        f"{A.create} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (3),"
        " PARTITION q VALUES LESS THAN (9))"
    )
    log.transaction(insert(A, *FIRST, (4, 4, "q", 1)))
    log.ddl("ALTER TABLE t.a DROP PARTITION p")
    assert run(log.folder, tmp_path / "lake", **rule())
    assert last_shown(tmp_path / "lake") == {"t.a": [(4, 4, "q", 1)]}


def test_partitions_that_are_exchanged(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    by = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))"
    log.ddl(f"{A.create} {by}")
    other = Table("c", A.columns)
    log.ddl(other.create)
    log.transaction(insert(A, *FIRST), insert(other, (4, 1, "q", 1)))
    log.ddl("ALTER TABLE t.a EXCHANGE PARTITION p WITH TABLE t.c")
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(
        error, SettingError
    ) and "other rows or columns of t.a than the source" in str(error)


@pytest.mark.parametrize("change", ["another", "none", "a rule again"])
def test_other_rules_than_the_table_was_made_with(
    log: LogWriter, tmp_path: Path, change: str
) -> None:
    first, then = rule(), rule("v > 3")
    if change == "none":
        then = {}
    elif change == "a rule again":
        first = {}
    assert run(log.folder, tmp_path / "lake", **first)
    error = stopped(log.folder, tmp_path / "lake", **then)
    assert isinstance(error, SettingError) and "than the table was made with" in str(error)
    assert run(log.folder, tmp_path / "lake", **first)


def test_logged_columns_that_no_statement_has_made(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(Table("a", (*A.columns, ("w", "int"))), (4, 4, "q", 1, 1)))
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(error, SchemaError) and "whose rows are filtered" in str(error)


def test_an_xa_transactions_rows_are_filtered_at_its_commit(log: LogWriter, tmp_path: Path) -> None:
    xid = (b"x", b"", 1)
    log.xa_prepare(
        xid, insert(A, (4, 4, "q", 1), (5, 0, "q", 1)), update(A, (FIRST[0], (1, 9, "x", 7)))
    )
    assert run(log.folder, tmp_path / "lake", **rule())
    assert last_shown(tmp_path / "lake") == {"t.a": [FIRST[1]]}
    log.xa_end("COMMIT", xid)
    assert run(log.folder, tmp_path / "lake", **rule())
    assert last_shown(tmp_path / "lake") == {"t.a": [(1, 9, "x", 7), FIRST[1], (4, 4, "q", 1)]}


@pytest.mark.parametrize("filtered", ["t.a", "t.c"], ids=["the parent", "the child"])
def test_cascades_into_a_filtered_table_stop(tmp_path: Path, filtered: str) -> None:
    log = carried_on(tmp_path / "log", A, FIRST)
    options = {"ddl": {"cascades": "emulate"}, **rule(match=filtered)}
    error = stopped(log.folder, tmp_path / "lake", **options)
    assert isinstance(error, DecodeError) and error.table == filtered
    assert "has not the same rows" in str(error) and place(log, 3) in str(error)


def test_collations_that_a_table_map_tells_of_a_table_with_a_foreign_key(tmp_path: Path) -> None:
    log, child = LogWriter(tmp_path / "log"), Table("c")
    log.ddl(A.create)
    log.ddl(
        "CREATE TABLE t.c (id INT PRIMARY KEY, v VARCHAR(40), FOREIGN KEY (id) REFERENCES t.a (id))"
    )
    log.transaction(insert(A, *FIRST), insert(child, (1, "x"), (2, "y")))
    given = rule("id > 1", "t.c", exclude=["v"])
    assert run(log.folder, tmp_path / "lake", **given)
    log.transaction(insert(child, (3, "z")))
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake")["t.c"] == [(2,), (3,)]


def test_the_policy_additive_only_is_refused_for_filtered_rows(
    log: LogWriter, tmp_path: Path
) -> None:
    log.ddl("ALTER TABLE t.a DROP COLUMN n")
    kept = {"policy": ["t.a: additive_only"]}
    error = stopped(log.folder, tmp_path / "lake", ddl=kept, **rule())
    assert isinstance(error, SettingError) and "additive_only" in str(error)


def test_a_database_under_another_name(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(update(A, (FIRST[1], (2, 1, "y", 8)), (FIRST[0], (1, 9, "x", 7))))
    filters = {"rewrite_db": ["t->u"]}
    assert run(log.folder, tmp_path / "lake", filters=filters, **rule(match="u.a"))
    assert last_shown(tmp_path / "lake") == {"u.a": [(1, 9, "x", 7)]}
