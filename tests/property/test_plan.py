"""What the tasks of a group read: each transaction once, its own bytes, in the log's order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_repl.decode import spans
from spark_repl.decode.stage_task import StageTask
from spark_repl.errors import DecodeError
from spark_repl.position import OFFSET_BITS
from spark_repl.relay.record import RECORD, Kind
from spark_repl.relay.span import Span
from spark_repl.schedule.group import Group
from spark_repl.schedule.planner import assign_workers
from spark_repl.schedule.tasks import stage_tasks

# wave (grows by), length, bytes of no transaction before it, whether a new file begins
TRANSACTION = st.tuples(
    st.integers(0, 2), st.integers(1, 40), st.sampled_from([0, 0, 7]), st.integers(0, 9)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TRANSACTION, min_size=1, max_size=40), st.integers(1, 4), st.integers(10, 100))
def test_tasks_read_each_transaction_once(
    tmp_path: Path, log: list[tuple[int, int, int, int]], workers: int, slice_bytes: int
) -> None:
    records, content = np.zeros(len(log), RECORD), {1: b""}
    for i, (_, length, hole, new_file) in enumerate(log):
        if not new_file:
            content[len(content) + 1] = b""
        number = len(content)
        start = len(content[number]) + hole
        content[number] += bytes(hole) + bytes([i + 1]) * length
        records["position"][i] = number << OFFSET_BITS | start
        records["end"][i] = number << OFFSET_BITS | start + length
    records["length"] = [t[1] for t in log]
    records["kind"] = Kind.ROWS
    for number, data in content.items():
        (tmp_path / str(number)).write_bytes(data)
    relay = SimpleNamespace(file=lambda number: SimpleNamespace(path=str(tmp_path / str(number))))
    wave = np.cumsum([t[0] for t in log]).astype(np.int32)
    left_out = np.array([length % 2 == 0 for _, length, _, _ in log])
    group = assign_workers(Group.of(records, wave, len(records)), workers)
    tasks = stage_tasks(relay, 0, group, {"t": left_out}, StageTask(0, (), 1, None))

    seen: list[int] = []
    with patch.object(spans, "_SLICE_BYTES", slice_bytes):
        for task in tasks:
            mine: list[int] = []
            for span in task.spans:
                for first, last in spans.slices(span):
                    starts, ends = span.starts[first:last], span.ends[first:last]
                    data = spans.read_span(replace(span, starts=starts, ends=ends), starts)
                    assert len(data) <= slice_bytes or last == first + 1
                    found = np.unique(data)
                    assert [log[i - 1][1] for i in found] == (ends - starts).tolist()
                    assert len(data) == int((ends - starts).sum())
                    mine += found.tolist()
            assert mine == sorted(mine)
            skipped = task.skip.get("t", np.zeros(len(mine), bool))
            assert skipped.tolist() == [bool(left_out[i - 1]) for i in mine]
            seen += mine
    assert sorted(seen) == list(range(1, len(log) + 1))


def test_a_file_that_ends_early_is_named_with_the_position(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(bytes(25))
    starts, ends = np.array([0, 20], np.int64), np.array([10, 30], np.int64)
    with pytest.raises(DecodeError, match="shorter than when it was indexed") as caught:
        span = Span(str(path), 1, starts, ends, np.zeros(2, bool), checksum=False)
        spans.read_span(replace(span, starts=starts, ends=ends), starts + (1 << OFFSET_BITS))
    assert "1:20" in str(caught.value)
