"""GtidSet: a set of global transaction identifiers, with tags, as MySQL prints and stores it.

All rooms use it. A set is immutable, and is kept as sorted intervals that neither overlap nor
touch: two sets are equal if they have the same intervals, and ``str`` prints the text that MySQL
prints. Intervals include their first number and exclude their last one. Anonymous transactions,
which have number 0, are in no set.

``parse`` raises ConfigError for a text that MySQL calls malformed. ``decode`` raises LogError for
damaged bytes of a PREVIOUS_GTIDS event. Functions for arrays have no loop over transactions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from .errors import ConfigError, LogError

Source = tuple[bytes, str]
"""16 bytes of a UUID, and a tag ("": none). Each pair numbers its own transactions."""
Interval = tuple[int, int]
"""first number, and the number after the last"""

MAX_GNO = (1 << 63) - 2
_BLOCK = 8192
"""records that are compared at a time"""
_UUID = re.compile(r"\{?([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32})\}?", re.I)
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_NUMBERS = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


@lru_cache(256)
def format_uuid(uuid: bytes) -> str:
    digits = uuid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def format_gtid(uuid: bytes, tag: str, gno: int) -> str:
    """Return ``uuid:gno`` or ``uuid:tag:gno``; "" for gno 0, an anonymous transaction."""
    if gno == 0:
        return ""
    return f"{format_uuid(uuid)}:{tag}:{gno}" if tag else f"{format_uuid(uuid)}:{gno}"


class GtidSet:
    """An immutable set of GTIDs. Each operation returns a new set. ``str`` returns MySQL's text on
    one line."""

    __slots__ = ("_intervals",)

    def __init__(self, intervals: Mapping[Source, Iterable[Interval]] | None = None) -> None:
        merged = {key: _merge(parts) for key, parts in (intervals or {}).items()}
        self._intervals: dict[Source, tuple[Interval, ...]] = {
            key: merged[key] for key in sorted(merged) if merged[key]
        }

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Parse ``uuid:1-5:7:tag:1-3,uuid:…``, with blanks and line breaks between parts.

        Raise ConfigError for a text that MySQL calls a malformed GTID set.
        """
        intervals: dict[Source, list[Interval]] = {}
        for item in filter(None, (part.strip() for part in text.split(","))):
            head, *rest = (part.strip() for part in item.split(":"))
            uuid = _parse_uuid(head, text)
            tag, numbered = "", False
            for part in rest:
                if match := _NUMBERS.fullmatch(part):
                    numbered = True
                    intervals.setdefault((uuid, tag), []).append(_parse_interval(match, text))
                elif _TAG.fullmatch(part.lower()) and (numbered or not tag):
                    tag, numbered = part.lower(), False
                else:
                    raise _malformed(text)
            if not numbered:
                raise _malformed(text)
        return cls(intervals)

    @classmethod
    def from_arrays(cls, uuid: Any, gno: Any, tag: Any = None) -> GtidSet:
        """Return the set of n GTIDs: ``uuid`` uint8[n, 16] or V16[n], ``gno`` int64[n], ``tag``
        S[n].

        Entries with gno 0 (anonymous transactions) are left out. There is no loop over n.
        """
        numbers = np.ascontiguousarray(gno, np.int64)
        intervals: dict[Source, list[Interval]] = {}
        for source, own in _by_source(uuid, tag, len(numbers)):
            ordered = numbers if own is None else numbers[own]
            ordered = ordered if (ordered > 0).all() else ordered[ordered > 0]
            if len(ordered):
                intervals[source] = _runs(ordered)
        return cls(intervals)

    @classmethod
    def decode(cls, body: bytes) -> GtidSet:
        """Decode the body of a PREVIOUS_GTIDS event or of COM_BINLOG_DUMP_GTID, tagged or not.
        Raise LogError if it is damaged."""
        try:
            return cls(_decode(bytes(body)))
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise LogError(
                "a PREVIOUS_GTIDS event is damaged: it does not hold a GTID set"
            ) from error

    def encode(self, *, tagged: bool | None = None) -> bytes:
        """Return the body of a PREVIOUS_GTIDS event. ``tagged``: whether it has the format with
        tags, by default only if a GTID has a tag."""
        if tagged is None:
            tagged = any(tag for _, tag in self._intervals)
        n = len(self._intervals)
        parts = [struct.pack("<Q", n << 8 | 1 << 56 | 1 if tagged else n)]
        for (uuid, tag), intervals in self._intervals.items():
            parts.append(uuid)
            if tagged:
                parts.append(write_varint(len(tag)) + tag.encode())
            parts.append(struct.pack("<Q", len(intervals)))
            parts.extend(struct.pack("<qq", *interval) for interval in intervals)
        return b"".join(parts)

    @property
    def intervals(self) -> Mapping[Source, tuple[Interval, ...]]:
        return self._intervals

    def count(self) -> int:
        return sum(end - start for part in self._intervals.values() for start, end in part)

    def contains(self, gtid: str) -> bool:
        """Return whether the set contains a GTID (``uuid:n``, ``uuid:tag:n``), or all of a set's
        text."""
        return GtidSet.parse(gtid).issubset(self)

    def contains_arrays(self, uuid: Any, gno: Any, tag: Any = None) -> np.ndarray:
        """Return bool[n]: whether each of n GTIDs, given as for ``from_arrays``, is in the set."""
        numbers = np.ascontiguousarray(gno, np.int64)
        held = np.zeros(len(numbers), bool)
        beyond = max((parts[-1][1] for parts in self._intervals.values()), default=0)
        if not len(numbers) or numbers.min() >= beyond:  # usually all are later
            return held
        for source, own in _by_source(uuid, tag, len(numbers)):
            edges = np.array(self._intervals.get(source, ()), np.int64).ravel()
            if len(edges):
                which: Any = slice(None) if own is None else own
                # A number after an odd number of edges is inside an interval.
                held[which] = np.searchsorted(edges, numbers[which], "right") % 2 == 1
        return held

    def union(self, other: GtidSet) -> GtidSet:
        merged: dict[Source, list[Interval]] = {k: list(v) for k, v in self._intervals.items()}
        for key, intervals in other._intervals.items():
            merged.setdefault(key, []).extend(intervals)
        return GtidSet(merged)

    def add(self, gtid: str) -> GtidSet:
        return self.union(GtidSet.parse(gtid))

    def subtract(self, other: GtidSet) -> GtidSet:
        return GtidSet(
            {k: _subtract(v, other._intervals.get(k, ())) for k, v in self._intervals.items()}
        )

    def intersect(self, other: GtidSet) -> GtidSet:
        return self.subtract(self.subtract(other))

    def issubset(self, other: GtidSet) -> bool:
        return not self.subtract(other)

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self._intervals == other._intervals

    def __hash__(self) -> int:
        return hash(tuple(self._intervals.items()))

    def __str__(self) -> str:
        by_uuid: dict[bytes, list[str]] = {}
        for (uuid, tag), intervals in self._intervals.items():
            parts = by_uuid.setdefault(uuid, [format_uuid(uuid)])
            parts.extend([tag] if tag else [])
            parts.extend(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in intervals)
        return ",".join(":".join(parts) for parts in by_uuid.values())

    def __repr__(self) -> str:
        return f"GtidSet({str(self)!r})"


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, offset after it) of an unsigned variable-length integer of MySQL's
    serialization."""
    first = data[at]
    extra = 8 if first == 0xFF else (~first & first + 1).bit_length() - 1
    if at + 1 + extra > len(data):
        raise IndexError("variable-length integer beyond the end")
    rest = int.from_bytes(data[at + 1 : at + 1 + extra], "little")
    value = rest if extra == 8 else first >> extra + 1 | rest << 7 - extra
    return value, at + 1 + extra


def write_varint(value: int) -> bytes:
    extra = min(8, max(0, (value.bit_length() - 1) // 7))
    if extra == 8:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << extra + 1 | (1 << extra) - 1).to_bytes(extra + 1, "little")


def _parse_uuid(text: str, whole: str) -> bytes:
    if not (match := _UUID.fullmatch(text)) or text.startswith("{") != text.endswith("}"):
        raise _malformed(whole)
    return bytes.fromhex(match[1].replace("-", ""))


def _parse_interval(match: re.Match[str], whole: str) -> Interval:
    start = int(match[1])
    end = int(match[2] or start)
    if not 1 <= start <= MAX_GNO or end > MAX_GNO:
        raise _malformed(whole)
    return start, end + 1


def _malformed(text: str) -> ConfigError:
    shown = text if len(text) <= 200 else text[:200] + "…"
    return ConfigError(
        f"Malformed GTID set specification '{shown}'.",
        number=1772,
        hint="a GTID set looks like 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:11",
    )


def _merge(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the intervals in order. Adjacent ones are joined, empty ones (``5-3``) left out."""
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return tuple(out)


def _subtract(left: tuple[Interval, ...], right: tuple[Interval, ...]) -> list[Interval]:
    out: list[Interval] = []
    i = 0
    for start, end in left:
        while i < len(right) and right[i][1] <= start:
            i += 1
        j = i
        while j < len(right) and right[j][0] < end:
            if start < right[j][0]:
                out.append((start, right[j][0]))
            start = max(start, right[j][1])
            j += 1
        if start < end:
            out.append((start, end))
    return out


def _runs(numbers: np.ndarray) -> list[Interval]:
    steps = np.diff(numbers)
    if not (steps > 0).all():
        numbers = np.unique(numbers)
        steps = np.diff(numbers)
    cuts = np.flatnonzero(steps != 1) + 1
    starts = numbers[np.concatenate(([0], cuts))]
    ends = numbers[np.concatenate((cuts - 1, [len(numbers) - 1]))] + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _by_source(uuid: Any, tag: Any, n: int) -> list[tuple[Source, np.ndarray | None]]:
    """Return each source of n GTIDs, with bool[n]: which GTIDs it numbers; None if it numbers all
    of them."""
    if n == 0:
        return []
    uuids = np.asarray(uuid)
    if uuids.ndim == 2:
        uuids = np.ascontiguousarray(uuids).view("V16").reshape(n)
    tags = np.zeros(n, "S32") if tag is None else np.asarray(tag, "S32")
    if _all_equal(uuids, tags):  # of most logs; no copy of n keys
        return [((bytes(uuids[0]), tags[0].decode()), None)]
    raw = np.zeros((n, 48), np.uint8)
    raw[:, :16] = np.ascontiguousarray(uuids).view(np.uint8).reshape(n, 16)
    raw[:, 16:] = np.ascontiguousarray(tags).view(np.uint8).reshape(n, 32)
    # NumPy ignores trailing zeros of S values: no harm, as UUID and tag have fixed places.
    distinct, which = np.unique(raw.view("S48").reshape(n), return_inverse=True)
    return [(_split_key(key), which == number) for number, key in enumerate(distinct)]


def _all_equal(*keys: np.ndarray) -> bool:
    """Return whether each of the arrays, V16[n] and S32[n], has n times the same bytes.

    NumPy compares words faster than keys. The keys of an index's records lie apart: blocks that fit
    into the processor's cache are read from memory once, not once for each word.
    """
    words = [key.view([(str(at), "<u8") for at in range(key.itemsize // 8)]) for key in keys]
    columns = [word[name] for word in words for name in word.dtype.names or ()]
    return all(
        (column[begin : begin + _BLOCK] == column[0]).all()
        for begin in range(0, len(keys[0]), _BLOCK)
        for column in columns
    )


def _split_key(key: bytes) -> Source:
    padded = bytes(key).ljust(16, b"\0")
    return padded[:16], padded[16:].decode()


def _decode(body: bytes) -> dict[Source, list[Interval]]:
    (word,) = struct.unpack_from("<Q", body, 0)
    tagged = word >> 56 == 1
    n = word >> 8 & (1 << 48) - 1 if tagged else word
    intervals: dict[Source, list[Interval]] = {}
    at = 8
    for _ in range(n):
        uuid, tag = body[at : at + 16], ""
        at += 16
        if tagged:
            length, at = read_varint(body, at)
            tag = body[at : at + length].decode("ascii")
            at += length
        (count,) = struct.unpack_from("<Q", body, at)
        at += 8
        if count * 16 > len(body) - at:
            raise IndexError("more intervals than bytes")
        numbers = np.frombuffer(body, "<i8", 2 * count, at).reshape(-1, 2)
        intervals.setdefault((uuid, tag), []).extend(map(tuple, numbers.tolist()))
        at += 16 * count
    return intervals
