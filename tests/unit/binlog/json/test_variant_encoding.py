"""Binary JSON as Variant: read back by pyspark's own reader, which shares no code with ours."""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Iterator
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from pyspark.sql.variant_utils import VariantUtils

from spark_repl.binlog.json import variant_encoding
from spark_repl.binlog.json.variant_encoding import to_variant
from spark_repl.binlog.json.variant_text import text_to_variant
from spark_repl.binlog.types.column_values import Values
from spark_repl.errors import DecodeError
from tests.support.json_binary import RECORDED, damaged, item, laid_out, outcomes, varlen


@pytest.fixture(autouse=True)
def all_digits() -> Iterator[None]:
    """pyspark's reader computes decimals with the digits of the context."""
    with localcontext() as context:
        context.prec = 60
        yield


def encoded(*documents: bytes | None, around: bytes = b"") -> list[tuple[bytes, bytes] | None]:
    """(value, metadata) of each."""
    array = to_variant(*laid_out(documents, around))
    array.validate(full=True)
    return [row and (row["value"], row["metadata"]) for row in array.to_pylist()]


def text(document: bytes) -> Any:
    """What the JSON text says that Spark's reader makes of the Variant; numbers as decimals."""
    (found,) = encoded(document)
    assert found is not None
    return parsed(VariantUtils.to_json(*found, "UTC"))


def parsed(document: str) -> Any:
    return json.loads(document, parse_float=Decimal, parse_int=Decimal)


def value(document: bytes) -> Any:
    (found,) = encoded(document)
    assert found is not None
    return VariantUtils.to_python(*found)


def opaque(code: int, data: bytes) -> bytes:
    return b"\x0f" + bytes([code]) + varlen(len(data)) + data


def moment(y: int, mo: int, d: int, h: int = 0, mi: int = 0, s: int = 0, us: int = 0) -> bytes:
    packed = ((((y * 13 + mo) << 5 | d) << 17 | (h << 12 | mi << 6 | s)) << 24) | us
    return struct.pack("<q", packed)


def test_recorded_documents_are_what_the_server_printed() -> None:
    found = encoded(*(None if binary is None else bytes.fromhex(binary) for binary, _ in RECORDED))
    assert len(found) > 150
    for got, (binary, printed) in zip(found, RECORDED, strict=True):
        if got is None:
            assert printed is None
            continue
        assert same(parsed(printed), parsed(VariantUtils.to_json(*got, "UTC"))), binary


def same(want: Any, have: Any) -> bool:
    """As values; dates are printed without zeros behind them, long decimals are text."""
    if isinstance(want, dict):
        return want.keys() == have.keys() and all(same(want[k], have[k]) for k in want)
    if isinstance(want, list):
        return len(want) == len(have) and all(map(same, want, have))
    if isinstance(want, str) and isinstance(have, str):
        return have in (want, want.removesuffix(".000000"))
    digits = format(want, "f") if isinstance(want, Decimal) else ""
    return want == have or (len(digits) > 38 and digits == have)


def test_no_documents_an_empty_one_and_null() -> None:
    assert encoded() == []
    null = (b"\x00", b"\x11\x00\x00")
    assert encoded(b"", None, b"\x04\x00", None) == [null, None, null, None]


@pytest.mark.parametrize(
    ("number", "size"),
    [(0, 1), (127, 1), (-128, 1), (128, 2), (-129, 2), (32767, 2), (-32768, 2), (32768, 4),
     (2**31 - 1, 4), (-(2**31), 4), (2**31, 8), (-(2**31) - 1, 8), (2**63 - 1, 8), (-(2**63), 8)],
)  # fmt: skip
def test_integers_take_as_few_bytes_as_they_need(number: int, size: int) -> None:
    (found,) = encoded(item(number))
    assert found is not None and len(found[0]) == 1 + size
    assert VariantUtils.to_python(*found) == number


def test_an_integer_is_the_same_however_the_server_keeps_it() -> None:
    forms = (b"\x05\x05\0", b"\x06\x05\0", b"\x07\x05\0\0\0", b"\x0a\x05" + bytes(7), item(5))
    assert len(set(encoded(*forms))) == 1


def test_numbers_that_no_int64_holds() -> None:
    assert value(b"\x0a" + b"\xff" * 8) == Decimal(2**64 - 1)
    assert value(b"\x0b" + struct.pack("<d", -0.1)) == -0.1
    (found,) = encoded(b"\x0b" + struct.pack("<d", 1.0))
    assert found == (b"\x1c" + struct.pack("<d", 1.0), b"\x11\x00\x00")


def packed_decimal(digits: str) -> bytes:
    """Digits with a point, sign in front, as an opaque value."""
    whole, _, part = digits.lstrip("-").partition(".")
    sizes = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    first, last = len(whole) % 9, len(part) % 9
    groups = [whole[:first]] + [whole[i : i + 9] for i in range(first, len(whole), 9)]
    groups += [part[i : i + 9] for i in range(0, len(part) - last, 9)] + [part[len(part) - last :]]
    data = bytearray(b"".join(int(g or 0).to_bytes(sizes[len(g)], "big") for g in groups))
    data[0] |= 0x80
    if digits.startswith("-"):
        data = bytearray(byte ^ 0xFF for byte in data)
    return opaque(246, bytes([len(whole) + len(part), len(part)]) + data)


@pytest.mark.parametrize(
    ("digits", "basic"),
    [("1.50", 8), ("-1.50", 8), ("999999999", 8), ("-999999999", 8), ("1000000000", 9),
     ("0.0000000001", 9), ("-123456789.123456789", 9), ("999999999999999999", 9),
     ("-1000000000000000000", 10), ("0.00", 8), ("0012.3", 8),
     ("9" * 38, 10), ("-" + "9" * 20 + "." + "9" * 18, 10), ("0." + "0" * 29 + "1", 10)],
)  # fmt: skip
def test_decimals_keep_digits_and_scale_as_variants(digits: str, basic: int) -> None:
    (found,) = encoded(packed_decimal(digits))
    assert found is not None and found[0][0] >> 2 == basic
    assert found[0][1] == len(digits.partition(".")[2]), "the scale is kept"
    assert VariantUtils.to_python(*found) == Decimal(digits)


def test_a_decimal_of_more_digits_is_text() -> None:
    for digits in ("9" * 39, "-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 38 + "1"):
        assert value(packed_decimal(digits)) == digits


def test_dates_and_times_become_variants_and_times_text() -> None:
    assert value(opaque(10, moment(2015, 1, 15))) == datetime.date(2015, 1, 15)
    assert value(opaque(10, moment(1, 1, 1))) == datetime.date(1, 1, 1)
    whole = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
    for code in (12, 7):
        assert value(opaque(code, moment(9999, 12, 31, 23, 59, 59, 999999))) == whole
    early = datetime.datetime(1969, 12, 31, 23, 59, 59, 1)
    assert value(opaque(12, moment(1969, 12, 31, 23, 59, 59, 1))) == early
    packed = (838 << 12 | 59 << 6 | 59) << 24
    assert value(opaque(11, struct.pack("<q", -packed))) == "-838:59:59.000000"


@pytest.mark.parametrize("date", [(0, 0, 0), (2024, 0, 1), (2024, 2, 0), (2023, 2, 29)])
def test_dates_that_no_calendar_has_become_text(date: tuple[int, int, int]) -> None:
    printed = "{:04d}-{:02d}-{:02d}".format(*date)
    assert value(opaque(10, moment(*date))) == printed
    assert value(opaque(12, moment(*date, 1, 2, 3, 4))) == printed + " 01:02:03.000004"


def test_other_opaque_values_are_what_the_server_prints() -> None:
    assert value(opaque(16, b"\x05")) == "base64:type16:BQ=="
    lines = value(opaque(252, bytes(120))).split("\n")
    assert [len(line) for line in lines] == [15 + 76, 76, 8]
    assert value(opaque(252, b"")) == "base64:type252:"


def test_short_and_long_strings_are_encoded() -> None:
    for size in (0, 1, 63, 64, 127, 128, 70000):
        assert value(item("é" + "x" * size)) == "é" + "x" * size
    odd = 'a"\\\n\x00\x1f\U0001f600'
    assert text(item({odd: odd})) == {odd: odd}


def test_keys_are_in_the_order_of_their_bytes() -> None:
    """MySQL has shorter ones first. Equal keys are in the dictionary once."""
    (found,) = encoded(item({"b": 1, "é": 2, "aa": 3, "": 4, "Z": {"aa": 5, "é": 6}, "a\0": [7]}))
    assert found is not None
    assert found[1] == b"\x11\x06\x00\x00\x01\x03\x05\x06\x08" + "Za\0aabé".encode()
    names = json.loads(VariantUtils.to_json(*found, "UTC"))
    assert list(names) == ["", "Z", "a\0", "aa", "b", "é"]
    assert names["Z"] == {"aa": 5, "é": 6}


def test_objects_and_arrays_may_be_large() -> None:
    for count in (255, 256, 66000):
        document = {f"key {i * 7919 % count}": i for i in range(count)}
        assert text(item(document)) == document
        assert text(item(list(range(count)))) == list(range(count))


def test_empty_containers_are_encoded() -> None:
    document: Any = [{}, [], {"a": {}, "b": [[], {}]}, [[[]]], ""]
    assert text(item(document)) == document
    assert text(item({})) == {} and text(item([])) == []
    assert text(b"\x00\x00\x00\x04\x00") == {} and text(b"\x02\x00\x00\x04\x00") == []


def test_offsets_of_one_to_four_bytes_are_written() -> None:
    """Of 1, 2, 3 and 4 bytes."""
    for size in (10, 100, 10000, 4 << 20):
        document = [{"k": "x" * size, "l": 1}] * 5
        assert text(item(document)) == document


def test_a_variant_of_more_than_100_levels_is_refused() -> None:
    document: Any = 1
    for level in range(100):
        document = [document] if level % 2 else {"k": document, "a": level}
    assert text(item(document)) == document
    with pytest.raises(DecodeError, match="100 levels"):
        encoded(item([document]))


def test_equal_documents_are_equal_bytes_wherever_they_lie() -> None:
    document = item({"k": [1, "x", {"k": 2}]})
    alone = encoded(document)
    assert encoded(document, document, around=b"\xff" * 9) == alone * 2


def test_a_document_that_spark_can_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_encoding, "SIZE_MAX", 1 << 20)
    fits, not_fits = "x" * ((1 << 20) - 5), "x" * ((1 << 20) - 4)
    assert value(item(fits)) == fits
    for document in (not_fits, [not_fits], {"x" * 60000 + str(i): 1 for i in range(18)}):
        with pytest.raises(DecodeError, match="more than 1 MiB") as caught:
            encoded(item(1), item(document))
        assert caught.value.row == 1


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("05ff", "outside"),
        ("0c0561", "outside"),
        ("0cffffffffff01", "outside"),
        ("0d00", "unknown type"),
        ("0403", "literal"),
        ("02ffff0400", "outside"),
        ("0201000700" + "0cff00", "outside"),
        ("0001000d00" + "ff000100" + "040000", "outside"),
        ("0b000000000000f07f", "double"),
        ("0ff6040201ff", "outside"),
        ("0ff60502008fff00", "decimal|outside"),
        ("0f0c08ffffffffffffff7f", "date or time"),
        ("0c02ffff", "UTF-8"),
        ("0c03eda080", "UTF-8"),
        ("0c02c080", "UTF-8"),
        ("0c01c3", "UTF-8"),
        ("0c04f4908080", "UTF-8"),
        ("0001000c00" + "0b000100" + "040000" + "ff", "UTF-8"),
    ],
)
def test_a_damaged_document_is_named(document: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why) as caught:
        encoded(b"\x04\x00", bytes.fromhex(document))
    assert caught.value.row == 1


def test_values_that_share_bytes_do_not_grow_without_end() -> None:
    inner = struct.pack("<HH", 0, 4)
    for _ in range(60):  # each array holds the next one twice
        inner = struct.pack("<HHBHBH", 2, 10 + len(inner), 2, 10, 2, 10) + inner
    with pytest.raises(DecodeError, match="overlap"):
        encoded(b"\x02" + inner)


def test_cut_and_changed_documents_never_read_beyond_their_span() -> None:
    """Bytes around the document change neither the result nor the error."""
    for other in damaged():
        assert len(outcomes(encoded, other)) == 1, other.hex()


def copied(*texts: str | None) -> list[tuple[bytes, bytes] | None]:
    """(value, metadata) of what a SELECT prints."""
    data = [(text or "").encode() for text in texts]
    length = np.array([-1 if text is None else len(text.encode()) for text in texts], np.int32)
    offset = np.cumsum([0] + [len(one) + 1 for one in data])[:-1]
    buffer = np.frombuffer(b"".join(one + b"," for one in data), np.uint8)
    array = text_to_variant(Values(buffer, offset, length))
    array.validate(full=True)
    return [row and (row["value"], row["metadata"]) for row in array.to_pylist()]


def test_text_gives_the_same_but_for_dates_and_short_decimals() -> None:
    printed = [text for _, text in RECORDED]
    logged = encoded(*(None if binary is None else bytes.fromhex(binary) for binary, _ in RECORDED))
    differ = 0
    for text, one, other in zip(printed, copied(*printed), logged, strict=True):
        if one == other:
            continue
        assert one is not None and other is not None and text is not None
        assert same(parsed(text), parsed(VariantUtils.to_json(*one, "UTC"))), text
        differ += 1
    assert differ < 40


def test_texts_of_documents_are_encoded() -> None:
    odd = {"": -0.0, 'q"\\/\b\f\n\r\t\x01': [[], {}, None, True, False], "é\U0001f600": "x" * 70000}
    texts = [json.dumps(one, ensure_ascii=False) for one in (odd, [odd] * 3, "", {}, [])]
    for text, found in zip(texts, copied(*texts), strict=True):
        assert found is not None
        assert json.loads(VariantUtils.to_json(*found, "UTC")) == json.loads(text)
    kinds = {
        "0": 3, "-128": 3, "18446744073709551615": 10, "18446744073709551616": 10,
        "9223372036854775807": 6, "-9223372036854775808": 6, "-9223372036854775809": 10,
        "1.5": 7, "1.50": 8, "-0.0": 7, "1e15": 7, "12345678901234567890.5": 10,
    }  # fmt: skip
    for text, found in zip(kinds, copied(*kinds), strict=True):
        assert found is not None
        assert found[0][0] >> 2 == kinds[text], text
        assert Decimal(str(VariantUtils.to_python(*found))) == Decimal(text)
    (long,) = copied("9" * 39)
    assert long is not None and VariantUtils.to_python(*long) == "9" * 39


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1", "[1,", "nul", '"', '"\\', '"\\u00', '{"a"', '{"a": ', "[1] ", "[1}", "x",
     "1.2.3", "-", "1-2", "[1x2]"],
)  # fmt: skip
def test_text_that_no_server_prints(text: str) -> None:
    with pytest.raises(DecodeError):
        copied("1", text)
