"""The decoder against every type of a live MySQL 9.7 (recorded by fixtures/make_all_types.py)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_repl.binlog.rows import row_images
from spark_repl.binlog.rows.row_images import RowImages
from spark_repl.binlog.rows.walk import walk
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import DecodeError
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable
from tests.support.decoder_log import payloads, printed, read_log

FOLDER = Path(__file__).parents[3] / "fixtures" / "all_types"
EXPECTED: dict[str, list[list[str | None]]] = json.loads((FOLDER / "expected.json").read_text())


@pytest.fixture(scope="module")
def tables() -> dict[str, RowImages]:
    found = walk(*read_log(FOLDER / "binlog.000001", compressed=False), True)
    return {images.definition.name: images for images in found}


def survivors(images: RowImages) -> Any:
    """Entries of the rows that exist at the end; for a table without key its images cancel out."""
    alive: dict[bytes, list[int]] = {}
    for entry, (key, flags) in enumerate(zip(images.key().to_pylist(), images.flags, strict=True)):
        if flags & 1:
            alive[key].pop()
        if flags & 2:
            alive.setdefault(key, []).append(entry)
    return np.array(sorted(entry for entries in alive.values() for entry in entries), np.int64)


def number_text(rows: list[list[str | None]], definition: SourceTable) -> list[list[Any]]:
    """Floats as numbers: the server prints fewer digits than there are."""
    kinds = [column.type for column in definition.columns]
    return [
        [float(v) if v is not None and k in (4, 5) else v for v, k in zip(row, kinds, strict=True)]
        for row in rows
    ]


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - {"types.zero_dates", "types.compressed"}))
def test_values_are_the_servers(name: str, tables: dict[str, RowImages]) -> None:
    # Scenarios 144, 146, 147, 148, 151, 152, 153, 154: the server's own values.
    images = tables[name]
    batch = images.decode(survivors(images))
    batch.validate(full=True)
    assert batch.schema == images.definition.arrow_schema()
    got = number_text(printed(batch, images.definition), images.definition)
    want = number_text(EXPECTED[name], images.definition)
    assert sorted(got, key=repr) == sorted(want, key=repr)


def test_zero_dates_stop_or_become_null_and_are_counted(tables: dict[str, RowImages]) -> None:
    images = tables["types.zero_dates"]
    with pytest.raises(DecodeError, match="column d: 4 zero or partial dates, the first 0000-"):
        images.decode(np.arange(5))
    batch = images.decode(np.arange(5), Forms("null"))
    assert [batch.column(i).null_count for i in (1, 2, 3)] == [4, 4, 1]
    assert images.zero_dates == 9
    assert str(batch.column(1)[4]) == "2024-01-01"


def test_zero_dates_in_a_key_stay_an_error(tables: dict[str, RowImages]) -> None:
    images = tables["types.zero_dates"]
    keyed = dataclasses.replace(images.definition, primary_key=(0, 1))
    with pytest.raises(DecodeError, match="column d"):
        dataclasses.replace(images, definition=keyed).decode(np.arange(5), Forms("null"))


@pytest.mark.parametrize("cells", [1, 20, 45])
def test_columns_are_located_in_strips(
    cells: int, tables: dict[str, RowImages], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("types.temporals", "types.texts", "types.wide"):
        entries = np.arange(len(tables[name].flags))
        whole = tables[name].decode(entries)
        with monkeypatch.context() as patch:
            patch.setattr(row_images, "_CELLS_MAX", cells)
            assert tables[name].decode(entries).equals(whole)


def test_recorded_definitions_round_trip_through_json(tables: dict[str, RowImages]) -> None:
    # Scenarios 143, 148, 150: key, visibility; a hidden index's column is not in the log.
    for images in tables.values():
        definition = images.definition
        assert TargetTable.from_json(definition.to_json()).source == definition
    assert tables["types.compound"].definition.primary_key == (3, 0, 2)
    assert tables["types.prefixed"].definition.primary_key == (1, 2)
    assert not tables["types.generated"].definition.columns[4].visible
    assert len(tables["types.generated"].definition.columns) == 5


def test_images_have_their_flags_in_the_order_of_the_log(tables: dict[str, RowImages]) -> None:
    compound = tables["types.compound"]
    assert compound.flags.tolist() == [2, 2, 2, 3, 3, 3, 1, 10, 1, 10, 1]
    assert compound.changes == 9
    key = compound.key().to_pylist()
    assert key[0] == b"\x01x" + (1).to_bytes(4, "little") + b"\x01k"
    assert tables["types.bag"].flags.tolist() == [2, 2, 2, 2, 1, 2, 1, 2]
    assert tables["types.bag"].changes == 7
    assert len(set(tables["types.generated"].transaction[-2:])) == 1


def test_decode_of_some_entries_in_any_order(tables: dict[str, RowImages]) -> None:
    images = tables["types.integers"]
    whole = images.decode(np.arange(4)).to_pylist()
    assert images.decode(np.array([3, 0])).to_pylist() == [whole[3], whole[0]]
    assert images.decode(np.array([], np.int64)).num_rows == 0


def test_a_compressed_transactions_rows_are_decoded() -> None:
    # Scenario 123: the rows in a payload are the server's.
    (events,) = payloads((FOLDER / "binlog.000001").read_bytes())
    span = np.array([0]), np.array([len(events)]), np.array([0])
    (images,) = walk(np.frombuffer(events, np.uint8), *span, False)
    batch = images.decode(np.arange(2))
    assert printed(batch, images.definition) == EXPECTED["types.compressed"]


def test_compressed_transaction_must_be_unpacked_first() -> None:
    with pytest.raises(DecodeError, match="was not decompressed"):
        walk(*read_log(FOLDER / "binlog.000001"), True)
