"""DECIMAL's bytes to 128-bit integers, against Python's own numbers, where limbs carry."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_repl.binlog.rows.decode_column import decode_column
from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.forms import USUAL
from spark_repl.errors import DecodeError
from spark_repl.tables.column import Column, ColumnType

_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # of so many digits


def wire(value: int, digits: int) -> bytes:
    """DECIMAL(digits, 0) as MySQL stores it: nine digits in four bytes, the first ones in as many
    as they need; the highest bit set, all bits turned for a negative number."""
    text, head = str(abs(value)).rjust(digits, "0"), digits % 9
    parts = ([text[:head]] if head else []) + [text[i : i + 9] for i in range(head, digits, 9)]
    out = bytearray(b"".join(int(p).to_bytes(_BYTES[len(p)], "big") for p in parts))
    out[0] ^= 0x80
    return bytes(byte ^ 0xFF for byte in out) if value < 0 else bytes(out)


def decoded(numbers: list[int], digits: int) -> list[Decimal]:
    data = b"".join(wire(number, digits) for number in numbers)
    size = len(data) // len(numbers)
    values = Values(
        np.frombuffer(data, np.uint8),
        np.arange(len(numbers), dtype=np.int64) * size,
        np.full(len(numbers), size, np.int32),
    )
    column = Column("d", ColumnType.DECIMAL, digits << 8, True)
    found: list[Decimal] = decode_column(column, values, USUAL)[0].to_pylist()
    return found


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("power", [32, 64, 96])
def test_a_half_that_is_zero_carries(sign, power):
    """The two's complement of a number whose low half is zero carries into the high half."""
    numbers = [sign * (times << power) for times in (1, 2, 3, 255)]
    numbers += [number + step for number in numbers for step in (-1, 1)]
    assert decoded(numbers, 38) == [Decimal(number) for number in numbers]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=20))
def test_any_decimal_of_38_digits_is_decoded(numbers):
    assert decoded(numbers, 38) == [Decimal(number) for number in numbers]


def test_a_group_of_too_large_a_number_is_damage():
    data = bytearray(wire(1, 9))
    data[0:4] = (10**9 | 0x80000000).to_bytes(4, "big")
    values = Values(
        np.frombuffer(bytes(data), np.uint8), np.zeros(1, np.int64), np.array([4], np.int32)
    )
    with pytest.raises(DecodeError):
        decode_column(Column("d", ColumnType.DECIMAL, 9 << 8, True), values, USUAL)
