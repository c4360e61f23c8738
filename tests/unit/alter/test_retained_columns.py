"""Policies by patterns, which types hold which, and rows of a table of which the target keeps
more."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from spark_repl.alter.apply_alter import alter
from spark_repl.alter.retained_columns import retain_columns
from spark_repl.convert.conversion import convert
from spark_repl.convert.lossless import UTC, widens
from spark_repl.convert.type_change import TypeChange
from spark_repl.decode.target_rows import target_gaps, target_rows
from spark_repl.errors import SettingError
from spark_repl.rules.tool_names import Role, may_have_rows_of, tool_table
from spark_repl.sql.classify import classify
from spark_repl.sql.policy import Policies, Policy
from spark_repl.sql.session import Session
from spark_repl.tables.column import Column
from spark_repl.tables.target_table import TargetTable


def definition(columns: str) -> TargetTable:
    found = classify(f"CREATE TABLE t.a ({columns}) CHARSET utf8mb4", "t").definition
    assert found is not None
    return TargetTable.mirror_of(found)


def column(kind: str) -> Column:
    return definition(f"c {kind}").columns[0]


def altered(before: TargetTable, actions: str, *, keeps: bool = True) -> TargetTable:
    """The target's table behind ALTER TABLE."""
    statement = classify(f"ALTER TABLE t.a {actions}", "t")
    made = alter(before.source, statement, Session("t"))
    return retain_columns(before, made, keeps=keeps).definition


def names(table: TargetTable) -> str:
    """Columns in their order; kept ones in brackets, wider ones with a star."""
    return " ".join(
        f"[{c.name}]" if c.kept else f"{c.name}*" if c.logged else c.name for c in table.columns
    )


@pytest.mark.parametrize(
    ("name", "folds", "policy"),
    [
        ("shop.a", True, Policy.STOP),
        ("shop.b", True, Policy.ADDITIVE_ONLY),
        ("SHOP.A", True, Policy.STOP),
        ("SHOP.A", False, Policy.APPLY),
        ("x.tmp1", False, Policy.IGNORE_DROP),
        ("x.tmp12", False, Policy.APPLY),
        ("x.[b]", False, Policy.STOP),
        ("x.b", False, Policy.APPLY),
        ("a.b: c", False, Policy.STOP),
    ],
)
def test_the_first_pattern_counts(name: str, folds: bool, policy: Policy) -> None:
    listed = ["shop.a: stop", "shop.*:additive_only", "*.tmp?: ignore_drop", "x.[b]: stop",
              "a.b: c: stop"]  # fmt: skip
    assert Policies.of(listed, folds=folds).of_table(name) is policy


@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [
        ("TINYINT", "SMALLINT", -128), ("INT UNSIGNED", "BIGINT", 2**32 - 1),
        ("INT", "DECIMAL(12,2)", -(2**31)), ("INT", "DOUBLE", 2**31 - 1),
        ("DECIMAL(10,2)", "DECIMAL(14,4)", "12345678.25"), ("FLOAT", "DOUBLE", 0.1),
        ("VARCHAR(20)", "VARCHAR(60)", "größer"), ("VARCHAR(20)", "TEXT", "x"),
        ("VARCHAR(9) CHARACTER SET latin1", "VARCHAR(9)", "é"), ("DATE", "DATETIME", "2024-02-29"),
        ("DATETIME", "DATETIME(6)", None), ("ENUM('a','b')", "ENUM('b','a','c')", "b"),
        ("INT NOT NULL", "INT", 5), ("MEDIUMBLOB", "LONGBLOB", b"x"),
    ],
)  # fmt: skip
def test_one_type_holds_the_others_values(narrow: str, wide: str, value: object) -> None:
    small, large = column(narrow), column(wide)
    assert widens(small, large)
    exact = replace(small, nullable=True), replace(large, nullable=True)
    assert small == replace(large, nullable=False) or not widens(large, small)
    texts = pa.array([None if value is None else str(value)])
    values = pa.array([value], small.arrow_type) if isinstance(value, int | float | bytes) else (
        texts.cast(small.arrow_type))  # fmt: skip
    made = convert(values, TypeChange(*exact, UTC, plain=True))
    assert made.cast(small.arrow_type).equals(values)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("INT", "INT UNSIGNED"), ("INT", "VARCHAR(20)"), ("DATE", "TIME"), ("BIGINT", "DOUBLE"),
        ("DECIMAL(10,2)", "DECIMAL(10,4)"), ("DATETIME", "TIMESTAMP"), ("TIME", "TIME(3)"),
        ("ENUM('a','b')", "ENUM('a','c')"), ("FLOAT(7,2)", "FLOAT(5,3)"), ("INT", "FLOAT"),
        ("DECIMAL(10,2)", "DECIMAL(12,2) UNSIGNED"), ("VARBINARY(9)", "VARCHAR(9)"),
    ],
)  # fmt: skip
def test_neither_holds_the_others_values(one: str, other: str) -> None:
    assert not widens(column(one), column(other)) and not widens(column(other), column(one))


def test_retained_columns_stay_in_their_places() -> None:
    before = definition("id INT PRIMARY KEY, a BIGINT, b INT NOT NULL, c INT")
    first = altered(before, "DROP a, MODIFY c SMALLINT FIRST, ADD d INT AFTER id")
    assert names(first) == "c* id [a] d b"
    assert first.columns[first.primary_key[0]].name == "id" and first.columns[2].nullable
    assert [c.name for c in first.source.columns] == ["c", "id", "d", "b"]
    assert first.source.primary_key == (1,)
    second = altered(first, "DROP b, ADD a INT, MODIFY c INT")
    assert names(second) == "c id d [b] a*"
    assert names(altered(second, "ADD b INT NOT NULL DEFAULT 1, DROP d")) == "c id [d] a* b*"
    assert names(altered(second, "DROP d, MODIFY a BIGINT", keeps=False)) == "c id [b] a"
    assert TargetTable.from_json(second.to_json()) == second
    assert TargetTable.from_json(second.to_json()).source == second.source
    assert names(second.with_source_key((2,))) == names(second)
    assert second.with_source_key((2, 3)).primary_key == (2, 4)


def test_retained_columns_are_null_in_logged_rows() -> None:
    before = definition("id INT PRIMARY KEY, a BIGINT, b JSON, c DATETIME, d VARCHAR(9)")
    target = altered(before, "DROP a, MODIFY c DATE")
    assert names(target) == "id [a] b c* d"
    logged = target.source
    rows = pa.RecordBatch.from_arrays(
        [pa.array([7], pa.int32()), pa.array(["{}"]), pa.array([19782], pa.date32()),
         pa.array(["x"])], schema=logged.arrow_schema(),
    )  # fmt: skip
    made = target_rows(rows, logged, target)
    assert [str(c[0].as_py()) for c in made.columns] == [
        "7", "None", "{}", "2024-02-29 00:00:00", "x"
    ]  # fmt: skip
    assert made.schema.types == target.arrow_schema().types
    assert target_rows(rows, before.source, target) is rows, "of another definition"
    diff = (1).to_bytes(2, "little") + (3).to_bytes(4, "little") + b"abc"
    held, diffs = target_gaps(pa.array([b"\x09", None]), pa.array([diff, None]), target)
    assert held.to_pylist() == [bytes([0b10011]), None]
    assert diffs.to_pylist() == [(2).to_bytes(2, "little") + diff[2:], None]
    columns = [replace(c, mask="null" * (c.name == "b")) for c in target.columns]
    hidden = replace(target, columns=tuple(columns))
    held, diffs = target_gaps(pa.array([b"\x09", None]), pa.array([diff, None]), hidden)
    assert held.to_pylist() == [bytes([0b10111]), None], "a masked document is NULL in any case"
    assert diffs.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("name", "of", "role"),
    [
        ("d._t_gho", "d.t", Role.COPY), ("d._t_ghc", "d.t", Role.OTHER),
        ("d._t_del", "d.t", Role.OTHER), ("d._t_20240101123456_del", "d.t", Role.OTHER),
        ("d._t_20240101123456_gho", "d.t_20240101123456", Role.COPY),
        ("d._t_20240101123456_ghc", "d.t_20240101123456", Role.OTHER),
        ("d.__t_new", "d.t", Role.COPY), ("d._t_old", "d.t", Role.OTHER),
        ("d._a_new_new", "d.a_new", Role.COPY),
    ],
)  # fmt: skip
def test_names_of_online_tools(name: str, of: str, role: Role) -> None:
    found = tool_table(name)
    assert found is not None and (found.of, found.role) == (of, role)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("d._t_gho", ("d.t",)), ("d.__t_gho", ("d._t",)), ("d._t_ghc", ()), ("d._t_del", ("d.t",)),
        ("d._t_20240101123456_del", ("d.t", "d.t_20240101123456")), ("d._t_new", ("d.t",)),
        ("d._t_20240101123456_gho", ("d.t_20240101123456",)), ("d.t_new", ()),
        ("d.___t_old", ("d.t", "d._t", "d.__t")),
    ],
)  # fmt: skip
def test_tables_whose_rows_a_tool_s_may_have(name: str, of: tuple[str, ...]) -> None:
    assert may_have_rows_of(name) == of


@pytest.mark.parametrize("name", ["d.t", "d.t_gho", "d._new", "d.t_new", "_d_gho.t"])
def test_names_that_no_tool_gives_are_no_tools_tables(name: str) -> None:
    assert tool_table(name) is None


def test_an_expression_is_not_computed_where_the_target_keeps_more() -> None:
    """It is of the source's columns, by their places and types."""
    before = definition("id INT PRIMARY KEY, a INT, b INT")
    assert names(altered(before, "ADD c INT AS (b + 1)")) == "id a b c"
    kept = altered(before, "DROP a")
    with pytest.raises(SettingError, match="an expression is not computed"):
        altered(kept, "ADD c INT AS (b + 1)")


def test_a_type_that_becomes_wider_is_the_sources() -> None:
    before = definition("id INT PRIMARY KEY, v VARCHAR(20), d INT")
    after = altered(before, "MODIFY v VARCHAR(60), MODIFY d BIGINT")
    assert [c.type_name for c in after.columns] == ["LONG", "VARCHAR", "LONGLONG"]
    assert names(after) == "id v d" and after.columns[1].meta == 240
    narrow = altered(after, "MODIFY v VARCHAR(30), MODIFY d BIGINT NOT NULL")
    assert names(narrow) == "id v* d*" and narrow.columns[1].meta == 240
    assert narrow.columns[2].nullable
