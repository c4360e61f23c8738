"""The direct writer: where key indexes are built, marked rows, and JSON diffs that do not fit a
row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from spark_repl.binlog.json.diff import CANNOT_APPLY
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.write.files import key_lookup
from spark_repl.write.files.write_task import Violation, Written
from spark_repl.write.rows import direct_writer
from spark_repl.write.rows.direct_writer import DirectWriter, Places
from spark_repl.write.rows.partial_row_fill import MissingValues


@pytest.mark.parametrize("in_driver", [True, False])
def test_executors_with_own_disks_get_no_index(in_driver: bool) -> None:
    """They build theirs themselves; the driver builds what its own look-ups need."""
    tracking, workers = MagicMock(), MagicMock(**{"has_own_disks.return_value": True})
    DirectWriter(tracking, workers).prepare([MagicMock()], in_driver=in_driver)
    assert not workers.run.called
    assert tracking.key_index.return_value.build_missing.called == in_driver
    workers.has_own_disks.assert_called_once_with(wait=not in_driver)


@pytest.mark.parametrize(
    ("missing", "small", "here"),
    [(0, False, True), (1, False, True), (2, False, False), (2, True, True)],
)
def test_workers_build_several_missing_indexes_of_a_large_table(
    missing: int, small: bool, here: bool
) -> None:
    tracking, workers = MagicMock(), MagicMock(**{"has_own_disks.return_value": False})
    workers.is_small.return_value = small
    names = [f"f{number}" for number in range(missing)]
    tracking.key_index.return_value.missing.return_value = names
    adds = tracking.commits.live.return_value.adds
    adds.sizes.return_value = pa.table({"size": [5, 7]})
    DirectWriter(tracking, workers).prepare([MagicMock()], in_driver=False)
    (call,) = workers.run.call_args_list
    assert [task.data_file for task in call.args[1]] == names
    assert call.kwargs == {"here": here}
    workers.is_small.assert_called_once_with(file_bytes=12 if missing else 0)


def test_marked_rows_of_a_file_do_not_match() -> None:
    rows = np.array([0, 5, 9])
    far = 1_000_000  # too many rows for a mask
    for more in ((), (far,)):
        assert key_lookup._marked(BitMap([5, 7, *more]), rows).tolist() == [False, True, False]
    found = key_lookup._marked(BitMap([5, far]), np.array([far, 5, far + 1, 7])).tolist()
    assert found == [True, True, False, False]
    for wanted in (rows, rows + far, rows[:0]):
        assert not key_lookup._marked(BitMap(), wanted).any(), "a vector of others may be empty"


class Unfitting(MissingValues):
    """No row's diffs fit."""

    def patch(self, rows: pa.Table, definition: Any) -> tuple[pa.Table, list[int]]:
        return rows, [0, 1]


def test_a_diff_that_does_not_fit_is_a_violation_unless_its_row_is_missing() -> None:
    """Row 0 is whole by the group's own images; row 1 lacks the target's, which has none."""
    rows = pa.table({"id": [7, 8]})
    missing = Unfitting({0: np.array([False, True])}, np.array([-1, 1]))
    task: Any = SimpleNamespace(
        table="t.a", key=(0,), columns=Columns.of(schema_json(rows.schema)), definition=None
    )
    found: Any = SimpleNamespace(rows=rows, at=np.array([100, 200]))
    out, places = Written("t.a"), Places(np.full(2, -1), np.zeros(2, np.int64))
    assert direct_writer._complete(
        direct_writer.Fold(task, found, out), missing, places
    ).tolist() == [
        True,
        False,
    ]
    assert out.violations == [Violation(CANNOT_APPLY, 100, "t.a", "id=7")]
