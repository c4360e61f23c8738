"""Definitions of the target's tables: their source, and their recorded form."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.tables.column import Column, ColumnType
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable

RECORDED = Path(__file__).parents[2] / "fixtures" / "definitions"
"""JSON of definitions, as version 0.1.0 recorded them"""


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.json").read_text().rstrip("\n")


@pytest.mark.parametrize("name", ["mirror", "projected", "source_of_projected"])
def test_a_recorded_definition_is_recorded_again_byte_for_byte(name: str) -> None:
    assert TargetTable.from_json(recorded(name)).to_json() == recorded(name)


def test_a_source_is_recorded_as_the_mirror_of_it() -> None:
    mirror = TargetTable.from_json(recorded("mirror"))
    assert mirror.is_mirror and mirror.source.to_json() == mirror.to_json() == recorded("mirror")
    assert TargetTable.mirror_of(mirror.source) == mirror


def test_the_source_of_a_projected_table_has_the_columns_and_the_key_of_the_log() -> None:
    projected = TargetTable.from_json(recorded("projected"))
    assert not projected.is_mirror and not projected.primary_key
    assert projected.source.to_json() == recorded("source_of_projected")
    assert projected.numbers == (0, 1, -1, 2, 3, 4)
    assert projected.hidden_columns == ("note", "mail") and projected.masks_key
    assert not projected.masks_order
    assert projected.lookup_key == projected.source_key == (0, 1)
    assert projected.current_column == 12 and not projected.is_shard


def test_columns_of_the_source_are_replaced_where_the_target_has_them() -> None:
    projected = TargetTable.from_json(recorded("projected"))
    columns = tuple(replace(column, nullable=True) for column in projected.source.columns)
    changed = projected.with_source_columns(columns)
    assert changed.source.columns == changed.source_columns == columns
    before, after = (table.columns[1] for table in (projected, changed))
    assert after.mask == before.mask and not after.nullable, "a mask has a column of its own"
    assert changed.columns[0].nullable and changed.withheld[0][1].nullable
    same = projected.with_source_columns(projected.source_columns)
    assert same.to_json() == projected.to_json()


def test_each_column_is_changed_once() -> None:
    seen = list[str]()

    def note(column: Column) -> Column:
        seen.append(column.name)
        return column

    projected = TargetTable.from_json(recorded("projected"))
    assert projected.with_each_column(note) == projected
    assert sorted(name for name in seen if not name.startswith("_")) == [
        "id", "kind", "mail", "mail", "note", "parent", "qty"
    ]  # fmt: skip


def test_a_source_and_a_target_are_never_equal() -> None:
    source = SourceTable("t", "a", (Column("id", ColumnType.LONG, 0, nullable=False),), (0,))
    target = TargetTable.mirror_of(source)
    assert target.source == source and target != source  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("name", ["mirror", "projected"])
def test_the_source_that_was_asked_for_makes_no_pickle_of_a_mirror_larger(name: str) -> None:
    table = TargetTable.from_json(recorded(name))
    table.arrow_schema()
    assert table.is_mirror == (name == "mirror")
    before = pickle.dumps(table)
    table.source.arrow_schema()
    assert (len(pickle.dumps(table)) == len(before)) == table.is_mirror
    assert pickle.loads(pickle.dumps(table)).source == table.source


@pytest.mark.parametrize("change", ["withheld", "row_filter", "mode", "kept", "logged"])
def test_a_table_with_a_projection_is_no_mirror(change: str) -> None:
    column = Column("id", ColumnType.LONG, 0, nullable=False)
    mirror = TargetTable("t", "a", (column,), (0,))
    changed = {
        "withheld": replace(mirror, withheld=((1, column),)),
        "row_filter": replace(mirror, row_filter="id > 1"),
        "mode": replace(mirror, mode="append", primary_key=(), logged_key=(0,)),
        "kept": replace(mirror, columns=(column, replace(column, name="b", kept=True))),
        "logged": replace(mirror, columns=(replace(column, nullable=True, logged=column),)),
    }[change]
    assert mirror.is_mirror and not changed.is_mirror
    dropped = replace(mirror, dropped=True, truncated=True, gone=("b",))
    assert dropped.is_mirror, "they are facts about the source"
