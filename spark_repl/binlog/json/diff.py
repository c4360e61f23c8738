"""JSON diffs of PARTIAL_UPDATE_ROWS events, applied to documents as the server prints them.

A diff is one of three operations at one path (MySQL source, json_diff.h). This module processes
only documents that have diffs, one at a time. It converts the values in the diffs to text all at
once.
"""

from __future__ import annotations

import json
import json.decoder
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.table_name import parts_of
from ..events.packed import Packed
from .json_text import to_text

_REPLACE, _INSERT, _REMOVE = range(3)
_FUNCTIONS = ("JSON_REPLACE", "JSON_INSERT", "JSON_REMOVE")
CANNOT_APPLY, CORRUPT = 3648, 3649
_HINTS = {
    CANNOT_APPLY: "the target's document is not the source's: copy the table again",
    CORRUPT: "the log is damaged here: fetch it again, or check it with mysqlbinlog",
}
_LEG = re.compile(r'\.(?P<name>[^."\[]+)|\.(?=")|\[(?P<index>\d{1,10})\]')
# The scanners of Python's json module find where a value ends.
_decoder: Any = json.JSONDecoder(parse_float=str, parse_int=str, strict=False)
_scan = _decoder.scan_once
_scan_string: Any = vars(json.decoder)["scanstring"]
Leg = str | int


@dataclass(frozen=True, slots=True)
class _Diff:
    operation: int
    path: str
    legs: tuple[Leg, ...]
    value: bytes


def apply_diffs(
    documents: Sequence[str | None], diffs: Sequence[bytes], column: str, table: str
) -> list[str]:
    """Apply to each document its diffs (the bytes after their length, in log order). Return the new
    documents.

    Raise DecodeError with MySQL's error 3648 if the document lacks a path that an operation needs,
    and with 3649 if diffs are damaged.
    """
    parsed: list[tuple[_Diff, ...]] = []
    for row, data in enumerate(diffs):
        try:
            parsed.append(tuple(_parse(data)))
        except (DecodeError, ValueError) as error:
            raise _error(CORRUPT, table, column).of_row(row) from error
    owner = [row for row, row_diffs in enumerate(parsed) for _ in row_diffs]
    try:
        values = iter(_texts([diff.value for row_diffs in parsed for diff in row_diffs]))
    except DecodeError as error:
        raise _error(CORRUPT, table, column).of_row(owner[error.row or 0]) from error
    out: list[str] = []
    for document, row_diffs in zip(documents, parsed, strict=True):
        try:
            text = document
            for diff in row_diffs:
                text = _apply(text, diff, next(values))
        except (LookupError, ValueError, StopIteration, RecursionError) as error:
            raise _error(CANNOT_APPLY, table, column).of_row(len(out)) from error
        if text is None:
            raise _error(CANNOT_APPLY, table, column).of_row(len(out))
        out.append(text)
    return out


def describe(diffs: bytes, column: str) -> list[str]:
    """Return the operations as SQL functions, as mysqlbinlog prints them: ``JSON_REPLACE(`j`,
    '$.a', 1)``."""
    parsed = list(_parse(diffs))
    out = []
    for diff, value in zip(parsed, _texts([diff.value for diff in parsed]), strict=True):
        last = "" if diff.operation == _REMOVE else f", {value}"
        out.append(f"{_FUNCTIONS[diff.operation]}(`{column}`, '{diff.path}'{last})")
    return out


def _error(number: int, table: str, column: str) -> DecodeError:
    name = parts_of(table)[1] or table
    message = f"Could not apply JSON diff in table {name}, column {column}"
    if number == CORRUPT:
        message = f"Corrupted JSON diff for table {name}, column {column}"
    return DecodeError(message, table=table, number=number, hint=_HINTS[number])


def _parse(data: bytes) -> Iterator[_Diff]:
    packed = Packed(data, "JSON diff")
    while packed.left:
        operation = packed.read(1)[0]
        if operation > _REMOVE:
            raise ValueError(f"operation {operation}")
        path = packed.read(packed.number()).decode("utf-8")
        legs = tuple(_legs(path))
        value = b"" if operation == _REMOVE else packed.read(packed.number())
        if operation != _REMOVE and not value:
            raise ValueError("no value")
        yield _Diff(operation, path, legs, value)


def _legs(path: str) -> Iterator[Leg]:
    """Yield the legs of a path: ``$.a[1]."b c"`` -> "a", 1, "b c"."""
    if path[:1] != "$":
        raise ValueError(path)
    at = 1
    while at < len(path):
        match = _LEG.match(path, at)
        if not match:
            raise ValueError(path)
        at = match.end()
        if match["index"] is not None:
            yield int(match["index"])
        elif match["name"] is not None:
            yield match["name"]
        else:
            name, at = _scan_string(path, at + 1)
            yield name


def _texts(values: list[bytes]) -> list[str]:
    """Convert binary JSON to text, all values in one call. The empty value of a REMOVE becomes
    ``null``."""
    length = np.array([len(value) for value in values], np.int64)
    offset = np.cumsum(length) - length
    array: pa.Array = to_text(np.frombuffer(b"".join(values), np.uint8), offset, length)
    return list(array.to_pylist())


def _apply(text: str | None, diff: _Diff, value: str) -> str:
    if text is None:
        raise LookupError("no document")
    if not diff.legs:
        if diff.operation != _REPLACE:
            raise LookupError("$")
        return value
    start = 0
    for leg in diff.legs[:-1]:
        start = _child(text, start, leg)[0]
    last = diff.legs[-1]
    if diff.operation == _REPLACE:
        begin, end = _child(text, start, last)
        return text[:begin] + value + text[end:]
    if diff.operation == _REMOVE:
        return _remove(text, start, last)
    return _insert(text, start, last, value)


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object or array. ``start``: offset of its key or, in an array, of its value.
    ``value`` and ``end``: bounds of the value."""

    key: Leg
    start: int
    value: int
    end: int


def _members(text: str, at: int) -> Iterator[_Member]:
    """Yield the members of the object or array that begins at ``at``. Raise LookupError for a
    scalar."""
    kind = text[at]
    if kind not in "{[":
        raise LookupError("a scalar")
    at += 1
    if text[at] in "}]":
        return
    index = 0
    while True:
        start, key = at, index
        if kind == "{":
            name, at = _scan_string(text, at + 1)
            key, at = name, at + 2
        end = _end(text, at)
        yield _Member(key, start, at, end)
        if text[end] != ",":
            return
        at, index = end + 2, index + 1


def _end(text: str, at: int) -> int:
    try:
        return int(_scan(text, at)[1])
    except StopIteration as error:
        raise ValueError("no value") from error


def _child(text: str, at: int, leg: Leg) -> tuple[int, int]:
    """Return the begin and end of the value at one leg. Raise LookupError if there is none."""
    _same_kind(text, at, leg)
    for member in _members(text, at):
        if member.key == leg:
            return member.value, member.end
    raise LookupError(leg)


def _same_kind(text: str, at: int, leg: Leg) -> None:
    if text[at] != ("{" if isinstance(leg, str) else "["):
        raise LookupError(leg)


def _remove(text: str, at: int, leg: Leg) -> str:
    _same_kind(text, at, leg)
    previous = None
    for member in _members(text, at):
        if member.key == leg:
            if previous is not None:
                return text[: previous.end] + text[member.end :]
            more = text[member.end] == ","
            return text[: member.start] + text[member.end + (2 if more else 0) :]
        previous = member
    raise LookupError(leg)


def _insert(text: str, at: int, leg: Leg, value: str) -> str:
    """Return ``text`` with ``value`` inserted into the container that begins at ``at``. In an array
    the value is inserted before the index, or after the last value. An object stays sorted by its
    keys."""
    _same_kind(text, at, leg)
    if isinstance(leg, str):
        value = f"{json.dumps(leg, ensure_ascii=False)}: {value}"
    end = None
    for member in _members(text, at):
        if isinstance(leg, str) and member.key == leg:
            raise LookupError(leg)
        if _rank(member.key) >= _rank(leg):
            return f"{text[: member.start]}{value}, {text[member.start :]}"
        end = member.end
    if end is None:
        return text[: at + 1] + value + text[at + 1 :]
    return f"{text[:end]}, {value}{text[end:]}"


def _rank(key: Leg) -> tuple[int, bytes]:
    """Return the sort key of a member. The server sorts keys by their length in bytes, then by
    their bytes."""
    if isinstance(key, int):
        return key, b""
    raw = key.encode("utf-8")
    return len(raw), raw


def pending_diffs(packed: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (column, diffs) of one entry's pending diffs, as ``PartialImages.presence`` packs
    them."""
    at = 0
    while at < len(packed):
        size = int.from_bytes(packed[at + 2 : at + 6], "little")
        yield int.from_bytes(packed[at : at + 2], "little"), packed[at + 6 : at + 6 + size]
        at += 6 + size
