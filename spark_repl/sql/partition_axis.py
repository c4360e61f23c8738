"""Axis: a column by which a table is partitioned, as whole numbers in the order of partitions; and
the date functions of partition expressions, of columns and of literals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import StatementError
from ..tables.column import Column, ColumnType, Form

if TYPE_CHECKING:
    from ..tables.partitioning import Value
    from .session import Session

_T = ColumnType
_INTEGERS = frozenset((_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.YEAR))
_DATES = frozenset((_T.DATE, _T.DATETIME, _T.DATETIME_OLD))
_MOMENTS = frozenset((_T.TIMESTAMP, _T.TIMESTAMP_OLD))
_TEXTS = frozenset((_T.VARCHAR, _T.VAR_STRING, _T.STRING))
_MIDDLE = 1 << 63
_ZERO = "0000-00-00 00:00:00.000000"
_NO_DATE = "a date that no calendar has: in which partition it is is not known"


@dataclass(frozen=True)
class Axis:
    """A partitioning column as numbers. ``texts``: the texts of LIST partitions; a value's number
    is its index in this list."""

    column: Column
    function: str
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: Column, function: str, kind: str, values: Sequence[Value]) -> Axis:
        """Return the axis of a column. Raise StatementError if the partition of a value cannot be
        computed."""
        is_text = column.type in _TEXTS and column.arrow_type == pa.string()
        if column.type in _INTEGERS:
            is_valid = not function
        elif column.type in _DATES:
            is_valid = function != "UNIX_TIMESTAMP"
        elif column.type in _MOMENTS:
            is_valid = function == "UNIX_TIMESTAMP"
        else:
            is_valid = is_text and not function and kind == "LIST"
        if not is_valid:
            of = f"{function}({column.name})" if function else column.name
            raise StatementError(
                f"which rows a partition by {kind} of {of}, {column.type_name}, has is not known"
            )
        texts = sorted({value for value in values if isinstance(value, str)}) if is_text else ()
        return cls(column, function, tuple(texts))

    @property
    def is_monotone(self) -> bool:
        """Return whether the column's least and greatest values have the least and greatest
        numbers."""
        plain = self.column.form == Form.USUAL and self.column.type not in _TEXTS
        return plain and (not self.function or self.function in MONOTONE)

    def place(self, value: int | str) -> int:
        """Return the number of a value in a partition's bounds. Raise StatementError."""
        column = self.column
        if isinstance(value, str) == bool(column.type in _INTEGERS or self.function):
            raise StatementError(f"a partition's value {value!r} of {column.name} is not known")
        if isinstance(value, str):
            if column.type in _TEXTS:
                return self.texts.index(value)
            at = moment(value)
            digits = 10 ** (6 - column.meta) if column.type != _T.DATE else 86_400 * SECOND
            if micros_of(at) % digits:
                raise StatementError(
                    f"a partition's value '{value}' has more digits than {column.name}"
                )
            return _packed_moment(at) if column.form == Form.TEXT else micros_of(at)
        least = -_MIDDLE
        return min(max(value - self._shift, least), _MIDDLE - 1)

    @property
    def _shift(self) -> int:
        """Return the number that is subtracted from values up to 2^64 - 1."""
        is_big = self.column.type == _T.LONGLONG and self.column.unsigned
        return _MIDDLE if is_big else 0

    def places(self, values: pa.Array) -> tuple[Longs, npt.NDArray[np.bool_]]:
        """Return (the numbers of a column's values [n], which of them are NULL). Raise
        StatementError for a date or text whose number is not known."""
        missing = np.asarray(values.is_null())
        column = self.column
        if column.type in _TEXTS:
            return self._among_texts(values), missing
        if column.form == Form.TEXT:
            if not self.function:
                return _packed(pc.fill_null(values, _ZERO)), missing
            return FUNCTIONS[self.function](_parsed(values)), missing
        if self._shift:
            big = np.asarray(pc.fill_null(values, 0).cast(pa.uint64()))
            return (big ^ np.uint64(_MIDDLE)).view(np.int64), missing
        if pa.types.is_date(values.type):
            values = values.cast(pa.timestamp("us"))
        numbers = np.asarray(pc.fill_null(values.cast(pa.int64()), 0))
        return FUNCTIONS[self.function](numbers) if self.function else numbers, missing

    def _among_texts(self, values: pa.Array) -> Longs:
        """Return the positions of texts in the list. In any collation a text that is listed as
        it is belongs to its partition. Any other text may be equal to a listed one without
        trailing spaces or in the other case of ASCII. It is equal to one of them, as the table
        contains it."""
        listed = pa.array(self.texts, pa.string())
        place = pc.index_in(values, listed)
        trimmed, short = pc.utf8_rtrim(values, " "), pc.utf8_rtrim(listed, " ")
        place = pc.coalesce(place, pc.index_in(trimmed, short))
        if pc.all(pc.string_is_ascii(listed)).as_py():
            plain = pc.if_else(pc.string_is_ascii(trimmed), trimmed, pa.scalar(None, pa.string()))
            place = pc.coalesce(
                place,
                pc.index_in(pc.ascii_lower(plain), pc.ascii_lower(short), skip_nulls=True),
            )
        return np.asarray(pc.fill_null(place, -1)).astype(np.int64)


def _parsed(texts: pa.Array) -> Longs:
    try:
        moments = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise StatementError(_NO_DATE) from error
    if pc.any(pc.starts_with(texts, "0000")).as_py():
        raise StatementError(_NO_DATE)
    return np.asarray(pc.fill_null(moments.cast(pa.int64()), 0))


_PARTS = ((0, 4, 1), (5, 7, 13), (8, 10, 32), (11, 13, 24), (14, 16, 60), (17, 19, 60))


def _packed(texts: pa.Array) -> Longs:
    """Return dates as numbers in their order. Dates that no calendar has are included."""
    full = _filled(texts)
    total = np.zeros(len(texts), np.int64)
    for first, end, size in (*_PARTS, (20, 26, SECOND)):
        part = pc.utf8_slice_codeunits(full, first, end).cast(pa.int64())
        total = total * size + np.asarray(part)
    return total


def _filled(texts: pa.Array) -> pa.Array:
    """Return the texts with all digits of a date and time."""
    size, out = pc.utf8_length(texts), texts
    for length in (10, 19, *range(21, 26)):
        longer = pc.binary_join_element_wise(texts, _ZERO[length:], "")
        out = pc.if_else(pc.equal(size, length), longer, out)
    return out


def _packed_moment(at: datetime) -> int:
    return int(_packed(pa.array([at.replace(tzinfo=None).isoformat(" ", "microseconds")]))[0])


Longs = npt.NDArray[np.int64]

DAY, SECOND = 86_400_000_000, 1_000_000
_DAYS_1970 = 719_528
"""TO_DAYS('1970-01-01')"""
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?: ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?)?"
)
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _part(compute: Callable[..., pa.Array], **options: object) -> Callable[[Longs], Longs]:
    def of(micros: Longs) -> Longs:
        numbers: Longs = np.asarray(compute(pa.array(micros, pa.timestamp("us")), **options))
        return numbers.astype(np.int64)

    return of


FUNCTIONS: dict[str, Callable[[Longs], Longs]] = {
    "UNIX_TIMESTAMP": lambda micros: micros // SECOND,
    "TO_DAYS": lambda micros: micros // DAY + _DAYS_1970,
    "TO_SECONDS": lambda micros: micros // SECOND + _DAYS_1970 * 86_400,
    "YEAR": _part(pc.year),
    "QUARTER": _part(pc.quarter),
    "MONTH": _part(pc.month),
    "DAYOFMONTH": _part(pc.day),
    "DAYOFYEAR": _part(pc.day_of_year),
    "DAYOFWEEK": _part(pc.day_of_week, count_from_zero=False, week_start=7),
    "WEEKDAY": _part(pc.day_of_week, count_from_zero=True, week_start=1),
}
"""name -> the function of microseconds since 1970 [n]"""
MONOTONE = frozenset(("UNIX_TIMESTAMP", "TO_DAYS", "TO_SECONDS", "YEAR"))


def moment(text: str) -> datetime:
    """Return the time of a date's text in the form that the server prints, as UTC. Raise
    StatementError."""
    match = _MOMENT.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        *parts, fraction = match.groups()
        micros = int((fraction or "").ljust(6, "0"))
        return datetime(*(int(part or 0) for part in parts), micros, tzinfo=UTC)  # type: ignore[arg-type,misc]
    except ValueError as error:
        raise StatementError(f"a partition's value '{text}' is not understood") from error


def micros_of(at: datetime) -> int:
    """Return microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def constant(function: str, text: str, session: Session) -> int:
    """Return the function's value for a literal, in the session's time zone. Raise
    StatementError."""
    if function not in FUNCTIONS:
        raise StatementError(f"a partition's value {function}('{text}') is not understood")
    at = moment(text)
    if function == "UNIX_TIMESTAMP":
        at = _at_zone(at, session.time_zone)
    return int(FUNCTIONS[function](np.array([micros_of(at)], np.int64))[0])


def _at_zone(clock: datetime, name: str) -> datetime:
    """Return the time at which the clocks of a zone show ``clock``."""
    if name in ("", "SYSTEM"):
        raise StatementError(
            "UNIX_TIMESTAMP of a partition's value is by the session's time zone SYSTEM, the"
            " server's own, which is not known: source.system_time_zone tells it"
        )
    try:
        if match := _OFFSET.fullmatch(name):
            ahead = timedelta(hours=int(match[2]), minutes=int(match[3]))
            zone: timezone | ZoneInfo = timezone(-ahead if match[1] == "-" else ahead)
        else:
            zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise StatementError(f"the session's time zone {name} is not known") from error
    local = clock.replace(tzinfo=zone)
    if (
        local.utcoffset() != local.replace(fold=1).utcoffset()
    ):  # the zone's clocks show this time twice, or never
        raise StatementError(f"the moment {clock:%Y-%m-%d %H:%M:%S} in {name} is not known")
    return local.astimezone(UTC)
