"""PARTITION BY as it is read, what ALTER TABLE makes of it, and which rows a partition has."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_repl.binlog.definition import TableDefinition
from spark_repl.binlog.partitioning import Partition, Partitioning
from spark_repl.binlog.types.forms import Forms
from spark_repl.ddl.alteration import Altered
from spark_repl.ddl.altered import alter
from spark_repl.ddl.effect import Effect, classify_in
from spark_repl.ddl.partition_rows import PartitionRows
from spark_repl.ddl.renamed import like, rename
from spark_repl.ddl.session import Session
from spark_repl.errors import StatementError
from spark_repl.write.altered_rows import without_zero_dates

SESSION = Session(
    "d", time_zone="+02:00", charsets={"d": "utf8mb4_0900_ai_ci"}, explicit_timestamps=True
)
COLUMNS = (
    "id INT, big BIGINT UNSIGNED, d DATE, m DATETIME(3), ts TIMESTAMP NOT NULL, c VARCHAR(9),"
    " n DECIMAL(9,2), e ENUM('a')"
)


def made(partition_by: str, session: Session = SESSION) -> TableDefinition:
    statement = classify_in(f"CREATE TABLE t ({COLUMNS}) PARTITION BY {partition_by}", session)
    assert statement.definition is not None, statement.reason
    return statement.definition


def parted(partition_by: str, session: Session = SESSION) -> Partitioning:
    found = made(partition_by, session).partitioning
    assert found is not None
    return found


def altered(before: TableDefinition, actions: str) -> Altered:
    statement = classify_in(f"ALTER TABLE t {actions}", SESSION)
    assert statement.effect is not Effect.UNSUPPORTED, statement.reason
    return alter(before, statement, SESSION)


def names(definition: TableDefinition) -> str:
    assert definition.partitioning is not None
    assert not definition.partitioning.unknown, definition.partitioning.unknown
    return " ".join(partition.name for partition in definition.partitioning.partitions)


def test_range_as_the_server_shows_it() -> None:
    statement = (
        "CREATE TABLE `t` (`id` int DEFAULT NULL) ENGINE=InnoDB\n"
        "/*!50100 PARTITION BY RANGE (`id`)\nSUBPARTITION BY HASH (`id`)\nSUBPARTITIONS 2\n"
        "(PARTITION p0 VALUES LESS THAN (-10) COMMENT = 'x,y' ENGINE = InnoDB,\n"
        " PARTITION `p 1` VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */"
    )
    found = classify_in(statement, SESSION).definition
    assert found is not None
    parts = (Partition("p0", ((-10,),)), Partition("p 1", ((None,),)))
    assert found.partitioning == Partitioning("RANGE", ("id",), "", parts)
    assert TableDefinition.from_json(found.to_json()).partitioning == found.partitioning
    for copy in (like(found, "d.u"), rename(found, "d.u")):
        assert copy.partitioning == found.partitioning


def test_a_definition_of_before_knows_nothing() -> None:
    text = made("RANGE (id) (PARTITION p VALUES LESS THAN (1))").to_json()
    old = text[: text.index(',"partitioning"')] + "}"
    assert TableDefinition.from_json(old).partitioning is None


@pytest.mark.parametrize(
    ("clause", "columns", "function", "values"),
    [
        ("RANGE COLUMNS (d, id) (PARTITION p VALUES LESS THAN ('2026-01-01', MAXVALUE))",
         ("d", "id"), "", (("2026-01-01", None),)),
        ("RANGE (to_days(`d`)) (PARTITION p VALUES LESS THAN (TO_DAYS('2026-01-01')))",
         ("d",), "TO_DAYS", ((739982,),)),
        ("RANGE (TO_SECONDS(m)) (PARTITION p VALUES LESS THAN (TO_SECONDS(DATE'1970-01-02')))",
         ("m",), "TO_SECONDS", ((719529 * 86400,),)),
        ("RANGE (UNIX_TIMESTAMP(ts)) (PARTITION p VALUES LESS THAN"
         " (UNIX_TIMESTAMP('2026-01-01 00:00:00')))", ("ts",), "UNIX_TIMESTAMP", ((1767218400,),)),
        ("LIST (DAY(d)) PARTITIONS 1 (PARTITION p VALUES IN (1, 2, NULL))",
         ("d",), "DAYOFMONTH", ((1,), (2,), (None,))),
        ("LIST COLUMNS (id, c) (PARTITION p VALUES IN ((1, 'a'), (-3, NULL)))",
         ("id", "c"), "", ((1, "a"), (-3, None))),
    ],
)  # fmt: skip
def test_what_is_read(clause: str, columns: object, function: str, values: object) -> None:
    found = parted(clause)
    assert (found.unknown, found.columns, found.function) == ("", columns, function)
    assert found.partitions[0].values == values


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("HASH (id) PARTITIONS 4", "by HASH"),
        ("LINEAR KEY (id)", "by LINEAR KEY"),
        ("RANGE (id + 1) (PARTITION p VALUES LESS THAN (1))", "expression id + 1"),
        ("RANGE (YEARWEEK(d)) (PARTITION p VALUES LESS THAN (1))", "expression YEARWEEK"),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (3 + 4))", "3 + 4"),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (ABS('7')))", "ABS"),
        ("RANGE (TO_DAYS(d)) (PARTITION p VALUES LESS THAN (TO_DAYS('2026-1-1')))", "2026-1-1"),
        ("RANGE (TO_DAYS(d)) (PARTITION p VALUES LESS THAN (TO_DAYS('2026-02-30')))", "2026-02-30"),
        ("RANGE COLUMNS (id, d) (PARTITION p VALUES LESS THAN (1))", "not as many"),
        ("RANGE (id) (PARTITION p)", "values of partition p"),
    ],
)
def test_what_is_not_understood_is_unknown(clause: str, said: str) -> None:
    """The table is made all the same."""
    found = made(clause)
    assert found.partitioning is not None and said in found.partitioning.unknown
    gone = altered(found, "DROP PARTITION p")
    assert said in gone.rows_go and gone.gone is None


@pytest.mark.parametrize(
    ("zone", "clock", "said"),
    [
        ("SYSTEM", "2026-01-01", "source.system_time_zone"),
        ("", "2026-01-01", "source.system_time_zone"),
        ("Europe/Nowhere", "2026-01-01", "Europe/Nowhere is not known"),
        ("Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25 02:30:00 in Europe/Berlin"),
        ("Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29 02:30:00 in Europe/Berlin"),
        ("Europe/Berlin", "2026-07-01", ""),
    ],
)
def test_the_time_zone_of_a_bound(zone: str, clock: str, said: str) -> None:
    by = f"RANGE (UNIX_TIMESTAMP(ts)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('{clock}')))"
    found = parted(by, replace(SESSION, time_zone=zone))
    assert said in found.unknown and bool(said) == bool(found.unknown)
    if not said:
        assert found.partitions[0].values == ((1782856800,),)


LADDER = (
    "RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION B VALUES LESS THAN (20),"
    " PARTITION c VALUES LESS THAN MAXVALUE)"
)


@pytest.mark.parametrize(
    ("actions", "left"),
    [
        ("DROP PARTITION b", "a c"),
        ("ALGORITHM=COPY, DROP PARTITION `A`, C", "B"),
        ("TRUNCATE PARTITION a, b", "a B c"),
        ("TRUNCATE PARTITION ALL", "a B c"),
        ("REORGANIZE PARTITION b, c INTO (PARTITION x VALUES LESS THAN (15), PARTITION c VALUES"
         " LESS THAN MAXVALUE)", "a x c"),
        ("REORGANIZE PARTITION a, b INTO (PARTITION b VALUES LESS THAN (20))", "b c"),
        ("REORGANIZE PARTITION a, b INTO (PARTITION B VALUES LESS THAN (20))", "B c"),
        ("REORGANIZE PARTITION z INTO (PARTITION a VALUES LESS THAN (10))", "a B c"),
        ("ADD PARTITION (PARTITION d VALUES LESS THAN (30))", "a B c d"),
        ("ADD PARTITION (PARTITION a VALUES LESS THAN (10))", "a B c"),
        ("RENAME COLUMN id TO x", "a B c"),
        ("ADD COLUMN z INT PARTITION BY LIST (z) (PARTITION q VALUES IN (NULL))", "q"),
        ("OPTIMIZE PARTITION a", "a B c"),
    ],
)  # fmt: skip
def test_partitions_behind_alter_table(actions: str, left: str) -> None:
    found = altered(made(LADDER), actions)
    assert names(found.definition) == left
    assert not found.rows_go
    assert bool(found.gone) == actions.endswith(("PARTITION b", "C", "b", "ALL"))


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ("ADD PARTITION (PARTITION a VALUES LESS THAN (11))", "ADD PARTITION does not fit"),
        ("ADD PARTITION (PARTITION x VALUES LESS THAN (1 + 1))", "1 + 1"),
        ("REORGANIZE PARTITION z INTO (PARTITION y VALUES LESS THAN (1))", "does not fit"),
        ("DROP COLUMN id", "column is gone"),
        ("PARTITION BY KEY (id)", "by KEY"),
        ("DROP PARTITION z", "DROP PARTITION does not fit"),
    ],
)
def test_what_makes_partitions_unknown(actions: str, said: str) -> None:
    found = altered(made(LADDER), actions)
    assert found.definition.partitioning and said in found.definition.partitioning.unknown
    assert bool(found.rows_go) == actions.startswith("DROP PARTITION")


@pytest.mark.parametrize(
    "action",
    [
        "ADD KEY (big)",
        "ADD KEY k (big) USING BTREE COMMENT 'PARTITION BY' KEY_BLOCK_SIZE=8 INVISIBLE",
        "ADD FULLTEXT KEY (c) WITH PARSER ngram",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
        "ADD CONSTRAINT u UNIQUE (id)",
        "ADD CHECK (id > 0)",
        "ADD CONSTRAINT q CHECK (id > 0) NOT ENFORCED",
        "ADD FOREIGN KEY (id) REFERENCES p (id) ON DELETE SET NULL",
        "ADD z INT CHECK (z > 0) NOT ENFORCED",
        "ADD z INT NOT NULL COMMENT 'z'",
        "ADD z INT REFERENCES p (id) ON DELETE CASCADE",
        "ADD z INT AS (id + 1) STORED",
        "ADD (z INT, KEY (z))",
        "ORDER BY id",
        "ORDER BY big, t.id DESC",
        "ORDER BY `remove`, remove",
        "COMMENT 'z'",
        "DROP COLUMN c",
        "ALTER big SET DEFAULT 1",
        "CONVERT TO CHARACTER SET latin1",
        "RENAME TO u",
        "FORCE",
    ],
)
def test_partitioning_behind_another_action(action: str) -> None:
    """No comma stands before it."""
    before = replace(made(LADDER), has_primary=True)
    found = altered(before, f"{action} PARTITION BY LIST (id) (PARTITION q VALUES IN (1))")
    assert names(found.definition) == "q"
    assert altered(before, f"{action} REMOVE PARTITIONING").definition.partitioning is None


def test_partitions_that_were_never_seen_and_none() -> None:
    before = replace(made(LADDER), partitioning=None)
    assert "are not known" in altered(before, "DROP PARTITION a").rows_go
    assert altered(made(LADDER), "REMOVE PARTITIONING").definition.partitioning is None
    assert "other actions" in altered(made(LADDER), "ADD z INT, DROP PARTITION a").rows_go
    everything = altered(before, "TRUNCATE PARTITION ALL").gone
    assert everything and everything.of_rows([], 2).tolist() == [True, True]


LISTS = (
    "LIST (id) (PARTITION a VALUES IN (1, 2, NULL), PARTITION b VALUES IN (3, 4), PARTITION c"
    " VALUES IN (5))"
)


def test_reorganize_of_lists_deletes_what_it_leaves_out() -> None:
    """Which the server does without a word (seen on 9.7.4)."""
    said = (
        "REORGANIZE PARTITION a, b INTO (PARTITION a VALUES IN (4, 1), PARTITION x VALUES IN ({}))"
    )
    assert "NULL is listed no more" in altered(made(LISTS), said.format("3")).rows_go
    found = altered(made(LISTS), said.format("NULL, 3"))
    assert found.gone and names(found.definition) == "a x c"
    values = pa.array([1, 2, 3, 4, 5, None], pa.int32())
    assert found.gone.of_rows([values], 6).tolist() == [False, True, False, False, False, False]
    assert altered(made(LISTS), said.format("3, NULL, 2, 9")).gone is None
    unknown = replace(made(LISTS), partitioning=None)
    assert "not known" in altered(unknown, said.format("3")).rows_go
    assert "1 + 1" in altered(made(LISTS), said.format("1 + 1")).rows_go
    texts = made("LIST COLUMNS (c) (PARTITION a VALUES IN ('e', 'f'), PARTITION b VALUES IN ('g'))")
    into = "REORGANIZE PARTITION a INTO (PARTITION a VALUES IN ('f', {}))"
    assert "collation" in altered(texts, into.format("'E'")).rows_go
    gone = altered(texts, into.format("'h'")).gone
    found_texts = gone and gone.of_rows([pa.array(["e", "E", "f", "g"])], 4).tolist()
    assert found_texts == [True, True, False, False]


def rows(clause: str, wanted: str, form: str = "error") -> PartitionRows:
    before = Forms(zero_dates=form).apply(made(clause))
    found = altered(before, f"DROP PARTITION {wanted}")
    assert found.gone is not None, found.rows_go
    return found.gone


DAY = datetime.date(2026, 1, 1)
DAYS = "(PARTITION a VALUES LESS THAN ('2026-01-01'), PARTITION b VALUES LESS THAN (MAXVALUE))"


@pytest.mark.parametrize(
    ("clause", "values", "kind", "wanted"),
    [
        (LADDER, [None, -1, 9, 10, 19, 20], "int32", "TTTFFF"),
        ("RANGE (big) (PARTITION a VALUES LESS THAN (18446744073709551600), PARTITION b VALUES"
         " LESS THAN MAXVALUE)", [None, 0, 18446744073709551599, 18446744073709551600], "big",
         "TTTF"),
        (f"RANGE COLUMNS (d) {DAYS}", [None, DAY - datetime.timedelta(1), DAY], "date", "TTF"),
        ("RANGE (YEAR(d)) (PARTITION a VALUES LESS THAN (2026), PARTITION b VALUES LESS THAN"
         " MAXVALUE)", [None, DAY - datetime.timedelta(1), DAY], "date", "TTF"),
        ("LIST (id) (PARTITION b VALUES IN (7, -1), PARTITION a VALUES IN (3, NULL))",
         [None, 3, 7, -1], "int32", "TTFF"),
        ("LIST COLUMNS (c) (PARTITION a VALUES IN ('Ab', 'c', NULL), PARTITION b VALUES IN ('d'))",
         [None, "Ab", "aB", "C ", "D"], "text", "TTTTF"),
    ],
)  # fmt: skip
def test_rows(clause: str, values: list[object], kind: str, wanted: str) -> None:
    types = {
        "int32": pa.int32(), "big": pa.decimal128(20, 0), "date": pa.date32(), "text": pa.string(),
    }  # fmt: skip
    found = rows(clause, "a").of_rows([pa.array(values, types[kind])], len(values))
    assert "".join("FT"[int(one)] for one in found) == wanted


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        ("RANGE COLUMNS (id, d) (PARTITION b VALUES LESS THAN (1, '2026-01-01'), PARTITION a VALUES"
         " LESS THAN (1, MAXVALUE), PARTITION c VALUES LESS THAN (MAXVALUE, MAXVALUE))", "FFTTFF"),
        ("LIST COLUMNS (id, d) (PARTITION a VALUES IN ((1, '2026-01-01'), (NULL, '2026-01-01'),"
         " (9, '2026-01-01')), PARTITION b VALUES IN ((1, '2025-12-31'), (1, '2026-01-02'),"
         " (2, NULL)))", "TFTFTF"),
    ],
)  # fmt: skip
def test_rows_by_several_columns(clause: str, wanted: str) -> None:
    days = [DAY, *(DAY + datetime.timedelta(n) for n in (-1, 0, 1, 0)), None]
    arrays = [pa.array([None, 1, 1, 1, 9, 2], pa.int32()), pa.array(days, pa.date32())]
    found = rows(clause, "a").of_rows(arrays, len(days))
    assert "".join("FT"[int(one)] for one in found) == wanted


def test_a_row_of_no_partition_is_an_error() -> None:
    """What is known of the partitions is not what they are."""
    listed = "LIST (id) (PARTITION a VALUES IN (1), PARTITION b VALUES IN (2))"
    below = "RANGE (id) (PARTITION a VALUES LESS THAN (1), PARTITION b VALUES LESS THAN (9))"
    texts = "LIST COLUMNS (c) (PARTITION a VALUES IN ('e'), PARTITION b VALUES IN ('ü'))"
    for clause, value in ((listed, 3), (listed, None), (below, 9), (texts, "é"), (texts, "E")):
        with pytest.raises(StatementError, match="none of the partitions"):
            rows(clause, "a").of_rows([pa.array([value])], 1)


def test_dates_that_no_calendar_has() -> None:
    columns = rows(f"RANGE COLUMNS (m) {DAYS}", "a", "string")
    said = (
        "0000-00-00 00:00:00",
        "2025-12-31 23:59:59",
        "2026-01-00 00:00:00",
        "2026-01-01 00:00:00",
    )
    texts = pa.array([f"{text}.000" for text in said])
    assert columns.of_rows([texts], 4).tolist() == [True, True, True, False]
    clause = "(PARTITION a VALUES LESS THAN (9), PARTITION b VALUES LESS THAN (MAXVALUE))"
    of_function = rows(f"RANGE (TO_DAYS(m)) {clause}", "a", "string")
    with pytest.raises(StatementError, match="no calendar"):
        of_function.of_rows([texts], 4)
    nulls = without_zero_dates(altered(made(f"RANGE COLUMNS (d) {DAYS}"), "DROP PARTITION a")).gone
    assert nulls is not None
    with pytest.raises(StatementError, match="zero_dates"):
        nulls.of_rows([pa.array([None], pa.date32())], 1)
    assert nulls.of_rows([pa.array([DAY])], 1).tolist() == [False]
    assert nulls.of_range(pa.array([DAY, DAY]), nulls=True) is None


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("RANGE COLUMNS (c) (PARTITION a VALUES LESS THAN ('x'))", "VARCHAR"),
        ("RANGE (n) (PARTITION a VALUES LESS THAN (1))", "DECIMAL"),
        ("LIST COLUMNS (e) (PARTITION a VALUES IN ('a'))", "ENUM"),
        ("RANGE (TO_DAYS(ts)) (PARTITION a VALUES LESS THAN (1))", r"TO_DAYS\(ts\)"),
        ("RANGE COLUMNS (d) (PARTITION a VALUES LESS THAN ('2026-01-01 10:00:00'))", "more digits"),
        ("RANGE COLUMNS (m) (PARTITION a VALUES LESS THAN ('2026-01-01 10:00:00.1234'))", "digits"),
        ("RANGE COLUMNS (d) (PARTITION a VALUES LESS THAN (20260101))", "20260101"),
        ("RANGE (id) (PARTITION a VALUES LESS THAN ('7'))", "'7'"),
    ],
)
def test_columns_and_bounds_that_are_not_known(clause: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        rows(clause, "a")


@pytest.mark.parametrize(
    ("low", "high", "nulls", "wanted"),
    [(0, 9, False, True), (0, 9, True, True), (0, 10, False, None), (10, 19, False, False),
     (10, 19, True, None), (5, 25, False, None), (20, 99, False, False)],
)  # fmt: skip
def test_bounds_of_a_file(low: int, high: int, nulls: bool, wanted: bool | None) -> None:
    assert rows(LADDER, "a").of_range(pa.array([low, high]), nulls=nulls) is wanted
    listed = "LIST (id) (PARTITION a VALUES IN (0, 5, 9, NULL), PARTITION b VALUES IN (10, 19))"
    if high < 20:
        assert rows(listed, "a").of_range(pa.array([low, high]), nulls=nulls) is wanted
