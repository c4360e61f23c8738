"""PARTITION BY as it is read, and what ALTER TABLE makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.alter.rename import like, rename
from spark_repl.sql.classify import classify_in
from spark_repl.tables.partitioning import Partition, Partitioning
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable
from tests.support.partitioned import LADDER, SESSION, altered, made, parted


def names(definition: SourceTable) -> str:
    assert definition.partitioning is not None
    assert not definition.partitioning.unknown, definition.partitioning.unknown
    return " ".join(partition.name for partition in definition.partitioning.partitions)


def test_a_partition_clause_is_read_as_the_server_shows_it() -> None:
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
    assert TargetTable.from_json(found.to_json()).partitioning == found.partitioning
    for copy in (like(found, "d.u"), rename(found, "d.u")):
        assert copy.partitioning == found.partitioning


def test_an_earlier_definition_has_no_partitioning() -> None:
    text = made("RANGE (id) (PARTITION p VALUES LESS THAN (1))").to_json()
    old = text[: text.index(',"partitioning"')] + "}"
    assert TargetTable.from_json(old).partitioning is None


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
        ("RANGE (id) SUBPARTITION BY LINEAR KEY ALGORITHM=2 (id) (PARTITION p VALUES LESS THAN"
         " (+7))", ("id",), "", ((7,),)),
        ("LIST (DAY(d)) PARTITIONS 1 (PARTITION p VALUES IN (1, 2, NULL))",
         ("d",), "DAYOFMONTH", ((1,), (2,), (None,))),
        ("LIST COLUMNS (id, c) (PARTITION p VALUES IN ((1, 'a'), (-3, NULL)))",
         ("id", "c"), "", ((1, "a"), (-3, None))),
    ],
)  # fmt: skip
def test_partitions_and_their_values_are_read(
    clause: str, columns: object, function: str, values: object
) -> None:
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
        ("RANGE COLUMNS (id d) (PARTITION p VALUES LESS THAN (1))", "understood from d"),
        ("RANGE (TO_DAYS(d) + 1) (PARTITION p VALUES LESS THAN (1))", "expression TO_DAYS"),
        ("RANGE (TO_DAYS(d, 1)) (PARTITION p VALUES LESS THAN (1))", "understood from , ?"),
        ("RANGE (TO_DAYS(d)) (PARTITION p VALUES LESS THAN (TO_DAYS('2026-01-01', 1)))",
         "'2026-01-01' , is not"),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (1.5))", "value 1.5 is not"),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (-x))", "value x is not"),
        ("RANGE (id) (PARTITION p VALUES LESS THAN (x))", "value x is not"),
    ],
)  # fmt: skip
def test_a_clause_that_is_not_understood_is_unknown(clause: str, said: str) -> None:
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
def test_a_bound_is_computed_in_the_sessions_time_zone(zone: str, clock: str, said: str) -> None:
    by = f"RANGE (UNIX_TIMESTAMP(ts)) (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('{clock}')))"
    found = parted(by, replace(SESSION, time_zone=zone))
    assert said in found.unknown and bool(said) == bool(found.unknown)
    if not said:
        assert found.partitions[0].values == ((1782856800,),)


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
def test_alter_table_changes_partitions(actions: str, left: str) -> None:
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
def test_actions_that_make_partitions_unknown_are_named(actions: str, said: str) -> None:
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
def test_partitioning_may_follow_another_action(action: str) -> None:
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


def test_values_that_reorganize_lists_no_more_make_the_rows_unknown() -> None:
    """The server deletes such rows without a word (seen on 9.7.4)."""
    said = (
        "REORGANIZE PARTITION a, b INTO (PARTITION a VALUES IN (4, 1), PARTITION x VALUES IN ({}))"
    )
    for listed in ("3", "NULL, 3", "3, 2"):
        assert "no partition lists any more" in altered(made(LISTS), said.format(listed)).rows_go
    found = altered(made(LISTS), said.format("3, NULL, 2, 9"))
    assert (found.gone, found.rows_go, names(found.definition)) == (None, "", "a x c")
    again = altered(found.definition, said.format("3, NULL, 2, 9"))  # a copy was read after it
    assert (again.gone, again.rows_go) == (None, "")
    assert "does not fit" in altered(made(LISTS), said.replace("a, b", "z").format("3")).rows_go
    unknown = replace(made(LISTS), partitioning=None)
    assert "not known" in altered(unknown, said.format("3")).rows_go
    assert "1 + 1" in altered(made(LISTS), said.format("1 + 1")).rows_go
    texts = made("LIST COLUMNS (c) (PARTITION a VALUES IN ('e', 'f'), PARTITION b VALUES IN ('g'))")
    into = "REORGANIZE PARTITION a INTO (PARTITION a VALUES IN ('f', {}))"
    assert altered(texts, into.format("'E'")).rows_go  # whatever the collation says of e and E
    assert not altered(texts, into.format("'e'")).rows_go
