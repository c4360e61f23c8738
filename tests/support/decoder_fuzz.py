"""Mutated transactions for the decoder: what comes out is rows or one of our errors.

    NUMBA_BOUNDSCHECK=1 python -m tests.support.decoder_fuzz COUNT [SEED]

With NUMBA_BOUNDSCHECK a kernel that reads outside of its buffer raises IndexError. A find is kept
below fixtures/fuzz and is a test from then on.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from zstandard import ZstdDecompressor

from spark_repl.binlog.events import event as events
from spark_repl.binlog.events.payload import (
    View,
    decompress,
    decompress_all,
    payload_bodies,
    payload_heads,
    small_frames,
)
from spark_repl.binlog.events.scan import scan
from spark_repl.binlog.events.transaction import Kind
from spark_repl.binlog.events.windows import windows
from spark_repl.binlog.json.diff import pending_diffs
from spark_repl.binlog.kernels.jit import Bytes, Ints
from spark_repl.binlog.rows.partial_rows import PartialImages
from spark_repl.binlog.rows.walk import walk
from spark_repl.binlog.types.forms import USUAL, Forms
from spark_repl.errors import DecodeError, SparkReplError
from spark_repl.relay.file_transactions import are_usual, classify
from spark_repl.tables.source_table import SourceTable
from tests.support.decoder_log import payloads, transactions

FIXTURES = Path(__file__).parents[1] / "fixtures"
LOGS = (
    FIXTURES / "all_types" / "binlog.000001",
    FIXTURES / "row_images" / "binlog.000001",
    FIXTURES / "minimal_metadata" / "binlog.000001",
    FIXTURES / "logs" / "kinds" / "binlog.000001",
    FIXTURES / "logs" / "compressed" / "binlog.000001",
    FIXTURES / "logs" / "tagged" / "binlog.000001",
)
FINDS = FIXTURES / "fuzz"
OTHER_FORMS = Forms("string", "microseconds", "binary", "variant")
POSITION = np.array([1 << 40 | 4], np.int64)
# Bytes that break most: ends of ranges, of packed integers, of event types.
_BAD = np.array([0, 1, 2, 4, 15, 127, 128, 250, 251, 252, 253, 254, 255], np.uint8)
# A mutated transaction of a few KB may ask for no more than this.
MEMORY_BYTES_MAX = 256 << 20


@cache
def known() -> dict[str, SourceTable]:
    """The tables of minimal_metadata, which is the log of the same run with less in its maps."""
    data = LOGS[0].read_bytes()
    loose = [without_checksums(data[a:b]) for a, b in transactions(data, False)]
    found = {}
    for piece in loose + payloads(data):
        edge = np.array([0]), np.array([len(piece)])
        for images in walk(np.frombuffer(piece, np.uint8), *edge, POSITION, False):
            found[images.definition.name] = images.definition
    return found


def pieces() -> list[bytes]:
    """Every transaction of the fixtures, without checksums, up to 16 KB."""
    found = []
    for path in LOGS:
        data = path.read_bytes()
        found += [without_checksums(data[a:b]) for a, b in transactions(data, True)]
        found += payloads(data)
    return [piece for piece in found if 0 < len(piece) <= 1 << 14]


def without_checksums(data: bytes) -> bytes:
    out, at = b"", 0
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        out += data[at : at + 9] + (size - 4).to_bytes(4, "little")
        out += data[at + 13 : at + size - 4]
        at += size
    return out


def mutate(random: np.random.Generator, piece: bytes) -> bytes:
    """Bytes changed, cut, doubled or moved, mostly with an event length that still fits."""
    data = np.frombuffer(piece, np.uint8).copy()
    where = random.integers(data.size, size=random.integers(1, 5))
    kind = random.integers(8)
    if kind < 3:
        data[where] = random.integers(256, size=where.size)
    elif kind < 5:
        data[where] = random.choice(_BAD, size=where.size)
    elif kind == 5:
        data[where] ^= (1 << random.integers(8, size=where.size)).astype(np.uint8)
    elif kind == 6:
        a, b = sorted(random.integers(data.size + 1, size=2))
        data[a:b] = np.roll(data[a:b], int(random.integers(1, 9)))
    else:
        return _resized(random, piece)
    return data.tobytes()


def _resized(random: np.random.Generator, piece: bytes) -> bytes:
    """One event longer or shorter, its header says so."""
    starts, at = [], 0
    while at < len(piece):
        starts.append(at)
        at += int.from_bytes(piece[at + 9 : at + 13], "little")
    start = int(random.choice(starts))
    size = int.from_bytes(piece[start + 9 : start + 13], "little")
    cut = int(random.integers(19, size + 1))
    middle = random.bytes(int(random.integers(0, 12))) if random.integers(2) else b""
    keep = piece[start + cut + int(random.integers(0, 12)) : start + size]
    body = piece[start + 13 : start + cut] + middle + (keep if random.integers(2) else b"")
    head = piece[start : start + 9] + (13 + len(body)).to_bytes(4, "little")
    return piece[:start] + head + body + piece[start + size :]


def feed(piece: bytes) -> int:
    """Rows decoded; anything but rows and SparkReplError is a find."""
    if len(piece) % 2:
        try:
            return _feed(piece, OTHER_FORMS)
        except DecodeError as error:
            if "can't have JSON diffs" not in error.message:
                raise
    return _feed(piece, USUAL)


def _feed(piece: bytes, forms: Forms) -> int:
    data = np.frombuffer(piece, np.uint8)
    scan(data, 0, False)
    _parse_all(piece)
    rows = 0
    for window in windows(View(piece), len(piece), 300):
        assert window.size
    _decompress_together(data)
    starts, ends = _edges(piece)
    pairs = len(piece) % 3 == 0
    at = POSITION + np.arange(len(starts))
    for images in walk(
        data, starts, ends, at, False, definitions=known(), forms=forms, pairs=pairs
    ):
        entries = np.arange(len(images.flags))
        images.key().validate(full=True)
        if isinstance(images, PartialImages):
            for diffs in images.presence(entries)[1].drop_null().to_pylist():
                list(pending_diffs(diffs))
        images.rows_query(entries)
        batch = images.decode(entries, Forms("null"))
        batch.validate(full=True)
        rows += batch.num_rows
    return rows


def _edges(piece: bytes) -> tuple[Ints, Ints]:
    """Where its transactions begin and end: with GTID events, as far as there are headers."""
    starts, at = [0], 0
    while at + 19 <= len(piece) and (size := int.from_bytes(piece[at + 9 : at + 13], "little")):
        if piece[at + 4] in (33, 34, 42) and at:
            starts.append(at)
        at += size
    return np.array(starts), np.array([*starts[1:], len(piece)])


def _decompress_together(data: Bytes) -> None:
    """Compressed transactions many at a time are what they are one by one."""
    starts, ends = _edges(data.tobytes())
    bodies = payload_bodies(data, starts, ends, False)
    heads = payload_heads(data, bodies)
    usual = are_usual(data, bodies, heads)
    fits, places = small_frames(data, bodies, heads, 1 << 20)
    reader = ZstdDecompressor()
    for i in np.flatnonzero(usual):
        body = data[bodies[i, 0] : bodies[i, 1]]
        assert classify(body.data, reader, heads[i].tolist()) == (Kind.ROWS, heads[i, 2])
    if fits.any():
        joined = decompress_all(data, places[fits], heads[fits, 2])
        if joined is not None:
            alone = [decompress(data[a:b].tobytes()) for a, b in bodies[fits]]
            assert joined == b"".join(alone)


def _parse_all(piece: bytes) -> None:
    parsers = {
        2: events.parse_query,
        4: events.parse_rotate,
        26: events.parse_incident,
        35: events.parse_previous_gtids,
        38: events.parse_xa_prepare,
        40: decompress,
    }
    at = 0
    while at + 19 <= len(piece):
        size = int.from_bytes(piece[at + 9 : at + 13], "little")
        if size < 19:
            return
        kind, body = piece[at + 4], piece[at + 19 : at + size]
        try:
            if kind in (33, 34, 42):
                events.parse_gtid(kind, body)
            elif kind == 15:
                events.parse_format_description(piece[at : at + size])
            elif kind in parsers:
                parsers[kind](body)
        except SparkReplError:
            pass
        at += size


def run(count: int, seed: int, sources: Sequence[bytes] | None = None) -> tuple[int, int]:
    """(decoded, refused) of ``count`` mutations; a find is written to FINDS and raised."""
    random = np.random.default_rng(seed)
    found = sources or pieces()
    decoded = refused = 0
    for _ in range(count):
        chosen = random.integers(len(found), size=random.choice([1, 1, 2, 5]))
        piece = mutate(random, b"".join(found[i] for i in chosen))
        try:
            feed(piece)
            decoded += 1
        except SparkReplError:
            refused += 1
        except BaseException:
            FINDS.mkdir(exist_ok=True)
            (FINDS / f"{seed}-{decoded + refused}.bin").write_bytes(piece)
            raise
    return decoded, refused


def peak_memory(count: int, seed: int) -> int:
    """Bytes that Python and numpy asked for at most, over ``count`` mutations."""
    sources = pieces()
    tracemalloc.start()
    run(count, seed, sources)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    number, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for part in range(0, number, 1000):
        good, bad = run(min(1000, number - part), first * 1_000_000 + part)
        sys.stdout.write(f"{part + good + bad}: {good} decoded, {bad} refused in the last part\n")
        sys.stdout.flush()
