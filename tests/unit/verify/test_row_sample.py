"""A sample's rows are the same ones whoever asks, and as many as were asked for."""

from __future__ import annotations

import zlib
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.files.digests import digests
from spark_repl.verify.row_sample import SampledRows, windows
from spark_repl.verify.target_files import FileSet, digest_files


@pytest.mark.parametrize(("low", "high"), [(1, 10**7), (-(2**63), 2**63 - 1), (0, 2**64 - 1)])
def test_windows_are_the_share_of_the_keys(low: int, high: int) -> None:
    found = windows("t.a", low, high, 5)
    keys = sum(end - begin + 1 for begin, end in found)
    assert 0.035 < keys / (high - low + 1) < 0.065
    assert found[0][0] >= low and found[-1][1] <= high
    assert all(one[1] + 1 < two[0] for one, two in pairwise(found))
    assert windows("t.b", low, high, 5) != found
    assert windows("t.a", low, high, 100) == ((low, high),)


def test_windows_of_a_sample_stay_while_the_table_grows() -> None:
    """More rows of the same span's power of two, and fewer, choose no other ones."""
    before, after = (windows("t.a", 1000, high, 3) for high in (900_000, 1_000_000))
    assert before == tuple(one for one in after if one[1] <= 900_000)
    assert len(windows("t.a", 1, 3, 0.001)) == 1, "one row rather than none"


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, -7, 0, 3, 5, 6, 9, 100], pa.int32()),
        pa.array([None, *map(Decimal, (0, 3, 5, 6, 9, 2**64 - 1))], pa.decimal128(20, 0)),
    ],
    ids=str,
)
def test_a_sample_of_windows_holds_their_rows(values: pa.Array) -> None:
    sample = SampledRows.from_json(SampledRows(0, ((-7, -7), (3, 5), (9, 2**63 - 1))).to_json())
    if pa.types.is_decimal(values.type):
        sample = SampledRows(0, ((3, 5), (9, 2**64 - 1)))
    within = [any(a <= v <= b for a, b in sample.windows) for v in values.to_pylist()[1:]]
    assert sample.holds(values).tolist() == [False, *within]


def test_rows_of_text_are_those_of_mysqls_crc32() -> None:
    texts = [None, "", "a", "ä", *(f"text {i}" for i in range(2000))]
    sample = SampledRows(0, (), (1 << 32) // 10)
    want = [t is not None and zlib.crc32(t.encode()) < sample.below for t in texts]
    assert sample.holds(pa.array(["x", *texts])[1:]).tolist() == want
    assert 120 < sum(want) < 280
    assert sample.holds(pa.array([12, None])).tolist() == [zlib.crc32(b"12") < sample.below, False]


def test_only_the_sample_of_a_file_is_digested(tmp_path: Path) -> None:
    """With the digests that a whole reading gives, and nothing of the others."""
    rows = pa.table({"id": pa.array(range(100)), "v": [f"v{i}" for i in range(100)]})
    pq.write_table(rows, tmp_path / "one", row_group_size=30)
    columns = Columns.of(schema_json(rows.schema))
    files = FileSet(str(tmp_path), 1, "", columns, {"one": {"path": "one"}})
    sample = SampledRows(0, ((5, 9), (77, 80)))
    digest_files(files.tasks(str(tmp_path), rows.schema, (0,), sample))
    ((_, made, alive),) = files.live(str(tmp_path), (0,))
    assert alive.tolist() == [5, 6, 7, 8, 9, 77, 78, 79, 80]
    whole = digests([column.chunk(0) for column in rows.columns], (0,))
    assert np.array_equal(made[:, alive], whole[:, alive])
