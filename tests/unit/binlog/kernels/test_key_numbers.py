"""Numbers of distinct keys: as PyArrow's dictionary numbers them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_repl.binlog.kernels import key_numbers
from spark_repl.binlog.kernels.key_numbers import number_values

_VALUES = st.lists(st.binary(max_size=3) | st.binary(min_size=7, max_size=40))
_KINDS = [pa.binary(), pa.large_binary()]


def assert_numbered(column: pa.Array) -> None:
    numbers, count = number_values(column)
    encoded = pc.dictionary_encode(column)
    assert numbers.dtype == np.int32
    assert numbers.tolist() == encoded.indices.to_pylist()
    assert count == len(encoded.dictionary)


@pytest.mark.parametrize("kind", _KINDS)
@given(values=_VALUES, skip=st.integers(0, 2))
def test_numbers_are_those_of_a_dictionary(
    kind: pa.DataType, values: list[bytes], skip: int
) -> None:
    """Of a slice too, whose offsets do not begin at 0."""
    assert_numbered(pa.array(values, kind).slice(skip))
    assert_numbered(pa.array([*values, *values[::-1]], kind))


@pytest.mark.parametrize("kind", _KINDS)
def test_a_column_without_bytes(kind: pa.DataType) -> None:
    assert_numbered(pa.array([], kind))
    assert_numbered(pa.array([b"", b""], kind))
    assert_numbered(pa.array([b"x", b"y"], kind).slice(2))


def test_many_values_and_few() -> None:
    dice = np.random.default_rng(1)
    for distinct in (3, 1_000, 90_000):
        keys = dice.integers(0, distinct, 100_000).astype("<u4")
        assert_numbered(pa.array([key.tobytes() for key in keys], pa.binary()))


@pytest.mark.parametrize("stride", [1, 2, 1 << 10, 1 << 20])
def test_runs_of_numbers_do_not_get_into_each_others_way(
    stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far apart they are, and whatever lies between two numbers of a run. Found: the
    numbers of a run stepped through the slots of another one, each by each."""
    monkeypatch.delattr(pc, "dictionary_encode")
    runs = [np.arange(5_000) * stride + begin for begin in range(0, 1 << 34, (1 << 34) // 20)]
    keys = np.concatenate(runs).astype("<u8")
    values = pa.array([key.tobytes() for key in keys], pa.binary())
    numbers, count = number_values(values)
    assert count == len(np.unique(keys))
    assert len(np.unique(numbers)) == count


def test_values_whose_hashes_collide_are_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded work, whoever chooses the keys."""
    dice = np.random.default_rng(1)
    values = pa.array([dice.bytes(8) for _ in range(5_000)], pa.binary())
    monkeypatch.setattr(key_numbers, "_STEPS", 0)
    monkeypatch.setattr(key_numbers, "_FREE_STEPS", 0)
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int32).astype(np.int64)
    assert key_numbers._number(np.frombuffer(data, np.uint8), at, 14, 0)[1] == -1
    assert_numbered(values)


def test_null_is_refused() -> None:
    with pytest.raises(AssertionError):
        number_values(pa.array([b"a", None], pa.binary()))
