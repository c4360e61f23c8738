"""A transaction larger than memory may be is decoded window by window, compressed or not."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_repl import read_changes
from spark_repl.binlog.events.payload import View
from spark_repl.binlog.events.windows import whole_events, windows
from spark_repl.decode import spans
from spark_repl.decode.stage_task import StageTask
from spark_repl.decode.stage_worker import stage
from spark_repl.errors import DecodeError
from spark_repl.relay import file_transactions as index_of_compressed
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.schedule.group import Group
from spark_repl.schedule.tasks import stage_tasks
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.decoder_log import payloads

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = ("all_types", "row_images", "logs/compressed", "logs/tagged", "logs/no_checksum")
A = Table("a", (("id", "int"), ("v", "varchar(200)")))
B = Table("b", (("id", "int"), ("w", "varchar(200)")))


def changes(path: Path, **options: Any) -> list[dict[str, Any]]:
    found = [batch.to_pylist() for batch in read_changes(str(path), **options)]
    return [row for batch in found for row in batch]


def in_order(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The changes of each table by themselves: tables come by turns."""
    names = sorted({row["table"] for row in rows})
    return [[row for row in rows if row["table"] == name] for name in names]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 400, 5000])
def test_windows_make_no_difference(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Scenario 126: a payload of any size, in pieces.
    want = changes(FIXTURES / name, zero_dates="null")
    monkeypatch.setattr(spans, "_SLICE_BYTES", size)
    got = changes(FIXTURES / name, zero_dates="null")
    assert in_order(got) == in_order(want)
    assert want


@pytest.mark.parametrize("compressed", [False, True])
def test_the_applier_folds_over_windows(
    compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes of one key in several windows of one transaction."""
    log = LogWriter(tmp_path / "log")
    steps = [insert(A, (1, "a"), (2, "b")), insert(B, (1, "x"))]
    for i in range(40):
        steps.append(update(A, ((1, "a" if i == 0 else f"{i - 1}"), (1, f"{i}"))))
    steps += [delete(A, (2, "b")), insert(A, (2, "c")), delete(B, (1, "x"))]
    log.transaction(*steps, compressed=compressed)
    whole = staged(tmp_path, log)
    monkeypatch.setattr(spans, "_SLICE_BYTES", 300)
    parts = staged(tmp_path, log)
    assert len(parts["t.a"]) > 5
    for name in ("t.a", "t.b"):
        assert last(parts[name]) == last(whole[name])
    assert last(parts["t.a"]) == {1: [2, *[3] * 40], 2: [2, 1, 2]}


def staged(folder: Path, log: LogWriter) -> dict[str, list[pa.Table]]:
    relay = open_log(str(log.folder))
    records = build_index(relay, str(folder / "index")).records
    group = Group.of(records, np.zeros(len(records), np.int32), len(records))
    (task,) = stage_tasks(relay, 0, group, {}, StageTask(0, (), 1, None))
    assert isinstance(task, StageTask)
    found: dict[str, list[pa.Table]] = {}
    for part in stage(task).parts:
        found.setdefault(part.table, []).append(part.read())
    return found


def last(parts: list[pa.Table]) -> dict[int, list[int]]:
    """Flags of each key's changes over all parts, in order."""
    found: dict[int, list[int]] = {}
    for part in parts:
        for row in part.to_pylist():
            found.setdefault(int.from_bytes(row["key"][:4], "little"), []).extend(row["flags"])
    return found


@pytest.mark.parametrize("size", [1, 60, 333, 1 << 20])
def test_a_window_begins_with_the_maps_in_force(size: int) -> None:
    data = b"".join(payloads((FIXTURES / "logs/compressed/binlog.000001").read_bytes()))
    data += b"".join(payloads((FIXTURES / "all_types/binlog.000001").read_bytes()))
    seen, maps = b"", dict[int, bytes]()
    for window in windows(View(data), len(data), size):
        raw = window.tobytes()
        carried = b"".join(maps.values())
        assert raw.startswith(carried)
        seen += raw[len(carried) :]
        for a, b in events(raw):
            if raw[a + 4] == 19:
                maps[int.from_bytes(raw[a + 19 : a + 25], "little")] = raw[a:b]
    assert seen == data


def events(data: bytes) -> list[tuple[int, int]]:
    found, at = [], 0
    while at < len(data):
        end = at + int.from_bytes(data[at + 9 : at + 13], "little")
        found.append((at, end))
        at = end
    return found


def test_a_window_begins_with_the_tables_in_force() -> None:
    one = bytes(4) + b"\x13" + bytes(4) + (27).to_bytes(4, "little") + bytes(6)
    data = b"".join(one + (i % 40).to_bytes(6, "little") + bytes(2) for i in range(90))
    cut, tables, _ = whole_events(np.frombuffer(data + data[:26], np.uint8))
    assert cut == len(data)
    assert sorted(tables[:, 0].tolist()) == list(range(40))
    assert tables[tables[:, 0] == 5].tolist() == [[5, 85 * 27, 86 * 27]]


@pytest.mark.parametrize(("at", "byte"), [(9, 5), (10, 255), (12, 255), (30, 1)])
def test_damage_in_a_large_transaction_is_named(
    at: int, byte: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index skips the bytes after the event's header; the decoder finds the damage."""
    log = LogWriter(tmp_path / "log")
    log.transaction(*[insert(A, (i, "x" * 100)) for i in range(20)])
    relay = open_log(str(log.folder))
    records = build_index(relay, str(tmp_path / "index")).records
    data = bytearray(log.path.read_bytes())
    start = log.spans[0][1]
    a = [a for a, _ in events(bytes(data[start:])) if data[start + a + 4] == 30][7]
    data[start + a + at] ^= byte
    log.path.write_bytes(data)
    monkeypatch.setattr(spans, "_SLICE_BYTES", 500)
    group = Group.of(records, np.zeros(1, np.int32), 1)
    (task,) = stage_tasks(relay, 0, group, {}, StageTask(0, (), 1, None))
    with pytest.raises(DecodeError, match=r"CRC32 is wrong.* in its window \d") as caught:
        stage(task)
    assert caught.value.position == f"000001:{start}"


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_that_became_shorter_is_an_error(
    compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogWriter(tmp_path / "log")
    log.transaction(*[insert(A, (i, "x" * 100)) for i in range(20)], compressed=compressed)
    relay = open_log(str(log.folder))
    records = build_index(relay, str(tmp_path / "index")).records
    log.path.write_bytes(log.path.read_bytes()[:-9])
    monkeypatch.setattr(spans, "_SLICE_BYTES", 100)
    group = Group.of(records, np.zeros(1, np.int32), 1)
    (task,) = stage_tasks(relay, 0, group, {}, StageTask(0, (), 1, None))
    with pytest.raises(DecodeError, match="shorter than when it was indexed"):
        stage(task)


def test_a_reader_that_ends_early() -> None:
    with pytest.raises(DecodeError, match="bytes of a transaction are missing"):
        list(windows(View(bytes(50)), 80, 100))


@pytest.mark.parametrize("compressed", [False, True])
def test_memory_does_not_follow_the_transaction(
    compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = 1 << 20
    monkeypatch.setattr(spans, "_SLICE_BYTES", window)
    monkeypatch.setattr(index_of_compressed, "_SMALL_BYTES", 1000)
    row = insert(A, *[(i, "x" * 190) for i in range(40)])
    log = LogWriter(tmp_path / "small")
    log.transaction(*[row] * 5, compressed=compressed)
    list(read_changes(str(log.folder)))  # compiles
    log = LogWriter(tmp_path / "log")
    log.transaction(*[row] * 6000, compressed=compressed)
    tracemalloc.start()
    before, count = pa.total_allocated_bytes(), 0
    arrow = 0
    for batch in read_changes(str(log.folder)):
        count += batch.num_rows
        arrow = max(arrow, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 240_000
    assert peak + arrow < 16 * window


def test_compressed_and_plain_keep_their_order(tmp_path: Path) -> None:
    # Scenario 128: plain ones stand beside compressed ones.
    log = LogWriter(tmp_path / "log")
    for i in range(6):
        log.transaction(insert(A, (i, "x")), compressed=bool(i % 2))
    assert [row["after"]["id"] for row in changes(log.folder)] == list(range(6))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_statements_text_spans_several_windows(
    compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogWriter(tmp_path / "log")
    rows = [(i, "x" * 50) for i in range(30)]
    log.transaction(*[insert(A, *rows)] * 8, compressed=compressed, query="INSERT 漢", whole=False)
    log.transaction(insert(A, *rows), compressed=compressed)
    monkeypatch.setattr(spans, "_SLICE_BYTES", 400)
    found = changes(log.folder, rows_query=True)
    assert [row["rows_query"] for row in found] == ["INSERT 漢"] * 240 + [None] * 30
