"""GtidSet: MySQL's text, MySQL's bytes, and what a malformed set is."""

from __future__ import annotations

import numpy as np
import pytest

from spark_repl.errors import ConfigError, LogError
from spark_repl.gtid import GtidSet, format_gtid, read_varint, write_varint

A = "4411bc4d-e591-11f1-870e-02fc00000001"
B = "00000000-0000-0000-0000-00000000000a"


def test_prints_as_mysql_does() -> None:
    text = f" {A.upper()}:7:1-3 : 4-5:MyTag:1-3,\n{B}:9:8"
    assert str(GtidSet.parse(text)) == f"{B}:8-9,{A}:1-5:7:mytag:1-3"
    assert str(GtidSet.parse("")) == ""
    assert str(GtidSet.parse(f"{A}:b:1:a:1:2")) == f"{A}:a:1-2:b:1"
    assert str(GtidSet.parse("{" + A.replace("-", "") + "}:1")) == f"{A}:1"


@pytest.mark.parametrize(
    "text",
    [
        "x", A, f"{A}:", f"{A}:0", f"{A}:1-", f"{A}:9223372036854775807", f"{A}:tag", f"{A}:1:tag",
        f"{A}:a:b:1", f"{A}:9tag:1", f"{A}:{'t' * 33}:1", f"{A}-1:1", f"{{{A}:1", f"{A}:1;2",
    ],
)  # fmt: skip
def test_malformed_gtid_sets_are_refused_with_1772(text: str) -> None:
    with pytest.raises(ConfigError, match="Malformed GTID set") as e:
        GtidSet.parse(text)
    assert e.value.number == 1772


def test_a_gtid_set_contains_adds_and_subtracts() -> None:
    have = GtidSet.parse(f"{A}:1-5:tag:2")
    assert have.contains(f"{A}:5") and have.contains(f"{A}:tag:2")
    assert not have.contains(f"{A}:6") and not have.contains(f"{A}:tag:1")
    assert not have.contains(f"{B}:1")
    assert str(have.subtract(GtidSet.parse(f"{A}:2-3"))) == f"{A}:1:4-5:tag:2"
    assert have.add(f"{A}:6").count() == 7
    assert str(have.intersect(GtidSet.parse(f"{A}:4-9"))) == f"{A}:4-5"
    assert have.issubset(have.add(f"{B}:1")) and not have.add(f"{B}:1").issubset(have)
    assert not GtidSet() and have and hash(have) == hash(GtidSet.parse(str(have)))


def test_gtid_sets_have_the_bytes_of_previous_gtids() -> None:
    # Scenario 113: with and without tags.
    plain = GtidSet.parse(f"{A}:1-3:5")
    assert plain.encode()[:8] == (1).to_bytes(8, "little")
    assert plain.encode()[24:] == b"".join(n.to_bytes(8, "little") for n in (2, 1, 4, 5, 6))
    tagged = plain.add(f"{A}:tag:7")
    assert tagged.encode()[:8] == bytes.fromhex("0102000000000001")
    for some in (GtidSet(), plain, tagged):
        assert GtidSet.decode(some.encode()) == some
        assert GtidSet.decode(some.encode(tagged=True)) == some
    for cut in range(len(tagged.encode()) - 1):
        with pytest.raises(LogError):
            GtidSet.decode(tagged.encode()[:cut])


def test_varints_have_mysqls_sizes() -> None:
    for value in (0, 127, 128, 2**14 - 1, 2**14, 2**49, 2**56 - 1, 2**56, 2**64 - 1):
        assert read_varint(write_varint(value), 0) == (value, len(write_varint(value)))
    assert write_varint(0xAA).hex() == "a902"
    assert write_varint(30).hex() == "3c"
    with pytest.raises(IndexError):
        read_varint(b"\x01", 0)


def test_from_arrays_leaves_anonymous_ones_out() -> None:
    n = 170_000
    uuid = np.zeros((n, 16), np.uint8)
    uuid[:, 15] = np.arange(n) % 3
    gno = np.arange(n, dtype=np.int64)
    tag = np.where(gno % 2 == 0, b"", b"even")
    some = GtidSet.from_arrays(uuid, gno, tag)
    assert some.count() == n - 1 and len(some.intervals) == 6
    assert some.contains_arrays(uuid, gno, tag).sum() == n - 1
    assert GtidSet.from_arrays(uuid[:0], gno[:0]) == GtidSet()
    one = GtidSet.from_arrays(uuid[:1].view("V16").ravel(), np.array([7]))
    assert str(one) == "00000000-0000-0000-0000-000000000000:7"


@pytest.mark.parametrize("place", [0, 1, 9_000, 19_999])
def test_one_transaction_of_another_source_is_found(place: int) -> None:
    """Wherever it is among many, and if only the last byte of its UUID or tag is another."""
    uuid, gno = np.zeros((20_000, 16), np.uint8), np.arange(1, 20_001)
    uuid[place, 15] = 1
    other = format_gtid(uuid[place].tobytes(), "", int(gno[place]))
    assert GtidSet.from_arrays(uuid, gno).contains(other)
    tag = np.full(20_000, b"t" * 32)
    tag[place] = b"t" * 31
    tagged = GtidSet.from_arrays(np.zeros_like(uuid), gno, tag)
    assert len(tagged.intervals) == 2 and tagged.count() == 20_000


@pytest.mark.parametrize("numbers", [[3, 1, 2, 7], [1, 2, 2, 3, 7, 7], [7, 3, 2, 1, 1]])
def test_a_gtid_set_takes_numbers_in_any_order(numbers: list[int]) -> None:
    """As a source that commits in another order than it numbers writes them."""
    uuid = np.frombuffer(bytes(16) * len(numbers), np.uint8).reshape(-1, 16)
    assert str(GtidSet.from_arrays(uuid, numbers)).endswith(":1-3:7")


def test_empty_intervals_are_left_out() -> None:
    key = (bytes(16), "")
    assert GtidSet({key: [(3, 3), (5, 4), (7, 9)]}).intervals == {key: ((7, 9),)}
    assert not GtidSet({key: [(5, 3)]})
    assert GtidSet.parse("") != "" and format_gtid(bytes(16), "", 0) == ""
