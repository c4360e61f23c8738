"""DATE, DATETIME, TIMESTAMP and TIME: conversions among each other, from and to numbers and text.

Dates and times are microseconds since 1970 on the clock of the session (its time zone), so the
conversions of TIMESTAMP need the zone. Fractions of a second are rounded, or truncated with
TIME_TRUNCATE_FRACTIONAL. Text has the forms in which the server prints dates and TIME. Numbers are
read by their digits, as ALTER TABLE reads them: YYYYMMDD and YYYYMMDDhhmmss, also with years of two
digits, and hhmmss. The server's reading of other numbers is not known here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..sql.temporal_literals import DAY, SECOND
from ..tables.column import Column, Form
from .number_text import exact
from .type_change import Converted, TypeChange, TypeFamily, by_distinct, family_of

if TYPE_CHECKING:
    from .type_change import TypeChange

Micros = npt.NDArray[np.int64]
_END = 253_402_300_800_000_000
"""the year 10000"""
_TIMESTAMP_MIN, _TIMESTAMP_MAX = SECOND, ((1 << 31) - 1) * SECOND + 999_999
TIME_MAX = (838 * 3600 + 59 * 60 + 59) * SECOND
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_UNREAL = r"^0000|^....-00|^....-..-00"
_TIME_PARTS = r"^(?P<sign>-?)(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)\.?(?P<f>\d*)$"
_START = datetime.datetime(1970, 1, 1)
_TIME_DIGITS_MAX = 8_385_959
_SHORT, _LENGTHS = (6, 12), (6, 8, 12, 14)


def read_moments(values: pa.Array, change: TypeChange) -> tuple[Micros, npt.NDArray[np.bool_]]:
    """Return microseconds on the session's clock, and which values are NULL. Raise Unconvertible
    for zero and impossible dates."""
    before = change.before
    if before.form == Form.TEXT:
        if pc.any(pc.match_substring_regex(values, _UNREAL)).as_py():
            raise change.refused("it holds dates that no calendar has")
        try:
            values = values.cast(pa.timestamp("us"))
        except pa.ArrowInvalid as error:
            raise change.refused("it holds dates that no calendar has") from error
    kind = family_of(before)
    missing = values.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(values.type):
        days = pc.fill_null(values.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        return days.astype(np.int64) * DAY, missing
    micros = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if kind == TypeFamily.TIMESTAMP:
        micros = to_clock(micros, change)
    return micros, missing


def read_times(values: pa.Array, change: TypeChange) -> tuple[Micros, npt.NDArray[np.bool_]]:
    """Return signed microseconds of TIME, and which values are NULL."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    if change.before.form != Form.MICROSECONDS:
        values = _time_of_text(values)
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False), missing


def _time_of_text(texts: pa.Array) -> pa.Array:
    parts = pc.extract_regex(texts, _TIME_PARTS)
    hours, minutes, seconds = (pc.struct_field(parts, name).cast(pa.int64()) for name in "hms")
    fraction = pc.utf8_rpad(pc.struct_field(parts, "f"), 6, "0").cast(pa.int64())
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    total = pc.add(pc.multiply(whole, SECOND), fraction)
    return pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(total), total)


def rounded(micros: Micros, digits: int, truncates: bool) -> Micros:
    """Round to ``digits`` of a second. Half a unit rounds away from zero, which is to the later
    moment for dates, whose ``micros`` are not negative."""
    unit = 10 ** (6 - digits)
    size = np.abs(micros) + (0 if truncates else unit // 2)
    signed: Micros = np.where(micros < 0, -1, 1) * (size - size % unit)
    return signed


def _later(micros: Micros, digits: int, truncates: bool) -> Micros:
    """Round dates before 1970 in the same direction as later ones."""
    return rounded(micros + _END, digits, truncates) - _END


def is_fixed(time_zone: str) -> bool:
    """Return whether a session's clock has a fixed offset from UTC. With another clock, even a
    conversion from TIMESTAMP to TIMESTAMP can't distinguish the two hours that the clock shows
    twice."""
    return time_zone == "UTC" or bool(_OFFSET.fullmatch(time_zone))


def zone_offset(change: TypeChange) -> int | ZoneInfo:
    """Return how many microseconds the session's clock is ahead of UTC, or the rules of its zone.
    Raise UnknownZone if the zone is not known."""
    name = change.session.time_zone
    if match := _OFFSET.fullmatch(name):
        size = (int(match[2]) * 60 + int(match[3])) * 60 * SECOND
        return -size if match[1] == "-" else size
    if name == "UTC":
        return 0
    if name in ("", "SYSTEM"):
        raise change.refused_zone(
            "the session's time zone is SYSTEM, the server's own, which is not known:"
            " source.system_time_zone tells it"
        )
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise change.refused_zone(f"the session's time zone {name} is not known") from error


def to_clock(utc: Micros, change: TypeChange) -> Micros:
    """Return moments of TIMESTAMP on the session's clock."""
    zone = zone_offset(change)
    if isinstance(zone, int):
        return utc + zone
    moments = pa.array(utc, pa.timestamp("us", str(zone)))
    local: Micros = pc.local_timestamp(moments).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return local


def _to_utc(clock: Micros, change: TypeChange) -> Micros:
    """Return the moments in UTC; the first one if a change of clocks repeats a time. Raise
    Unconvertible for a time that a change of clocks omits."""
    zone = zone_offset(change)
    if isinstance(zone, int):
        return clock - zone
    try:
        times = pa.array(clock, pa.timestamp("us"))
        moments = pc.assume_timezone(times, str(zone), ambiguous="earliest")
    except pa.ArrowInvalid as error:
        raise change.refused(f"a time that {zone} does not have: {error}") from error
    utc: Micros = moments.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return utc


def store_moment(values: pa.Array, change: TypeChange) -> Converted:
    """Convert DATE, DATETIME and TIMESTAMP to one of them, or to TIME. Raise Unconvertible."""
    micros, missing = read_moments(values, change)
    return put_moment(micros, missing, change)


def put_moment(micros: Micros, missing: npt.NDArray[np.bool_], change: TypeChange) -> Converted:
    """Store microseconds on the session's clock in a column of dates or of TIME. Raise
    Unconvertible if the server stores 0000-00-00 and the column cannot."""
    after, kind = change.after, family_of(change.after)
    digits = 0 if kind == TypeFamily.DATE else after.meta
    if kind == TypeFamily.TIME:
        times = rounded(micros % DAY, digits, change.truncates)
        return Converted(time_array(times, missing, after))
    micros = _later(micros, digits, change.truncates)
    if kind == TypeFamily.TIMESTAMP:
        inside = (micros > -DAY) & (micros < _TIMESTAMP_MAX + DAY)
        utc = np.where(inside & ~missing, micros, 10 * DAY)
        micros = np.where(inside, _to_utc(utc, change), 0)
        unfit = (micros < _TIMESTAMP_MIN) | (micros > _TIMESTAMP_MAX)
    else:
        unfit = micros >= _END
    unfit &= ~missing
    if unfit.any() and after.form != Form.TEXT and not change.session.is_strict:
        raise change.refused("the server stores 0000-00-00 for a value that is out of range")
    return Converted(_moment_array(micros, missing, unfit, after), pa.array(unfit))


def _moment_array(
    micros: Micros, missing: npt.NDArray[np.bool_], zero: npt.NDArray[np.bool_], after: Column
) -> pa.Array:
    micros = np.where(missing | zero, 0, micros)
    kind = family_of(after)
    if after.form != Form.TEXT:
        if kind == TypeFamily.DATE:
            return pa.array((micros // DAY).astype(np.int32), mask=missing).cast(pa.date32())
        return pa.array(micros, mask=missing).cast(after.arrow_type)
    texts = moment_text(
        micros, missing, 0 if kind == TypeFamily.DATE else after.meta, kind == TypeFamily.DATE
    )
    return pc.if_else(pa.array(zero), zero_date(after), texts)


def put_utc(micros: Micros, missing: npt.NDArray[np.bool_], after: Column) -> pa.Array:
    """Store microseconds since 1970 in TIMESTAMP, truncated to the column's digits."""
    return _moment_array(rounded(micros, after.meta, True), missing, np.zeros_like(missing), after)


def zero_date(column: Column) -> str:
    """Return the zero date as the server prints it for the column."""
    if family_of(column) == TypeFamily.DATE:
        return "0000-00-00"
    clock = "0000-00-00 00:00:00.000000"
    return clock[: 20 + column.meta] if column.meta else clock[:19]


def moment_text(
    micros: Micros, missing: npt.NDArray[np.bool_], digits: int, is_date: bool
) -> pa.Array:
    texts = pa.array(micros, pa.timestamp("us"), mask=missing).cast(pa.string())
    width = 10 if is_date else 19 + (digits + 1 if digits else 0)
    return pc.utf8_slice_codeunits(texts, 0, width)


def time_array(micros: Micros, missing: npt.NDArray[np.bool_], after: Column) -> pa.Array:
    """Return the Arrow array of TIME(digits)."""
    if after.form == Form.MICROSECONDS:
        return pa.array(micros, mask=missing)
    return time_text(micros, missing, after.meta)


def time_text(micros: Micros, missing: npt.NDArray[np.bool_], digits: int) -> pa.Array:
    size = np.abs(micros)
    seconds, fraction = size // SECOND, size % SECOND
    minutes, hours = seconds // 60, seconds // 3600
    parts = [_padded(hours), ":", _padded(minutes % 60), ":", _padded(seconds % 60)]
    if digits:
        parts += [".", _padded(fraction // 10 ** (6 - digits), digits)]
    sign = pc.if_else(pa.array(micros < 0), "-", "")
    text = pc.binary_join_element_wise(sign, *parts, "")
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), text)


def _padded(numbers: Micros, width: int = 2) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def store_time(values: pa.Array, change: TypeChange) -> Converted:
    """Convert TIME to TIME, or to dates on the day of the statement on the session's clock. Raise
    Unconvertible if the time of the statement is not known."""
    micros, missing = read_times(values, change)
    if family_of(change.after) == TypeFamily.TIME:
        stored = rounded(micros, change.after.meta, change.truncates)
        unfit = np.abs(stored) > TIME_MAX
        stored = np.clip(stored, -TIME_MAX, TIME_MAX)
        return Converted(time_array(stored, missing, change.after), pa.array(unfit))
    if not change.session.at:
        raise change.refused("it takes the day of the statement, which is not known")
    now = to_clock(np.array([change.session.at], np.int64), change)
    return put_moment(now // DAY * DAY + micros, missing, change)


def moment_number(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return DATE as YYYYMMDD, DATETIME and TIMESTAMP as YYYYMMDDhhmmss, TIME as hhmmss, with the
    column's fraction, as decimal256(76, digits). Round to the second if the new column is of
    integers. Raise Unconvertible for a moment that is rounded to the year 10000."""
    before, digits = change.before, change.before.meta
    whole = family_of(change.after) in (TypeFamily.INTEGER, TypeFamily.YEAR, TypeFamily.BIT)
    if family_of(before) == TypeFamily.TIME:
        micros, missing = read_times(values, change)
        micros = rounded(micros, 0, False) if whole else micros
        texts = pc.replace_substring(time_text(micros, missing, 0 if whole else digits), ":", "")
    else:
        micros, missing = read_moments(values, change)
        is_date = family_of(before) == TypeFamily.DATE
        micros = _later(micros, 0, False) if whole else micros
        if (micros >= _END).any():
            raise change.refused("a moment is rounded to the year 10000")
        texts = moment_text(micros, missing, 0 if whole or is_date else digits, is_date)
        texts = pc.replace_substring_regex(texts, "[-: ]", "")
    return texts.cast(
        pa.decimal256(76, 0 if whole or family_of(before) == TypeFamily.DATE else digits)
    )


def text_moments(texts: pa.Array, change: TypeChange) -> Converted:
    """Convert text in the form in which the server prints dates or TIME. Raise Unconvertible for
    other text."""
    kind = family_of(change.after)
    read = _time_reader(change) if kind == TypeFamily.TIME else _moment_reader(change)
    parsed = by_distinct(texts, read, pa.int64()).values
    micros = pc.fill_null(parsed, 0).to_numpy(zero_copy_only=False)
    missing = parsed.is_null().to_numpy(zero_copy_only=False)
    if kind == TypeFamily.TIME:
        stored = rounded(micros, change.after.meta, change.truncates)
        if (np.abs(stored) > TIME_MAX).any():
            raise change.refused("a text is no TIME")
        return Converted(time_array(stored, missing, change.after))
    if kind == TypeFamily.DATE and (micros[~missing] % DAY).any():
        raise change.refused("a text has a time of day, too")
    return put_moment(micros, missing, change)


def _moment_reader(change: TypeChange) -> Callable[[str | None], tuple[int | None, bool]]:
    form = re.compile(r"[0-9]{4}(-[0-9]{2}){2}( [0-9]{2}(:[0-9]{2}){2}(\.[0-9]{1,6})?)?")
    start = datetime.datetime(1970, 1, 1)

    def read(text: str | None) -> tuple[int | None, bool]:
        if text is None:
            return None, True
        try:
            if not form.fullmatch(text):
                raise ValueError(text)
            moment = datetime.datetime.fromisoformat(_six_digits(text))
        except ValueError as error:
            raise change.refused(f"what the server makes of {text!r} is not known") from error
        return (moment - start) // datetime.timedelta(microseconds=1), True

    return read


def _six_digits(text: str) -> str:
    return text.ljust(26, "0") if "." in text else text


def _time_reader(change: TypeChange) -> Callable[[str | None], tuple[int | None, bool]]:
    form = re.compile(r"(-?)([0-9]{2,3}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")

    def read(text: str | None) -> tuple[int | None, bool]:
        if text is None:
            return None, True
        match = form.fullmatch(text)
        if not match:
            raise change.refused(f"what the server makes of {text!r} is not known")
        seconds = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])
        micros = seconds * SECOND + int((match[5] or "0").ljust(6, "0"))
        return (-micros if match[1] else micros), True

    return read


def number_moments(values: pa.Array, change: TypeChange) -> Converted:
    """Convert integers to dates or TIME; 0 becomes 0000-00-00. Raise Unconvertible for other
    numbers that are not a date, and for 0 unless the column allows zero dates."""
    if change.before.unsigned and not change.plain:
        raise change.refused("whether it has ZEROFILL, whose zeros are digits, is not known")
    numbers, kind = exact(values, change), family_of(change.after)
    missing = numbers.is_null().to_numpy(zero_copy_only=False)
    readers = {TypeFamily.TIME: _time_of_number, TypeFamily.DATE: _date_of_number}
    read = readers.get(kind, _moment_of_number) if kind else _moment_of_number
    parsed = by_distinct(numbers, lambda n: (read(n, change), True), pa.int64()).values
    micros = pc.fill_null(parsed, 0).to_numpy(zero_copy_only=False)
    if kind == TypeFamily.TIME:
        return Converted(time_array(micros, missing, change.after))
    zero = parsed.is_null().to_numpy(zero_copy_only=False) & ~missing
    if zero.any() and change.after.form != Form.TEXT:
        raise change.refused("the server stores 0000-00-00 for 0")
    put = put_moment(micros, missing | zero, change)
    if not zero.any():
        return put
    return Converted(pc.if_else(pa.array(zero), zero_date(change.after), put.values), put.unfit)


def _moment_of_number(number: object, change: TypeChange) -> int | None:
    """Return microseconds since 1970 on the session's clock; None for 0000-00-00, and for NULL."""
    if not number:
        return None
    digits = str(number)
    try:
        if len(digits) not in _LENGTHS or not digits.isdecimal():
            raise ValueError(digits)
        if len(digits) in _SHORT:
            digits = ("20" if digits < "70" else "19") + digits
        moment = datetime.datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S")
    except ValueError as error:
        raise change.refused(f"what the server makes of {number} is not known") from error
    return (moment - _START) // datetime.timedelta(microseconds=1)


def _date_of_number(number: object, change: TypeChange) -> int | None:
    micros = _moment_of_number(number, change)
    return micros and micros - micros % (86_400 * SECOND)


def _time_of_number(number: object, change: TypeChange) -> int | None:
    """Return microseconds of TIME; None for NULL. Raise Unconvertible for other digits."""
    if number is None:
        return None
    whole = int(str(number))
    size, sign = abs(whole), -1 if whole < 0 else 1
    hour, minute, second = size // 10_000, size // 100 % 100, size % 100
    if size > _TIME_DIGITS_MAX or minute > 59 or second > 59:
        raise change.refused(f"what the server makes of {number} is not known")
    return sign * ((hour * 60 + minute) * 60 + second) * SECOND
