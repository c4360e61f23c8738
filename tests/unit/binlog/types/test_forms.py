"""Dates as text, TIME as microseconds, GEOMETRY as bytes: the same values in another form."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_repl import read_changes
from spark_repl.alter.column_defaults import default_value
from spark_repl.binlog.rows.decode_column import decode_column
from spark_repl.binlog.rows.row_images import RowImages
from spark_repl.binlog.rows.walk import walk
from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.date_text import civil
from spark_repl.binlog.types.forms import Forms
from spark_repl.binlog.types.temporal_values import days
from spark_repl.copy.text_rows import to_arrow
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.log.log_state import LogState
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.errors import DecodeError, SchemaError
from spark_repl.position import RelayPosition
from spark_repl.sql.classify import classify
from spark_repl.tables.column import Column, ColumnType, Form
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.tables.logged_shape import check_definition
from spark_repl.write.tables.table import DeltaState, Table
from tests.support.decoder_log import printed, read_log

FOLDER = Path(__file__).parents[3] / "fixtures" / "all_types"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
OTHER = Forms("string", "microseconds", "binary")
PLACE = RelayPosition(1, 4)


@pytest.fixture(scope="module")
def tables() -> dict[str, RowImages]:
    found = walk(*read_log(FOLDER / "binlog.000001", compressed=False), True, forms=OTHER)
    return {images.definition.name: images for images in found}


@pytest.mark.parametrize("name", ["types.zero_dates", "types.temporals", "types.nested"])
def test_values_are_the_servers(name: str, tables: dict[str, RowImages]) -> None:
    images = tables[name]
    batch = images.decode(np.flatnonzero(images.flags == 2))
    batch.validate(full=True)
    kinds = {field.type for field in batch.schema}
    assert not kinds & {pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")}
    assert sorted(printed(batch, images.definition), key=repr) == sorted(EXPECTED[name], key=repr)


def test_the_definition_keeps_its_forms(tables: dict[str, RowImages]) -> None:
    for images in tables.values():
        definition = images.definition
        assert TargetTable.from_json(definition.to_json()).source == definition
        assert OTHER.apply(definition) is definition
        usual = Forms().apply(definition)
        assert all(column.form == Form.USUAL for column in usual.columns)
        assert OTHER.apply(usual) == definition


def test_a_definition_stored_before_there_were_forms() -> None:
    made = classify("CREATE TABLE t (id int PRIMARY KEY, d date)", "d").definition
    assert made is not None
    old = json.loads(made.to_json())
    for column in old["columns"]:
        del column["form"]
    assert TargetTable.from_json(json.dumps(old)).source == made


def test_read_changes_takes_the_forms() -> None:
    batches = read_changes(
        str(FOLDER),
        tables={"types.zero_dates"},
        zero_dates="string",
        time_as="microseconds",
        geometry_as="binary",
    )
    (rows,) = [pa.Table.from_batches(list(batches)).column("after").to_pylist()]
    assert {row["d"] for row in rows} == {row[1] for row in EXPECTED["types.zero_dates"]}


def test_every_day_has_its_number() -> None:
    for number in range(-719162, 2932897, 97):
        year, month, day = (int(part) for part in civil(number))
        assert datetime.date(year, month, day).toordinal() - 719163 == number
        assert days(year, month, day) == number


def _column(kind: ColumnType, digits: int = 0) -> Column:
    column = Column("c", kind, digits, True)
    made = OTHER.apply(SourceTable("d", "t", (column,), ()))
    return made.columns[0]


def _values(*raw: bytes | None) -> Values:
    data = b"".join(value or b"" for value in raw)
    length = np.array([-1 if value is None else len(value) for value in raw], np.int32)
    offset = np.cumsum(np.maximum(length, 0)) - np.maximum(length, 0)
    return Values(np.frombuffer(data or b"\0", np.uint8), offset.astype(np.int64), length)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (ColumnType.DATE, (2024 << 9 | 13 << 5 | 1).to_bytes(3, "little")),
        (ColumnType.DATE, (10000 << 9 | 1 << 5 | 1).to_bytes(3, "little")),
        (ColumnType.DATETIME, (0x8000000000 + (24 << 12)).to_bytes(5, "big")),
        (ColumnType.DATETIME, (0x7FFFFFFFFF).to_bytes(5, "big")),
        (ColumnType.DATETIME_OLD, (99990101006000).to_bytes(8, "little")),
        (ColumnType.DATETIME_OLD, (2**64 - 5).to_bytes(8, "little")),
    ],
)
def test_what_no_server_writes_is_an_error(kind: ColumnType, raw: bytes) -> None:
    with pytest.raises(DecodeError, match="that is no date"):
        decode_column(_column(kind), _values(raw, None), Forms("string"))


def test_temporal_values_in_the_format_before_5_6_are_decoded() -> None:
    moments = _values((20240231235958).to_bytes(8, "little"), None, bytes(8))
    found, _ = decode_column(_column(ColumnType.DATETIME_OLD), moments, Forms("string"))
    assert found.to_pylist() == ["2024-02-31 23:59:58", None, "0000-00-00 00:00:00"]
    stamps = _values((1).to_bytes(4, "little"), bytes(4), None, b"\xff\xff\xff\xff")
    found, _ = decode_column(_column(ColumnType.TIMESTAMP_OLD), stamps, Forms("string"))
    assert found.to_pylist() == [
        "1970-01-01 00:00:01", "0000-00-00 00:00:00", None, "2106-02-07 06:28:15",
    ]  # fmt: skip
    times = _values((-8385959 & 0xFFFFFF).to_bytes(3, "little"), None)
    found, _ = decode_column(_column(ColumnType.TIME_OLD), times, Forms("string"))
    assert found.to_pylist() == [-(838 * 3600 + 59 * 60 + 59) * 10**6, None]


def test_the_first_copy_gives_the_same() -> None:
    times = _values(b"-838:59:59.000000", b"00:00:00.5", None, b"-00:00:01")
    found, _ = to_arrow(_column(ColumnType.TIME, 6), times, Forms("string"))
    assert found.to_pylist() == [-3020399 * 10**6, 500000, None, -(10**6)]
    dates = _values(b"0000-00-00", b"2024-02-31", None)
    assert to_arrow(_column(ColumnType.DATE), dates, Forms("string"))[0].to_pylist()[:2] == [
        "0000-00-00", "2024-02-31",
    ]  # fmt: skip
    shape = bytes(range(25))
    column = _column(ColumnType.GEOMETRY)
    assert to_arrow(column, _values(shape), Forms("string"))[0].to_pylist() == [shape]


@pytest.mark.parametrize(
    ("kind", "digits", "default", "value"),
    [
        (ColumnType.DATE, 0, "'0000-00-00", "0000-00-00"),
        (ColumnType.DATE, 0, "'2024-01-02", "2024-01-02"),
        (ColumnType.DATETIME, 3, "'2024-01-02", "2024-01-02 00:00:00.000"),
        (ColumnType.DATETIME, 0, "'0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        (ColumnType.TIMESTAMP, 2, "'0000-00-00 00:00:00", "0000-00-00 00:00:00.00"),
        (ColumnType.DATETIME, 1, "NULL", None),
        (ColumnType.TIMESTAMP, 0, "'2024-01-02 00:00:00", DecodeError),
        (ColumnType.TIMESTAMP, 0, "'2024-01-02 00:00:00+00:00", "2024-01-02 00:00:00"),
        (ColumnType.DATE, 0, "'2024-02-30", DecodeError),
    ],
)
def test_defaults_of_dates_are_read_in_the_columns_form(
    kind: ColumnType, digits: int, default: str, value: Any
) -> None:
    column = replace(_column(kind, digits), default=default)
    if value is DecodeError:
        with pytest.raises(DecodeError, match="is not understood"):
            default_value(column, "d.t", PLACE)
    else:
        assert default_value(column, "d.t", PLACE).to_pylist() == [value]


def test_a_table_keeps_the_forms_it_was_made_with() -> None:
    made = classify("CREATE TABLE t (id int PRIMARY KEY, t time)", "d").definition
    assert made is not None
    columns = Columns.of(schema_json(made.arrow_schema()))
    state = DeltaState(Snapshot("", 0, "", "", {}, LogState(0, {}, {})), 0)
    table = Table("d.t", "", "", TargetTable.mirror_of(made), True, state, columns)
    check_definition(table, made)
    with pytest.raises(SchemaError) as caught:
        check_definition(table, OTHER.apply(made))
    assert "target.zero_dates, time_as, json_as or geometry_as" in (caught.value.hint or "")
