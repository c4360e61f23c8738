"""Row images that lack columns: bitmaps of columns, and JSON diffs that do not fit a document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_repl.write.rows.partial_row_fill import MissingValues, bits
from tests.support.json_binary import item


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 16, 17])
def test_bitmaps_give_the_columns_of_an_image(columns: int) -> None:
    want = np.random.default_rng(columns).random((3, columns)) < 0.5
    maps = [np.packbits(row, bitorder="little").tobytes() for row in want]
    held = pa.array([maps[0], None, maps[2]], pa.binary())
    want[1] = False
    assert bits(held, columns).tolist() == want.tolist()


def test_rows_whose_diffs_do_not_fit_are_returned() -> None:
    """Rows 0 and 2 have diffs; those of row 2 do not fit."""
    added, gone = b"\x01\x04$[1]\x09" + item(2), b"\x02\x03$.x"
    missing = MissingValues({}, np.zeros(3, np.int64), {1: {2: gone, 0: added}})
    rows = pa.table({"0": [1, 2, 3], "1": ["[1]", "[2]", "[3]"]})
    definition: Any = None
    patched, bad = missing.patch(rows, definition)
    assert bad == [2]
    assert patched.column("1").to_pylist() == ["[1, 2]", "[2]", None]


def test_each_json_column_gets_its_own_diffs() -> None:
    added = b"\x01\x04$[1]\x09" + item(2)
    missing = MissingValues({}, np.zeros(2, np.int64), {0: {1: added}, 1: {0: added}})
    rows = pa.table({"0": ["[1]", "[2]"], "1": ["[3]", "[4]"]})
    definition: Any = None
    patched, bad = missing.patch(rows, definition)
    assert not bad
    assert patched.to_pydict() == {"0": ["[1]", "[2, 2]"], "1": ["[3, 2]", "[4]"]}
