"""JSON text against what a MySQL 9.7.4 server printed (fixtures/json), and damaged documents."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from spark_repl.binlog.json.json_text import to_text
from spark_repl.errors import DecodeError
from tests.support.json_binary import RECORDED, damaged, laid_out, outcomes


def texts(*documents: bytes | None, around: bytes = b"") -> list[str | None]:
    array = to_text(*laid_out(documents, around))
    result: list[str | None] = array.to_pylist()
    return result


def test_every_recorded_document_is_printed_as_the_server_did() -> None:
    # Scenarios 133, 142: each kind of value.
    documents = [None if binary is None else bytes.fromhex(binary) for binary, _ in RECORDED]
    assert len(documents) > 150
    for got, (binary, text) in zip(texts(*documents), RECORDED, strict=True):
        assert got == text, binary


def test_no_documents_an_empty_one_and_null() -> None:
    # Scenario 142: an empty value is JSON's null.
    assert texts() == []
    assert texts(b"", None, b"\x04\x00", None) == ["null", None, "null", None]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"), (-0.0, "-0.0"), (1e14, "100000000000000.0"), (1e15, "1e15"),
        (1e-15, "0.000000000000001"), (1e-16, "1e-16"), (2**-44, "5.684341886080802e-14"),
        (123456.789, "123456.789"), (1.7976931348623157e308, "1.7976931348623157e308"),
        (1017554834493971.5, "1017554834493971.5"), (1234567890123456.0, "1.234567890123456e15"),
        (-3444216190643220.5, "-3444216190643220.5"), (5e-324, "5e-324"), (-2.5, "-2.5"),
        (1.0175548344939716e16, "1.0175548344939716e16"), (0.1 + 0.2, "0.30000000000000004"),
    ],
)  # fmt: skip
def test_doubles_are_printed_as_the_server_does(value: float, text: str) -> None:
    double = b"\x0b" + struct.pack("<d", value)
    if 1e-14 < abs(value) < 1e-13:
        text = "0." + "0" * 13 + text.replace(".", "")[:16]
    assert texts(double, double, b"\x04\x01", double) == [text, text, "true", text]


def test_a_document_above_64_kib_has_wide_offsets() -> None:
    # Scenario 142: large arrays.
    strings = [b"\x0c" + b"\xf0\x2e" + b"x" * 6000 for _ in range(20)]
    header = 8 + 5 * len(strings)
    entries, values = b"", b""
    for string in strings:
        entries += string[:1] + struct.pack("<I", header + len(values))
        values += string[1:]
    document = b"\x03" + struct.pack("<II", len(strings), header + len(values)) + entries + values
    (text,) = texts(document)
    assert json.loads(text or "") == ["x" * 6000] * 20


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("05ff", "outside"),  # an integer that is cut
        ("0c0561", "outside"),  # a string that is cut
        ("0cffffffffff01", "outside"),  # a length without end
        ("0d00", "unknown type"),
        ("0403", "literal"),
        ("02ffff0400", "outside"),  # an array of more entries than bytes
        ("0201000700" + "0cff00", "outside"),  # a value behind the array's end
        ("0001000d00" + "ff000100" + "040000", "outside"),  # a key behind the object's end
        ("0b000000000000f07f", "double"),
        ("0ff6040201ff", "outside"),  # a decimal whose digits are missing
        ("0ff60502008fff00", "decimal|outside"),
        ("0f0c08ffffffffffffff7f", "date or time"),
        ("0c02ffff", "UTF-8"),
    ],
)
def test_a_damaged_document_is_named(document: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        texts(b"\x04\x00", bytes.fromhex(document))


def test_a_document_of_more_than_100_levels_is_refused() -> None:
    document = b"\x05\x01\x00"
    for level in range(101):
        document = (
            b"\x02"
            + struct.pack("<HHBH", 1, 7 + len(document) - 1, document[0], 7)
            + (document[1:])
        )
        if level == 0:  # an integer lies in its entry
            document = bytes.fromhex("0201000700050100")
        if level == 99:
            assert texts(document) == ["[" * 100 + "1" + "]" * 100]
    with pytest.raises(DecodeError, match="100 levels"):
        texts(document)


def test_values_that_share_bytes_do_not_grow_without_end() -> None:
    inner = struct.pack("<HH", 0, 4)
    for _ in range(60):  # each array holds the next one twice
        inner = struct.pack("<HHBHBH", 2, 10 + len(inner), 2, 10, 2, 10) + inner
    with pytest.raises(DecodeError, match="overlap"):
        texts(b"\x02" + inner)


def test_the_span_must_lie_in_the_buffer() -> None:
    buffer = np.frombuffer(b"\x04\x00", np.uint8)
    for offset, length in ((1, 2), (-1, 2), (5, 1)):
        with pytest.raises(DecodeError, match="row 0"):
            to_text(buffer, np.array([offset]), np.array([length]))


def test_cut_and_changed_documents_never_read_beyond_their_span() -> None:
    """Bytes around the document change neither the result nor the error."""
    for other in damaged():
        assert len(outcomes(texts, other)) == 1, other.hex()


def test_more_nulls_than_documents_have_bytes() -> None:
    none = np.full(1000, -1, np.int64)
    assert to_text(np.zeros(1, np.uint8), np.zeros(1000, np.int64), none).null_count == 1000
