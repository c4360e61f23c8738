"""GtidSet against Python sets of (uuid, tag, number), which are plainly right."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_repl.errors import LogError
from spark_repl.gtid import GtidSet, format_gtid, read_varint, write_varint

Gtid = tuple[bytes, str, int]
UUIDS = [bytes(16), bytes(15) + b"\x80", bytes(range(16)), b"\xff" * 15 + b"\0"]
gtids = st.tuples(
    st.sampled_from(UUIDS), st.sampled_from(["", "a", "tag", "_z9"]), st.integers(1, 24)
)
sets = st.sets(gtids, max_size=40)


def make(model: set[Gtid]) -> GtidSet:
    return GtidSet.parse(",".join(format_gtid(*gtid) for gtid in model))


def members(some: GtidSet) -> set[Gtid]:
    return {
        (uuid, tag, gno)
        for (uuid, tag), intervals in some.intervals.items()
        for start, end in intervals
        for gno in range(start, end)
    }


@given(sets, sets)
def test_gtid_sets_behave_as_sets_of_numbers(left: set[Gtid], right: set[Gtid]) -> None:
    a, b = make(left), make(right)
    assert members(a) == left
    assert members(a.union(b)) == left | right
    assert members(a.subtract(b)) == left - right
    assert members(a.intersect(b)) == left & right
    assert a.issubset(b) == (left <= right)
    assert (a == b) == (left == right)
    assert a.count() == len(left)


@given(sets)
def test_text_and_bytes_come_back(model: set[Gtid]) -> None:
    some = make(model)
    assert GtidSet.parse(str(some)) == some
    assert GtidSet.decode(some.encode()) == some
    assert GtidSet.decode(some.encode(tagged=True)) == some
    assert str(GtidSet.parse(str(some).upper())) == str(some)


@given(st.lists(gtids, max_size=60), sets)
def test_gtid_sets_are_made_of_arrays_and_look_up_arrays(
    listed: list[Gtid], model: set[Gtid]
) -> None:
    uuid = np.array([np.void(u) for u, _, _ in listed], "V16")
    tag = np.array([t.encode() for _, t, _ in listed], "S32")
    gno = np.array([n for _, _, n in listed], np.int64)
    assert members(GtidSet.from_arrays(uuid, gno, tag)) == set(listed)
    found = make(model).contains_arrays(uuid, gno, tag)
    assert found.tolist() == [gtid in model for gtid in listed]


@given(st.binary(max_size=80))
def test_decode_of_rubbish_says_so(data: bytes) -> None:
    with suppress(LogError):
        GtidSet.decode(data)


@given(st.integers(0, 2**64 - 1))
def test_a_varint_round_trips_at_any_size(value: int) -> None:
    data = write_varint(value)
    assert read_varint(data + b"rest", 0) == (value, len(data))
