"""Which foreign keys a group's cascades go by, and which are refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.binlog.types.forms import Forms
from spark_repl.decode.cascades.cascade_plan import CascadePlan, plan_cascades
from spark_repl.errors import DecodeError
from spark_repl.sql.classify import classify
from spark_repl.tables.column import Column
from spark_repl.tables.source_table import SourceTable

Tables = dict[str, SourceTable]


def tables(**elements: str) -> Tables:
    made: Tables = {}
    for name, columns in elements.items():
        found = classify(f"CREATE TABLE {name} ({columns}) CHARSET utf8mb4", "t").definition
        assert found is not None
        made[found.name] = found
    return made


def planned(
    made: Tables, *changed: str, zero_dates: str = "error", harmless: str = ""
) -> CascadePlan:
    keys = {name: table.foreign_keys for name, table in made.items()}
    return plan_cascades(changed, keys, made, frozenset(harmless.split()), zero_dates)


def refused(made: Tables, zero_dates: str = "error") -> str:
    with pytest.raises(DecodeError) as raised:
        planned(made, "t.p", zero_dates=zero_dates)
    assert raised.value.hint is None or "innodb_native_foreign_keys=OFF" in raised.value.hint
    return raised.value.message


def key(name: str, columns: str = "c", parent: str = "p (id)", actions: str = "CASCADE") -> str:
    return f"CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {parent} ON DELETE {actions}"


def test_keys_of_all_levels_in_the_order_of_innodb() -> None:
    """Those that reference the rows' own index first, then by name; a key without an action, and
    one of a table that nothing reaches, do not count."""
    made = tables(
        p="id INT PRIMARY KEY, k INT UNIQUE",
        a=f"id INT PRIMARY KEY, c INT, {key('f_a', parent='p (k)')}, {key('f_z')}, {key('f_b')}",
        b=f"id INT PRIMARY KEY, c INT, {key('g', parent='a (id)', actions='SET NULL')}",
        r=f"id INT PRIMARY KEY, c INT, {key('h', parent='a (id)', actions='RESTRICT')}",
        o=f"id INT PRIMARY KEY, c INT, {key('i', parent='b (c)')}",
        x=f"id INT PRIMARY KEY, c INT, {key('j', parent='r (id)')}",
    )
    found = planned(made, "t.p")
    assert [one.key.name for one in found.keys] == ["g", "i", "f_b", "f_z", "f_a"]
    assert found.children == ("t.a", "t.b", "t.o") and "t.x" not in found.definitions
    below = planned(made, "t.p", harmless="t.a").keys
    assert [one.key.name for one in below] == ["f_b", "f_z", "f_a"]
    assert planned(made, "t.p", harmless="t.p").keys == ()


REFUSED = [
    ("c INT", "c INT", key("f", parent="p (q)"), "its columns are not those of the tables"),
    ("c INT", "c BIGINT", key("f", parent="p (c)"), "the types of c differ"),
    ("c INT", "c INT UNSIGNED", key("f", parent="p (c)"), "the types of c differ"),
    ("c CHAR(9)", "c CHAR(9) CHARSET latin1", key("f", parent="p (c)"), "the types of c differ"),
    ("c BINARY(3)", "c BINARY(4)", key("f", parent="p (c)"), "the types of c differ"),
    ("c BINARY(3)", "c VARBINARY(3)", key("f", parent="p (c)"), "the types of c differ"),
    ("c DOUBLE", "c DOUBLE", key("f", parent="p (c)"), "c is a floating-point number"),
    ("c FLOAT", "c FLOAT", key("f", parent="p (c)"), "c is a floating-point number"),
    ("c INT", "c INT", key("f", parent="q (id)"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("child", "parent", "clause", "why"), REFUSED)
def test_what_can_not_be_followed_is_said(child: str, parent: str, clause: str, why: str) -> None:
    made = tables(p=f"id INT PRIMARY KEY, {parent}", a=f"id INT PRIMARY KEY, {child}, {clause}")
    if why:
        said = refused(made)
        assert why in said and "rows of t.a" in said and "the foreign key f" in said
    else:
        assert planned(made, "t.p").keys == ()


@pytest.mark.parametrize(
    "kind", ["VARCHAR(9)", "CHAR(9) CHARSET latin1", "BINARY(3)", "VARBINARY(9)", "DATE", "BIGINT"]
)
def test_types_that_are_alike(kind: str) -> None:
    made = tables(
        p=f"id INT PRIMARY KEY, k {kind}",
        a=f"id INT PRIMARY KEY, c {kind}, {key('f', parent='p (k)')}",
    )
    for name in made:
        columns = [
            replace(one, compares=255 * (one.collation not in (0, 63)))
            for one in made[name].columns
        ]
        made[name] = replace(made[name], columns=tuple(columns))
    assert len(planned(made, "t.p").keys) == 1


def test_zero_dates_that_are_null_are_not_told_apart() -> None:
    """But where the table has them as text."""
    made = tables(
        p="id INT PRIMARY KEY, k DATE",
        a=f"id INT PRIMARY KEY, c DATE, {key('f', parent='p (k)')}",
    )
    assert "its zero dates are NULL here" in refused(made, "null")
    texts = {name: Forms(zero_dates="string").apply(table) for name, table in made.items()}
    assert len(planned(texts, "t.p", zero_dates="null").keys) == 1
    mixed = {**made, "t.p": texts["t.p"]}
    assert "the types of c differ" in refused(mixed)


def test_what_is_not_known_of_the_tables() -> None:
    made = tables(
        p="id INT PRIMARY KEY, k VARCHAR(9)",
        a=f"id INT PRIMARY KEY, c VARCHAR(9), {key('f', parent='p (k)')}",
    )
    unknown = {n: replace(t, columns=_compared(t, 0)) for n, t in made.items()}
    assert "how the collation of column" in refused(unknown)
    assert len(planned({**unknown, "t.p": _as(made["t.p"], 255)}, "t.p").keys) == 1
    differ = {"t.p": _as(made["t.p"], 255), "t.a": _as(made["t.a"], 45)}
    assert "how the collation of column" in refused(differ)
    keys = {"t.a": made["t.a"].foreign_keys}
    with pytest.raises(DecodeError, match=r"the definition of t\.a is not known"):
        plan_cascades(["t.p"], keys, {"t.p": made["t.p"]}, frozenset(), "error")
    twice = {**made, "t.P": replace(made["t.p"], table="P")}
    assert "told apart by the case of their names alone" in refused(twice)


def _compared(table: SourceTable, collation: int) -> tuple[Column, ...]:
    return tuple(replace(one, compares=collation) for one in table.columns)


def _as(table: SourceTable, collation: int) -> SourceTable:
    return replace(table, columns=_compared(table, collation))


@pytest.mark.parametrize(
    ("generated", "actions", "wanted"),
    [
        ("(c + 1)", "CASCADE ON UPDATE CASCADE", True),
        ("(C + 1)", "SET NULL", True),
        ("(c + 1)", "CASCADE", False),
        ("(cc + 1)", "SET NULL", False),
    ],
)
def test_a_generated_column_that_changes_with_the_key(
    generated: str, actions: str, wanted: bool
) -> None:
    columns = f"id INT PRIMARY KEY, c INT, cc INT, g INT AS {generated} STORED"
    made = tables(p="id INT PRIMARY KEY", a=f"{columns}, {key('f', actions=actions)}")
    if wanted:
        assert "the generated column g changes with it" in refused(made)
    else:
        assert len(planned(made, "t.p").keys) == 1
