"""A data file's statistics: bounds that hold, in the words that Delta reads."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_repl.delta.files.statistics import loosened, statistics


def of(array: pa.Array) -> dict[str, object]:
    found = json.loads(statistics(pa.table({"c": array})), parse_float=Decimal)
    return {
        name: found[kind]["c"]
        for name, kind in (("min", "minValues"), ("max", "maxValues"), ("nulls", "nullCount"))
        if "c" in found[kind]
    }


def test_each_type_has_bounds_or_only_nulls():
    moments = pa.array([-1, 1_700_000_000_123_456, None])
    cases = [
        (pa.array([3, None, -7]), -7, 3, 1),
        (pa.array([0.5, -2.25], pa.float32()), Decimal("-2.25"), Decimal("0.5"), 0),
        (pa.array([Decimal("12345678901234567.890"), Decimal("-1.000")], pa.decimal128(30, 3)),
         Decimal("-1.000"), Decimal("12345678901234567.890"), 0),
        (pa.array([datetime.date(2024, 2, 29), datetime.date(1, 1, 1)]),
         "0001-01-01", "2024-02-29", 0),
        (moments.cast(pa.timestamp("us")),
         "1969-12-31T23:59:59.999999", "2023-11-14T22:13:20.123456", 1),
        (moments.cast(pa.timestamp("us", "UTC")),
         "1969-12-31T23:59:59.999999Z", "2023-11-14T22:13:20.123456Z", 1),
        (pa.array(["b", "a"]), "a", "b", 0),
    ]  # fmt: skip
    for array, low, high, nulls in cases:
        assert of(array) == {"min": low, "max": high, "nulls": nulls}, array.type
    for array in (pa.array([True]), pa.array([b"x"]), pa.array([[1.0]]), pa.nulls(1, pa.int32())):
        assert set(of(array)) == {"nulls"}, array.type
    before_year_1 = pa.array([-719163, 0]).cast(pa.int32()).cast(pa.date32())
    assert set(of(before_year_1)) == {"nulls"}


def test_zeros_of_both_signs_are_within_the_bounds():
    for kind in (pa.float32(), pa.float64()):
        stats = statistics(pa.table({"c": pa.array([0.0, -0.0], kind)}))
        assert '"minValues":{"c":-0.0},"maxValues":{"c":0.0}' in stats


def test_what_is_no_number_has_no_bounds():
    for value in (float("nan"), float("inf"), -float("inf")):
        assert set(of(pa.array([1.0, value]))) == {"nulls"}


def test_every_character_is_written_as_itself():
    """Also in names of columns: delta-kernel decodes escaped surrogate pairs wrongly."""
    assert '{"\U00020bb7":"\U00020bb7\u91ce"}' in statistics(
        pa.table({"\U00020bb7": ["\U00020bb7\u91ce"]})
    )


def test_structs_and_the_first_32_columns_have_statistics():
    point = pa.StructArray.from_arrays([pa.array([4326, 0]), pa.array([b"a", None])], ["srid", "w"])
    assert of(point) == {"min": {"srid": 0}, "max": {"srid": 4326}, "nulls": {"srid": 0, "w": 1}}
    wide = pa.table({f"c{i}": [i] for i in range(40)})
    found = json.loads(statistics(wide))
    assert list(found["minValues"]) == list(found["nullCount"]) == [f"c{i}" for i in range(32)]


@given(st.lists(st.text(st.sampled_from("a\x7fé\U0001f600\U0010ffff"), max_size=40), min_size=1))
def test_shortened_texts_bound_all_values(texts):
    found = of(pa.array(texts))
    low, high = str(found["min"]).encode(), str(found["max"]).encode()
    assert all(low <= text.encode() <= high for text in texts)


def test_loosened_statistics_keep_their_digits():
    def loose(text: str) -> str:
        return loosened("", {"path": "x", "stats": text})

    stats = statistics(pa.table({"c": pa.array([Decimal("1.10")], pa.decimal128(20, 2))}))
    assert loose(stats) == stats.replace("true", "false")
    assert loose(loose(stats)) == loose(stats)
    assert loose('{"numRecords":3}') == '{"numRecords":3,"tightBounds":false}'


def test_bytes_that_are_no_text_have_no_bounds() -> None:
    """Copies of version 0.1.0 wrote them: a file that is compacted has them still."""
    for raw in ([b"a", b"\xed\xa0\x80"], [b"\x80", b"\xff"]):
        texts = pa.array(raw).view(pa.string())
        assert set(of(texts)) == {"nulls"}
