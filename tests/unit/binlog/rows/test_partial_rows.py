"""Row images without all columns (MINIMAL, NOBLOB) and JSON diffs, in the decoder alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_repl.binlog.json.diff import apply_diffs, pending_diffs
from spark_repl.binlog.rows.partial_rows import PartialImages
from spark_repl.binlog.rows.walk import walk
from spark_repl.binlog.types.forms import Forms
from spark_repl.decode.stage_task import StageTask
from spark_repl.decode.stage_worker import stage
from spark_repl.errors import DecodeError
from spark_repl.position import RelayPosition
from spark_repl.relay.file_transactions import begin, extend
from spark_repl.relay.log import open_log
from spark_repl.relay.record import Kind
from spark_repl.relay.span import Span
from spark_repl.tables.column import ColumnType
from tests.support.decoder_log import printed, read_log

FOLDER = Path(__file__).parents[3] / "fixtures" / "row_images"
EXPECTED: dict[str, list[list[str | None]]] = json.loads((FOLDER / "expected.json").read_text())
_IDENTITY = {"images.wide": (0,), "images.pair": (2, 0), "images.uniq": (0,)}


@pytest.fixture(scope="module")
def tables() -> dict[str, PartialImages]:
    found = {i.definition.name: i for i in walk(*read_log(FOLDER / "binlog.000001"), True)}
    assert all(isinstance(images, PartialImages) for images in found.values())
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("name", sorted(_IDENTITY))
def test_column_by_column_the_rows_are_the_servers(
    name: str, tables: dict[str, PartialImages]
) -> None:
    """Scenarios 134, 136, 147, 158: a plain replay: what an image holds is laid over the row that
    the change met."""
    images = tables[name]
    entries = np.arange(len(images.flags))
    batch = images.decode(entries)
    rows = printed(batch, images.definition)
    held, diffs = images.presence(entries)
    defaults = {"images.wide": _WIDE, "images.pair": {}, "images.uniq": {2: "-3"}}[name]
    state: dict[Any, list[str | None]] = {}
    moving: list[str | None] = []
    for i, flags in enumerate(images.flags):
        key = tuple(rows[i][at] for at in _IDENTITY[name])
        present = held[i].as_py()
        if flags == 1:
            moving = state.pop(key)
            continue
        row = state.get(key, [defaults.get(c) for c in range(batch.num_columns)])
        row = list(moving if flags & 8 else row)
        for c in range(batch.num_columns):
            if present[c >> 3] >> (c & 7) & 1:
                row[c] = rows[i][c]
        for c, data in pending_diffs(diffs[i].as_py() or b""):
            row[c] = apply_diffs([row[c]], [data], "j", name)[0]
        state[key] = row
    want = sorted(EXPECTED[name], key=repr)
    assert sorted(state.values(), key=repr) == want


_WIDE = {1: "7", 2: "d'd", 5: "1.500", 6: "x", 9: "05", 10: "2020-01-02 03:04:00.00"}


def test_the_recorded_log_has_json_diffs(tables: dict[str, PartialImages]) -> None:
    # Scenarios 132, 141: the log has PARTIAL_UPDATE_ROWS events.
    _, diffs = tables["images.wide"].presence(np.arange(len(tables["images.wide"].flags)))
    assert diffs.null_count < len(diffs)
    definition = tables["images.wide"].definition
    for data in diffs.drop_null().to_pylist():
        assert all(definition.columns[c].type == ColumnType.JSON for c, _ in pending_diffs(data))


def test_a_variant_can_not_have_diffs() -> None:
    """A worker says in which transaction."""
    relay = open_log(str(FOLDER))
    (file,) = relay.files
    records = extend(begin(relay, file), relay).records
    records = records[records["kind"] == Kind.ROWS]
    span = Span.of(file.path, file.number, records)
    with pytest.raises(DecodeError, match="kept as VARIANT can't have JSON diffs") as caught:
        stage(StageTask(0, (span,), 1, None, forms=Forms(json_as="variant")))
    error = caught.value
    assert error.table == "images.wide" and "json_as" in (error.hint or "")
    assert error.position in {str(RelayPosition.unpack(int(end))) for end in records["end"]}


def test_pairs_give_both_images(tables: dict[str, PartialImages]) -> None:
    found = walk(*read_log(FOLDER / "binlog.000001"), True, pairs=True)
    for images in found:
        halves = np.flatnonzero(images.flags & 8)
        assert (images.flags[halves] == 10).all()
        assert (images.flags[halves - 1] == 1).all()


def diff(operation: int, path: str, value: bytes = b"") -> bytes:
    head = bytes((operation, len(path.encode()))) + path.encode()
    return head if operation == 2 else head + bytes((len(value),)) + value


INT7, TEXT = b"\x05\x07\x00", b"\x0c\x02\xc3\xa9"


@pytest.mark.parametrize(
    ("document", "data", "want"),
    [
        ('{"a": 1}', diff(0, "$.a", INT7), '{"a": 7}'),
        ('{"a": [1, {"b": 2}]}', diff(0, "$.a[1].b", TEXT), '{"a": [1, {"b": "é"}]}'),
        ("[1, 2]", diff(1, "$[0]", INT7), "[7, 1, 2]"),
        ("[1, 2]", diff(1, "$[1]", INT7), "[1, 7, 2]"),
        ("[1, 2]", diff(1, "$[9]", INT7), "[1, 2, 7]"),
        ("[]", diff(1, "$[0]", INT7), "[7]"),
        ("{}", diff(1, "$.a", INT7), '{"a": 7}'),
        ('{"a": 1, "cc": 2}', diff(1, "$.b", INT7), '{"a": 1, "b": 7, "cc": 2}'),
        ('{"b": 1, "cc": 2}', diff(1, '$."ddd"', INT7), '{"b": 1, "cc": 2, "ddd": 7}'),
        ('{"é": 1}', diff(1, "$.zzz", INT7), '{"é": 1, "zzz": 7}'),
        ('{"a": 1, "b": 2}', diff(2, "$.a"), '{"b": 2}'),
        ('{"a": 1, "b": 2}', diff(2, "$.b"), '{"a": 1}'),
        ('["x", [3]]', diff(2, "$[1][0]"), '["x", []]'),
        ('{"q\\"\\\\ [0].": {"": 1}}', diff(2, '$."q\\"\\\\ [0].".""'), '{"q\\"\\\\ [0].": {}}'),
        ("[1.10, 12345678901234567890]", diff(0, "$[0]", INT7), "[7, 12345678901234567890]"),
        ('{"a": 1}', diff(0, "$", INT7), "7"),
        ("[1]", diff(1, "$[0]", INT7) + diff(2, "$[1]") + diff(0, "$[0]", TEXT), '["é"]'),
        ("[" + "9" * 5000 + ", 1]", diff(2, "$[1]"), "[" + "9" * 5000 + "]"),
    ],
)
def test_json_diffs_are_applied_to_a_document(document: str, data: bytes, want: str) -> None:
    # Scenarios 132, 133: each operation, and several in order.
    assert apply_diffs([document], [data], "j", "t.t") == [want]


@pytest.mark.parametrize(
    ("document", "data", "number"),
    [
        ('{"a": 1}', diff(0, "$.b", INT7), 3648),
        ('{"a": 1}', diff(1, "$.a", INT7), 3648),
        ('{"a": 1}', diff(2, "$[0]"), 3648),
        ("5", diff(2, "$.a"), 3648),
        (None, diff(0, "$.a", INT7), 3648),
        ("[1]", diff(2, "$[1]"), 3648),
        ("[1]", diff(2, "$"), 3648),
        ("not json", diff(2, "$[1]"), 3648),
        ('{"a": ', diff(0, "$.a", INT7), 3648),
        ("[1]", diff(3, "$[0]"), 3649),
        ("[1]", diff(0, "[0]", INT7), 3649),
        ("[1]", diff(0, "$[x]", INT7), 3649),
        ("[1]", diff(0, '$."x', INT7), 3649),
        ("[1]", diff(0, "$[0]", INT7)[:-1], 3649),
        ("[1]", b"\0\xfb", 3649),
        ("[1]", diff(0, "$[0]"), 3649),
        ("[1]", diff(0, "$[0]", b"\x77"), 3649),
    ],
)
def test_diffs_that_do_not_fit(document: str | None, data: bytes, number: int) -> None:
    # Scenario 135: 3648 and 3649.
    with pytest.raises(DecodeError) as caught:
        apply_diffs(['{"a": 1}', document], [diff(0, "$.a", INT7), data], "j", "d.t")
    assert (caught.value.number, caught.value.row) == (number, 1)
    assert "table t, column j" in caught.value.message
