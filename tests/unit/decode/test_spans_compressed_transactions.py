"""Compressed transactions in any mixture: many at once, one by one, large, damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_repl import read_changes
from spark_repl.decode import spans
from spark_repl.decode.spans import read_images
from spark_repl.errors import DecodeError, LogError
from spark_repl.position import RelayPosition
from spark_repl.relay.span import Span
from tests.support.binlog_writer import Change, LogWriter, Table, insert

TABLE = Table("a", (("id", "int"), ("v", "varchar(200)")))


class Packer(LogWriter):
    """``how`` the next transaction is packed."""

    how = "usual"

    def _packed(self, events: list[tuple[int, bytes]]) -> bytes:
        inner = b"".join(
            struct.pack("<IBIIIH", 1, kind, self.server_id, 19 + len(data), 0, 0) + data
            for kind, data in events
        )
        size, data = len(inner), zstandard.compress(inner)
        if self.how == "plain":
            return b"\x02\x03\xfc\xff\0\x01\x03\xfc" + struct.pack("<H", size) + b"\0" + inner
        if self.how == "two frames":
            data = zstandard.compress(inner[:40]) + zstandard.compress(inner[40:])
        elif self.how == "no size in the frame":
            data = zstandard.ZstdCompressor(write_content_size=False).compress(inner)
        elif self.how == "cut":
            data = data[:-3]
        elif self.how == "other bytes":
            data = data[:12] + bytes(len(data) - 12)
        elif self.how == "more than it says":
            size -= 1
        elif self.how == "less than it says":
            size += 1
        elif self.how == "nothing, it says":
            size = 0
        elif self.how == "nothing":
            size, data = 0, zstandard.compress(b"")
        elif self.how == "a huge frame, none by its header":
            size, data = 0, data[:4] + b"\xe0" + struct.pack("<Q", 1 << 60) + data[6:]
        elif self.how == "a huge frame":
            data = data[:4] + b"\xe0" + struct.pack("<Q", 1 << 60) + data[6:]
        elif self.how == "bytes behind":
            data += b"more"
        elif self.how == "a frame behind":
            data += zstandard.compress(inner)
        sizes = struct.pack("<H", size), struct.pack("<H", len(data))
        head = b"\x02\x01\0\x03\x03\xfc%b\x01\x03\xfc%b\0" % sizes
        if self.how == "another order":
            head = b"\x01\x03\xfc%b\x03\x03\xfc%b\x02\x01\0\0" % sizes[::-1]
        return head + data


GOOD = ("usual", "plain", "two frames", "no size in the frame", "another order", "loose")
BAD = (
    "cut", "other bytes", "more than it says", "less than it says", "nothing, it says", "nothing",
    "a huge frame, none by its header", "a huge frame", "bytes behind", "a frame behind",
    "checksum",
)  # fmt: skip
_L, _U = "loose", "usual"
OTHERS = [[_U] * 9, [_L, _U, _L, _U, _U, _L, "here", _U, "plain"]]


def written(folder: Path, kinds: list[str], sizes: list[int]) -> Packer:
    log = Packer(folder)
    log.ddl(TABLE.create)
    for i, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        log.how = kind
        log.transaction(change(i, size), compressed=kind != "loose")
    log.rotate()
    return log


def change(i: int, size: int) -> Change:
    return insert(TABLE, *((100 * i + k, f"value {i} " * 15) for k in range(size)))


def rows(folder: Path) -> list[tuple[str, int]]:
    return [
        (gtid, row["id"])
        for batch in read_changes(str(folder))
        for gtid, row in zip(
            batch.column("gtid").to_pylist(), batch.column("after").to_pylist(), strict=True
        )
    ]


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.sampled_from(GOOD), st.integers(1, 12)), min_size=1, max_size=12),
    st.sampled_from([300, 1000, 5000, 1 << 24]),
)
def test_every_mixture_gives_what_the_plain_log_gives(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    drawn: list[tuple[str, int]],
    slice_bytes: int,
) -> None:
    """Scenario 122: slices so small that some transactions are larger than one."""
    monkeypatch.setattr(spans, "_SLICE_BYTES", slice_bytes)
    kinds, sizes = (list(part) for part in zip(*drawn, strict=True))
    packed, loose = tmp_path_factory.mktemp("packed"), tmp_path_factory.mktemp("loose")
    log = written(packed, kinds, sizes)
    written(loose, ["loose"] * len(kinds), sizes)
    expected = [(log.gtid(i + 1), 100 * i + k) for i, size in enumerate(sizes) for k in range(size)]
    assert rows(packed) == rows(loose) == expected


@pytest.mark.parametrize("others", OTHERS, ids=["alike", "mixed"])
@pytest.mark.parametrize("kind", BAD)
def test_a_damaged_one_among_many_is_named(tmp_path: Path, kind: str, others: list[str]) -> None:
    # Scenarios 125, 128: a payload's events have its place; plain ones stand among them.
    kinds = [*others[:6], kind, *others[7:]]
    log = written(tmp_path, kinds, [2] * 9)
    name, start, end = log.spans[7]
    if kind == "checksum":
        data = bytearray((tmp_path / name).read_bytes())
        data[end - 2] ^= 1
        (tmp_path / name).write_bytes(data)
    with pytest.raises(LogError) as caught:
        rows(tmp_path)
    assert start <= int(str(caught.value.position).rpartition(":")[2]) < end
    if kind == "nothing":
        return  # no rows in it; only the index minds
    places = np.array([(a, b) for _, a, b in log.spans[1:]], np.int64)
    packed = np.array([one != "loose" for one in kinds])
    span = Span(str(tmp_path / name), 1, places[:, 0], places[:, 1], packed, True)
    seen = 0
    with pytest.raises(DecodeError) as error:
        for images, _, _ in read_images(span, np.arange(len(places))):
            seen += len(images.flags)
    assert str(error.value.position) == str(RelayPosition(1, start))
    # What is not compressed comes first.
    assert seen == 2 * (kinds.count("loose") + (packed[:6] & True).sum())
