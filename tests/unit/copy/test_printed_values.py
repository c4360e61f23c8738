"""Parsed integers, dates and times: equal to Arrow's casts, or left to them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from spark_repl.binlog.types.column_values import Values
from spark_repl.copy.printed_values import printed_values

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_MICROSECONDS = (pa.timestamp("us"), pa.timestamp("us", "UTC"))


def values_of(texts: list[str | None]) -> Values:
    lengths = [-1 if text is None else len(text) for text in texts]
    offsets = np.cumsum([0, *(max(length, 0) for length in lengths)])[:-1]
    buffer = np.frombuffer("".join(text or "" for text in texts).encode() + b"9" * 40, np.uint8)
    return Values(buffer, offsets.astype(np.int64), np.array(lengths, np.int32))


@pytest.mark.parametrize("kind", _INTEGERS, ids=str)
def test_integers_are_those_of_arrow(kind: pa.DataType) -> None:
    bits = kind.bit_width
    texts: list[str | None] = [str(-(2 ** (bits - 1))), str(2 ** (bits - 1) - 1), "0", None, "007"]
    rng = random.Random(bits)
    for width in range(1, bits):
        texts += [str(rng.randrange(-(2**width), 2**width)) for _ in range(20)]
    found = printed_values(values_of(texts), kind)
    assert found is not None
    assert found.equals(pa.array([None if text is None else int(text) for text in texts], kind))


@pytest.mark.parametrize("kind", _INTEGERS, ids=str)
def test_other_texts_are_no_integers(kind: pa.DataType) -> None:
    most = 2 ** (kind.bit_width - 1)
    for text in ("", "-", "1.5", "1e3", " 1", "+1", "x", str(most), str(-most - 1), "9" * 19,
                 "-" + "9" * 19, "1" * 20, "0" * 19 + "1"):  # fmt: skip
        assert printed_values(values_of(["1", text]), kind) is None, text


def test_dates_are_those_of_arrow() -> None:
    rng = random.Random(1)
    texts: list[str | None] = ["0001-01-01", "9999-12-31", "2000-02-29", None, "1969-12-31"]
    for _ in range(2000):
        texts.append(f"{rng.randrange(1, 10000):04}-{rng.randrange(1, 13):02}-01")
        texts.append(f"{rng.randrange(1, 10000):04}-{rng.randrange(1, 13):02}-28")
    found = printed_values(values_of(texts), pa.date32())
    assert found is not None
    assert found.equals(pa.array(texts).cast(pa.date32()))


@pytest.mark.parametrize("kind", _MICROSECONDS, ids=str)
@pytest.mark.parametrize("digits", range(7))
def test_moments_are_those_of_arrow(digits: int, kind: pa.DataType) -> None:
    rng = random.Random(digits)
    fractions = [rng.randrange(10**digits) for _ in range(1000)]
    texts: list[str | None] = [None]
    for fraction in (0, 10**digits - 1, *fractions):
        day = f"{rng.randrange(1, 10000):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        clock = ":".join(f"{rng.randrange(most):02}" for most in (24, 60, 60))
        texts.append(f"{day} {clock}" + (f".{fraction:0{digits}}" if digits else ""))
    found = printed_values(values_of(texts), kind)
    assert found is not None
    naive = pa.array(texts).cast(pa.timestamp("us"))
    assert found.type == kind
    assert found.cast(pa.int64()).equals(naive.cast(pa.int64()))


def test_zero_dates_and_other_texts_are_left_to_arrow() -> None:
    for text in ("", "0000-00-00", "2024-00-01", "2024-01-00", "2023-02-29", "2024-13-01",
                 "0000-01-01", "2024/01/01", "2024-01-1x", "20240101", "2024-01-01 00:00:00",
                 "x024-01-01", "2x24-01-01"):  # fmt: skip
        assert printed_values(values_of(["2024-01-01", text]), pa.date32()) is None, text
    day = "2024-01-01 "
    for text in ("0000-00-00 00:00:00", "2024-00-01 00:00:00", "2024-01-01", day + "24:00:00",
                 day + "00:60:00", day + "00:00:60", day + "00:00:00.", day + "00:00:00.1234567",
                 day + "00:00:00.12x", day + "00:00:00x12", day + "-1:00:00", day + "00-00-00",
                 "2024-01-01T00:00:00"):  # fmt: skip
        assert printed_values(values_of([day + "00:00:00", text]), _MICROSECONDS[0]) is None, text
