"""What ALTER TABLE makes of a definition, and what of it is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.alter.alteration import Altered, UnknownValue
from spark_repl.alter.rename import like, rename
from spark_repl.errors import SettingError, StatementError
from spark_repl.sql.classify import Effect, classify
from spark_repl.tables.column import ColumnType
from spark_repl.tables.source_table import SourceTable
from tests.support.altered_table import BASE, altered, table


def names(found: Altered[SourceTable]) -> list[str]:
    return [column.name for column in found.definition.columns]


ORDER = [
    ("ADD x INT", "id a b c x"),
    ("ADD COLUMN x INT FIRST", "x id a b c"),
    ("ADD x INT AFTER a, ADD y INT AFTER x", "id a x y b c"),
    ("ADD (x INT, y INT, KEY (x))", "id a b c x y"),
    ("DROP a, ADD a INT FIRST", "a id b c"),
    ("MODIFY c BIGINT FIRST", "c id a b"),
    ("CHANGE a z INT AFTER c", "id b c z"),
    ("MODIFY id INT AFTER c, MODIFY c INT FIRST", "c a b id"),
    ("CHANGE a b INT, CHANGE b a INT", "id b a c"),
    ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "id b a c"),
    ("MODIFY A CHAR(3)", "id A b c"),
    ("RENAME COLUMN c TO `x y`, ADD z INT AFTER `x y` REMOVE PARTITIONING", "id a b x y z"),
    ("/*!80000 DROP b */", "id a c"),
    ("ADD `😀` INT", "id a b c ?"),
]


@pytest.mark.parametrize(("actions", "want"), ORDER)
def test_alters_change_columns_and_their_order(actions: str, want: str) -> None:
    assert " ".join(names(altered(actions))) == want


@pytest.mark.parametrize(
    ("attributes", "nullable"),
    [
        ("CHECK (x >= 0) NOT NULL", False),
        ("CHECK (x >= 0) NULL", True),
        ("CHECK (x >= 0) ENFORCED NOT NULL", False),
        ("CHECK (x >= 0) NOT ENFORCED NOT NULL", False),
        ("CONSTRAINT CHECK (x >= 0) NOT NULL", False),
        ("CONSTRAINT q CHECK (x >= 0) NOT NULL COMMENT 'z'", False),
        ("NOT NULL CHECK (x >= 0) NOT ENFORCED", False),
        ("CHECK (x >= 0)", True),
    ],
)
def test_not_behind_a_check_is_of_its_null(attributes: str, nullable: bool) -> None:
    for found in (altered(f"ADD x INT {attributes}").definition, table(f"x INT {attributes}")):
        assert found.columns[-1].nullable is nullable


@pytest.mark.parametrize(
    ("default", "want"),
    [("(5)", "'5"), ("((5))", "'5"), ("('x')", "'x"), ("(NULL)", "NULL"), ("(-7)", None),
     ("(5 + 1)", None), ("(JSON_ARRAY())", None), ("-7", "'-7")],
)  # fmt: skip
def test_a_literal_in_parentheses_is_one_to_set_default(default: str, want: str | None) -> None:
    """As 9.7 has it in SHOW CREATE TABLE."""
    assert altered(f"ALTER a SET DEFAULT {default}").definition.columns[1].default == want


@pytest.mark.parametrize(
    ("kind", "want"),
    [("VARCHAR(5)", "NULL"), ("VARCHAR(5) NOT NULL", "'"), ("INT NOT NULL", "0"),
     ("ENUM('q', 'w')", "NULL"), ("ENUM('q', 'w') NOT NULL", "'q"), ("DATE NOT NULL", None),
     ("TIMESTAMP NULL", "NULL")],
)  # fmt: skip
def test_what_an_insert_means_without_a_default(kind: str, want: str | None) -> None:
    """Outside of strict mode, as 9.7.4 does: as of a column that never had one."""
    value = {"I": "1", "E": "'w'", "D": "'2020-01-01'", "T": "'2020-01-01'"}.get(kind[0], "'x'")
    before = table(f"id INT PRIMARY KEY, c {kind} DEFAULT {value}")
    assert altered("ALTER c DROP DEFAULT", before).definition.columns[1].default == want
    assert table(f"id INT PRIMARY KEY, c {kind}").columns[1].default == want


@pytest.mark.parametrize(
    ("actions", "want"),
    [("MODIFY COLUMN t.a INT FIRST", "a id b c"), ("CHANGE d.t.a z INT", "id z b c"),
     ("DROP COLUMN .a", "id b c"), ("ADD COLUMN t.x INT FIRST", "x id a b c"),
     ("ADD (t.x INT)", "id a b c x"), ("ALTER t.c SET DEFAULT 4", "id a b c")],
)  # fmt: skip
def test_a_columns_table_before_its_name(actions: str, want: str) -> None:
    """As servers before 8.0 accept it (by their grammar)."""
    found = altered(actions)
    assert " ".join(names(found)) == want
    assert ("SET DEFAULT" in actions) == (found.definition.columns[-1].default == "4")


def test_two_columns_that_spark_takes_for_one() -> None:
    with pytest.raises(SettingError, match="names of columns Ꭰ and ꭰ for one") as found:
        altered("ADD `ꭰ` INT", table("id INT PRIMARY KEY, `Ꭰ` INT"))
    assert found.value.table == "d.t"


KEYS = [
    ("a INT PRIMARY KEY, b INT NOT NULL UNIQUE", "DROP PRIMARY KEY", (1,)),
    ("a INT PRIMARY KEY, b INT NOT NULL", "DROP PRIMARY KEY", ()),
    ("a INT, b INT", "ADD PRIMARY KEY (b, a)", (1, 0)),
    ("a INT, b INT, PRIMARY KEY (a, b)", "DROP a", (0,)),
    ("a INT, b INT, PRIMARY KEY (a, b)", "ADD x INT FIRST, CHANGE a y INT", (1, 2)),
    ("a INT NOT NULL, b INT NOT NULL, UNIQUE (a), UNIQUE (b)", "DROP INDEX a", (1,)),
    ("a INT, b INT NOT NULL, UNIQUE (a), UNIQUE (b)", "MODIFY a INT NOT NULL", (1,)),
    ("a INT NOT NULL, b INT, UNIQUE u (a, b)", "DROP b", (0,)),
    ("a CHAR(9) NOT NULL, UNIQUE (a(5))", "MODIFY a CHAR(5) NOT NULL", (0,)),
    ("a INT NOT NULL, CONSTRAINT c UNIQUE (a)", "DROP CONSTRAINT c", ()),
    ("a INT NOT NULL UNIQUE", "MODIFY a INT", ()),
    ("a INT PRIMARY KEY", "MODIFY a BIGINT", (0,)),
]


@pytest.mark.parametrize(("elements", "actions", "want"), KEYS)
def test_alters_of_the_key_leave_the_servers_key(
    elements: str, actions: str, want: tuple[int, ...]
) -> None:
    after = altered(actions, table(elements)).definition
    assert after.primary_key == want
    assert not any(after.columns[i].nullable for i in want)


def test_references_of_a_column_count_as_the_server_takes_them() -> None:
    clause = "ADD x INT REFERENCES u (id), ADD FOREIGN KEY (c) REFERENCES v (id)"
    for inline, parents in ((True, ["d.u", "d.v"]), (False, ["d.v"])):
        found = altered(clause, table(), inline_keys=inline).definition
        assert sorted(key.parent for key in found.foreign_keys or ()) == parents


def test_a_default_is_set_after_another_action() -> None:
    made = altered("ADD x INT, ALTER c SET DEFAULT 7, ALTER a SET INVISIBLE").definition
    assert [(c.name, c.default) for c in made.columns if c.name == "c"] == [("c", "7")]
    assert [c.visible for c in made.columns] == [True, False, True, True, True]
    assert all(c.visible for c in altered("ALTER a SET VISIBLE", made).definition.columns)


def test_names_of_indexes_are_the_servers() -> None:
    before = table("a INT, b INT, KEY (a), UNIQUE (a), UNIQUE (b)")
    assert [i.name for i in before.unique or ()] == ["a_2", "b"]
    after = altered("ADD UNIQUE (a, b), ADD UNIQUE ((a + 1))", before).definition
    assert [i.name for i in after.unique or ()] == ["a_2", "b", "a_3", "functional_index"]
    renamed = altered("RENAME INDEX a_2 TO z", before).definition
    assert [i.name for i in renamed.unique or ()] == ["z", "b"]


def test_what_is_not_unique_has_a_name_too() -> None:
    before = altered("ADD KEY (a)", table("a INT, KEY (a)")).definition
    assert [i.name for i in before.indexes or ()] == ["a", "a_2"]
    after = altered("ADD UNIQUE (a)", before).definition
    assert [i.name for i in after.unique or ()] == ["a_3"]


def test_an_index_of_null_is_behind_one_of_a_part() -> None:
    found = table("a INT, v VARCHAR(9) NOT NULL, UNIQUE n (a), UNIQUE p (v(3))")
    assert [i.name for i in found.unique or ()] == ["p", "n"]


def test_convert_to_character_set_widens_text_types() -> None:
    after = altered("CONVERT TO CHARACTER SET utf8mb4").definition
    assert [(c.type, c.meta) for c in after.columns[1:3]] == [
        (ColumnType.VARCHAR, 40), (ColumnType.BLOB, 3),
    ]  # fmt: skip
    back = altered("CONVERT TO CHARACTER SET latin1", after).definition
    assert [c.meta for c in back.columns[1:3]] == [10, 3]
    new = altered("DEFAULT CHARSET latin1, ADD x CHAR(3)").definition
    assert (new.charset, new.columns[-1].meta) == ("latin1", 3)
    long = table("v VARCHAR(20000) CHARSET latin1, w VARCHAR(16000) CHARSET latin1")
    wide = altered("CONVERT TO CHARACTER SET utf8mb4", long).definition.columns
    assert [(c.type, c.meta) for c in wide] == [
        (ColumnType.BLOB, 3), (ColumnType.VARCHAR, 64_000),
    ]  # fmt: skip
    assert table("v VARCHAR(20000) CHARSET utf8mb4").columns[0].type == ColumnType.BLOB
    assert table(options="CHARSET=DEFAULT").charset == table().charset == "utf8mb4_0900_ai_ci"


@pytest.mark.parametrize(
    ("kind", "before", "after", "known"),
    [
        ("ENUM('a','b')", "latin1", "utf8mb4", True),
        ("SET('ä')", "utf8mb3", "utf8mb4", False),
        ("SET('ä')", "latin1", "latin1", False),
        ("ENUM('ä')", "latin1", "utf8mb4", False),
        ("SET('a')", "latin1", "ucs2", False),
        ("ENUM('a')", "utf16", "utf8mb4", False),
        ("ENUM('a')", "latin1", "binary", False),
        ("ENUM('ä') CHARACTER SET latin1", "utf8mb4", "utf8mb4", False),
        ("ENUM('a') CHARACTER SET latin1", "utf8mb4", "utf8mb4", True),
        ("ENUM('a') CHARACTER SET ucs2", "utf8mb4", "utf8mb4", False),
    ],
)
def test_members_whose_bytes_the_server_takes_for_other_letters(
    kind: str, before: str, after: str, known: bool
) -> None:
    made = table(f"id INT PRIMARY KEY, e {kind}", f"CHARSET {before}")
    if known:
        assert altered(f"CONVERT TO CHARACTER SET {after}", made).definition
        return
    with pytest.raises(StatementError, match="members of column e"):
        altered(f"CONVERT TO CHARACTER SET {after}", made)


def test_members_that_are_written_as_bytes() -> None:
    made = table("id INT PRIMARY KEY, e ENUM(0xE4, b'1100010', 'c') DEFAULT 0xE4", "CHARSET latin1")
    assert made.columns[1].literals == ("ä", "b", "c")
    (added,) = altered("ADD f SET(X'C3A42020') CHARACTER SET utf8mb4", made).definition.columns[2:]
    assert added.literals == ("ä",)
    (added,) = altered("ADD f ENUM(0xFFFF, 'a') CHARACTER SET utf8mb4", made).definition.columns[2:]
    assert added.literals == ("\ufffd\ufffd", "a")
    filled = altered("ADD f ENUM(0xFFFF) CHARACTER SET utf8mb4 NOT NULL", made)
    assert (
        isinstance(filled.origins[2], UnknownValue) and filled.definition.columns[2].default is None
    )


def test_engines_that_show_rows_of_others() -> None:
    """Rows come, though the table was empty."""
    assert altered("ENGINE=MERGE UNION=(a,b)").rows_come
    assert not altered("ENGINE=BLACKHOLE").rows_come


WRONG = [
    ("DROP x", 1091, "Can't DROP 'x'; check that column/key exists"),
    ("MODIFY x INT", 1054, "Unknown column 'x' in 't'"),
    ("RENAME COLUMN x TO y", 1054, "Unknown column 'x' in 't'"),
    ("ALTER x SET DEFAULT 1", 1054, "Unknown column 'x' in 't'"),
    ("ADD y INT AFTER x", 1054, "Unknown column 'x' in 't'"),
    ("ADD A INT", 1060, "Duplicate column name 'A'"),
    ("ADD KEY (x)", 1072, "Key column 'x' doesn't exist in table"),
    ("DROP a, DROP A", 1091, "Can't DROP 'A'; check that column/key exists"),
    ("MODIFY a INT, RENAME COLUMN a TO y", 1054, "Unknown column 'a' in 't'"),
]


@pytest.mark.parametrize(("actions", "number", "message"), WRONG)
def test_an_alter_that_does_not_fit_is_refused_with_mysqls_number(
    actions: str, number: int, message: str
) -> None:
    with pytest.raises(StatementError) as raised:
        altered(actions)
    assert (raised.value.number, raised.value.message) == (number, message)
    assert raised.value.table == "d.t"


UNCLEAR = [
    ("b TEXT", "MODIFY b MEDIUMTEXT, CONVERT TO CHARACTER SET utf8mb4", "the size of column b"),
    ("a INT, b INT, UNIQUE (a, b)", "DROP a, ADD a INT", "UNIQUE index over the new column a"),
    ("a ENUM('x'), UNIQUE (a)", "MODIFY a CHAR(3)", "UNIQUE index over column a"),
    ("a SET('x') NOT NULL, UNIQUE (a)", "MODIFY a TEXT", "UNIQUE index over column a"),
    ("a INT", "CHARSET DEFAULT", "the database's default character set"),
]


@pytest.mark.parametrize(("elements", "actions", "said"), UNCLEAR)
def test_what_is_not_known_of_a_table_is_not_assumed(
    elements: str, actions: str, said: str
) -> None:
    with pytest.raises(StatementError, match=f"{said}.* is not known"):
        altered(actions, table(elements), charsets={})


def test_what_an_index_that_is_not_unique_has_is_known() -> None:
    again = altered("DROP a, ADD a INT", table("a INT, b INT, KEY k (a, b)")).definition
    assert [(i.name, i.columns) for i in again.indexes or ()] == [("k", ("a", "b"))]
    assert altered("MODIFY a CHAR(3)", table("a ENUM('x'), KEY (a)")).definition


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ("CONVERT TO utf8mb4", "CONVERT TO is not understood from utf8mb4"),
        ("ADD (x INT FIRST, z INT)", "ADD is not understood from FIRST"),
        ("ALTER a SET NULL", "ALTER COLUMN is not understood from SET NULL"),
        ("ALTER INDEX a SHOWN", "ALTER is not understood from SHOWN"),
    ],
)
def test_an_alter_that_is_not_understood_has_a_reason(actions: str, said: str) -> None:
    statement = classify(f"ALTER TABLE t {actions}", "d")
    assert (statement.effect, statement.reason) == (Effect.UNSUPPORTED, said)
    made = classify("CREATE TABLE t (a INT FIRST)", "d")
    assert (made.definition, made.reason) == (None, "FIRST is not understood")


def of_a_map(key: tuple[int, ...] = (0,)) -> SourceTable:
    whole = table()
    return SourceTable("d", "t", whole.columns, key)


@pytest.mark.parametrize(
    ("actions", "before", "after", "primary"),
    [("DROP INDEX u", (0,), (0,), None), ("DROP PRIMARY KEY", (0,), (), None),
     ("MODIFY id BIGINT", (0,), (0,), None), ("DROP id", (0,), (), None),
     ("MODIFY a INT NOT NULL", (), (), None), ("ADD PRIMARY KEY (a)", (), (1,), True)],
)  # fmt: skip
def test_what_is_left_of_a_key_that_a_table_map_names(
    actions: str, before: tuple[int, ...], after: tuple[int, ...], primary: bool | None
) -> None:
    """Whether another UNIQUE index takes its place, the next TABLE_MAP says."""
    made = altered(actions, of_a_map(before)).definition
    assert (made.primary_key, made.has_primary, made.unique) == (after, primary, None)


def test_a_text_in_a_table_whose_character_set_is_not_known_is_text() -> None:
    assert altered("ADD x TEXT", of_a_map()).definition.columns[-1].collation not in (0, 63)


def test_a_definition_of_a_table_map_goes_as_far_as_it_can() -> None:
    found = altered("ADD x INT AFTER id, MODIFY id BIGINT NOT NULL", of_a_map()).definition
    assert (found.primary_key, found.has_primary, found.unique) == ((0,), None, None)
    keyed = altered("ADD PRIMARY KEY (c)", of_a_map(())).definition
    assert (keyed.primary_key, keyed.has_primary) == ((3,), True)


ROWS = ("DROP PARTITION p", "TRUNCATE PARTITION p", "EXCHANGE PARTITION p WITH TABLE u",
        "DISCARD TABLESPACE", "IMPORT TABLESPACE", "ENGINE=BLACKHOLE")  # fmt: skip


@pytest.mark.parametrize("actions", ROWS)
def test_what_becomes_of_the_rows_is_not_known(actions: str) -> None:
    assert altered(actions).rows_go
    assert not altered("ADD x INT").rows_go


@pytest.mark.parametrize("key", [(), (0,)])
def test_partitions_of_a_table_that_rows_have_made(key: tuple[int, ...]) -> None:
    before = of_a_map(key)
    for actions in ("ADD PARTITION (PARTITION p VALUES IN (1))", "REMOVE PARTITIONING",
                    "REORGANIZE PARTITION p INTO (PARTITION p VALUES LESS THAN (1))"):  # fmt: skip
        found = altered(actions, before)
        assert (found.definition, found.rows_go, found.definition.partitioning) == (
            before,
            "",
            None,
        )
    known = altered("PARTITION BY LIST (id) (PARTITION p VALUES IN (1))", before).definition
    assert known.partitioning and not altered("DROP PARTITION p", known).rows_go


def test_rename_and_like_keep_keys_and_numbered_columns() -> None:
    before = table(f"{BASE}, CONSTRAINT t_ibfk_1 FOREIGN KEY (c) REFERENCES t (id)")
    after = altered("RENAME AS e.u, ADD x INT", before).definition
    assert after.name == "e.u" and after == replace(rename(after, "e.u"))
    (key,) = after.foreign_keys or ()
    assert (key.name, key.parent) == ("u_ibfk_1", "e.u")
    copied = like(before, "d.v")
    assert (copied.name, copied.foreign_keys, copied.primary_key) == ("d.v", (), (0,))
    assert altered("MODIFY id INT AUTO_INCREMENT").numbered == ("id",)


def test_renames_are_in_order() -> None:
    found = classify("RENAME TABLE a TO x, b TO a, x TO e.b", "d")
    assert found.renames == (("d.a", "d.x"), ("d.b", "d.a"), ("d.x", "e.b"))
    alone = classify("ALTER TABLE a RENAME b, ENGINE=InnoDB", "d")
    assert (alone.effect, alone.renames) == (Effect.RENAME_TABLE, (("d.a", "d.b"),))
