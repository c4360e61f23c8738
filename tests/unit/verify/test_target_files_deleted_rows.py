"""verify looks at what the source has: no extra columns, and no rows that are deleted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.files.digests import digests
from spark_repl.verify.row_sample import SampledRows
from spark_repl.verify.target_files import FileSet, digest_files

PLAIN = pa.table({"id": pa.array(range(40)), "v": [f"v{i}" for i in range(40)]})
DEAD = [number % 4 == 3 for number in range(40)]


def files(folder: Path, count: int, deleted: int) -> FileSet:
    whole = PLAIN.append_column("_gtid", pa.array(["x:1"] * 40))
    whole = whole.append_column("_deleted", pa.array(DEAD))
    pq.write_table(whole, folder / "one", row_group_size=7)
    columns = Columns.of(schema_json(whole.schema))
    made = FileSet(str(folder), 1, "", columns, {"one": {"path": "one"}})
    return made.of_source(count, deleted)


@pytest.mark.parametrize("sample", [None, SampledRows(0, ((2, 9), (30, 33)))])
def test_live_rows_of_files_have_the_sources_digests(
    tmp_path: Path, sample: SampledRows | None
) -> None:
    there = files(tmp_path, 2, 3)
    digest_files(there.tasks(str(tmp_path), PLAIN.schema, (0,), sample))
    ((path, made, alive),) = there.live(str(tmp_path), (0,))
    chosen = [i for i in range(40) if sample is None or 2 <= i <= 9 or 30 <= i <= 33]
    assert alive.tolist() == [number for number in chosen if not DEAD[number]]
    want = digests([column.combine_chunks() for column in PLAIN.columns], (0,))
    assert np.array_equal(made[:, alive], want[:, alive])
    assert there.values(path, alive, PLAIN.schema).column_names == ["id", "v"]


def test_digests_of_other_columns_are_others(tmp_path: Path) -> None:
    outs = {files(tmp_path, *which).out("w", "one", (0,)) for which in ((2, -1), (3, -1), (2, 3))}
    assert len(outs) == 3
