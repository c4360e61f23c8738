"""Functions of dates and times: their parts, days between them, intervals added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotComputed
from ..sql.temporal_literals import DAY, SECOND
from .coercions import clock, exact, moment
from .literals import constant
from .value_type import BIGINT, DATE_TYPE, Node, ResultType, ValueType, uncertain, zero

_EPOCH_DAYS = 719_528
_FIRST, _END = -62_135_596_800 * SECOND, 253_402_300_800 * SECOND
"""the years 1 and 10000"""
_UNITS = {
    "MICROSECOND": 1, "SECOND": SECOND, "MINUTE": 60 * SECOND, "HOUR": 3600 * SECOND,
    "DAY": DAY, "WEEK": 7 * DAY,
}  # fmt: skip
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_AMOUNT_MAX = 1_000_000


def _micros(values: pa.Array) -> np.ndarray:
    micros: np.ndarray = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return micros


def _missing(*values: pa.Array) -> np.ndarray:
    nulls = [array.is_null().to_numpy(zero_copy_only=False) for array in values]
    missing: np.ndarray = np.logical_or.reduce(nulls)
    return missing


def build_part(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    operand = clock(value) if operator in _CLOCK else moment(value)
    return Node(operator, replace(BIGINT, digits=7, unsigned=operator == "YEAR"), (operand,))


_PARTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "YEAR": pc.year,
    "MONTH": pc.month,
    "DAY": pc.day,
    "QUARTER": pc.quarter,
    "DAYOFYEAR": pc.day_of_year,
    "DAYOFWEEK": lambda values: pc.day_of_week(values, count_from_zero=False, week_start=7),
    "WEEKDAY": pc.day_of_week,
}
_CLOCK: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "HOUR": lambda micros: micros // (3600 * SECOND),
    "MINUTE": lambda micros: micros // (60 * SECOND) % 60,
    "SECOND": lambda micros: micros // SECOND % 60,
    "MICROSECOND": lambda micros: micros % SECOND,
}


def compute_part(node: Node, values: pa.Array) -> pa.Array:
    if node.operator in _PARTS:
        return _PARTS[node.operator](values).cast(pa.int64()).cast(node.type.arrow)
    micros = _micros(values)
    is_time = node.inputs[0].type.result == ResultType.TIME
    parts = _CLOCK[node.operator](np.abs(micros) if is_time else micros % DAY)
    return pa.array(parts, mask=_missing(values)).cast(node.type.arrow)


def build_week(operator: str, inputs: Sequence[Node]) -> Node:
    """Build WEEK, YEARWEEK and WEEKOFYEAR. Raise NotComputed for WEEK without a mode, and for a
    mode that is not a literal."""
    value, *more = inputs
    if operator == "WEEK" and not more:
        raise NotComputed("WEEK() without a mode depends on default_week_format")
    modes = [constant(operand) for operand in more] or [3 if operator == "WEEKOFYEAR" else 0]
    if len(modes) != 1 or modes[0] is None or (more and operator == "WEEKOFYEAR"):
        raise NotComputed(f"{operator} with such a mode is not computed here")
    kind = replace(BIGINT, digits=6 if operator == "YEARWEEK" else 2)
    return Node(operator, kind, (moment(value),), int(modes[0]) & 7)


def compute_week(node: Node, values: pa.Array) -> pa.Array:
    """Return weeks as the server's calc_week() counts them. The bits of a mode are:

    - 1: weeks begin on Monday,
    - 2: days before the first week are in the last year's last week,
    - 4: the rule for the first week.
    """
    mode = node.detail if node.detail & 1 else node.detail ^ 4
    of_year = bool(mode & 2) or node.operator == "YEARWEEK"
    days = _micros(values).view("datetime64[us]").astype("datetime64[D]")
    year = days.astype("datetime64[Y]")
    begin = year.astype("datetime64[D]")
    weekday = (begin.view(np.int64) + _EPOCH_DAYS + 5 + (not mode & 1)) % 7
    day = (days - begin).view(np.int64)
    early = day < 7 - weekday
    none = early & _begins_late(weekday, mode) if not of_year else np.zeros(len(day), bool)
    back = early & ~none
    year = np.where(back, year - 1, year)
    weekday = np.where(back, (year.astype("datetime64[D]").view(np.int64) + _EPOCH_DAYS + 5
                              + (not mode & 1)) % 7, weekday)  # fmt: skip
    begin = year.astype("datetime64[D]")
    passed = (days - begin).view(np.int64)
    passed += np.where(_begins_late(weekday, mode), weekday - 7, weekday)
    following = ((year + 1).astype("datetime64[D]") - begin).view(np.int64) + weekday
    next_one = (back | of_year) & (passed >= 52 * 7) & ~_begins_late(following % 7, mode)
    week = np.where(none, 0, np.where(next_one, 1, passed // 7 + 1))
    if node.operator == "YEARWEEK":
        week = week + 100 * (year.view(np.int64) + 1970 + next_one)
    return pa.array(week, mask=_missing(values)).cast(node.type.arrow)


def _begins_late(weekday: np.ndarray, mode: int) -> np.ndarray:
    """Return whether the first week of a year begins after its first day, which is day ``weekday``
    of a week."""
    return weekday != 0 if mode & 4 else weekday >= 4


def build_days(operator: str, inputs: Sequence[Node]) -> Node:
    """Build TO_DAYS and DATEDIFF."""
    wanted = 1 if operator == "TO_DAYS" else 2
    if len(inputs) != wanted:
        raise NotComputed(f"{operator} of {len(inputs)} values is not computed here")
    return Node(operator, replace(BIGINT, digits=7), tuple(moment(operand) for operand in inputs))


def compute_days(node: Node, first: pa.Array, second: pa.Array | None = None) -> pa.Array:
    days = _micros(first) // DAY
    if second is None:
        counts = days + _EPOCH_DAYS
        return pa.array(counts, mask=_missing(first)).cast(node.type.arrow)
    counts = days - _micros(second) // DAY
    return pa.array(counts, mask=_missing(first, second)).cast(node.type.arrow)


def build_date(operator: str, inputs: Sequence[Node]) -> Node:
    """Build DATE and LAST_DAY."""
    (value,) = inputs
    return Node(operator, DATE_TYPE, (moment(value),))


def compute_date(node: Node, values: pa.Array) -> pa.Array:
    days = _micros(values).view("datetime64[us]").astype("datetime64[D]")
    if node.operator == "LAST_DAY":
        days = (days.astype("datetime64[M]") + 1).astype("datetime64[D]") - 1
    return _stamps(days, _missing(values))


def _stamps(moments: np.ndarray, missing: np.ndarray) -> pa.Array:
    micros = moments.astype("datetime64[us]").view(np.int64)
    return pa.array(micros, pa.timestamp("us"), mask=missing)


def build_interval(operator: str, inputs: Sequence[Node], unit: str) -> Node:
    value, amount = inputs
    if value.type.result == ResultType.TEXT:
        raise NotComputed("an interval beside text is not computed here")
    start, number = moment(value), exact(amount)
    if number.type.result != ResultType.INTEGER or number.type.unsigned:
        raise NotComputed("an interval that is no signed integer is not computed here")
    kind = start.type
    if unit in _UNITS and unit not in ("DAY", "WEEK"):
        scale = 6 if unit == "MICROSECOND" else kind.scale
        kind = ValueType(ResultType.DATETIME, scale=scale)
    return Node(operator, kind, (start, number), unit)


def compute_interval(node: Node, values: pa.Array, amounts: pa.Array) -> pa.Array:
    """Add or subtract intervals; the result is NULL after the year 9999. Raise Unconvertible for a
    result before the year 1, and for an interval above the limit of its unit (``_AMOUNT_MAX``)."""
    missing, unit = _missing(values, amounts), node.detail
    exact_numbers = pc.fill_null(amounts, zero(amounts.type))
    numbers = exact_numbers.cast(pa.int64()).to_numpy(zero_copy_only=False)
    numbers = np.where(missing, 0, numbers if node.operator[0] == "+" else -numbers)
    micros = _micros(values)
    limit = _AMOUNT_MAX * DAY // _UNITS.get(unit, DAY)
    if (np.abs(numbers) > limit).any():
        raise uncertain("an interval is longer than is computed here")
    if unit in _UNITS:
        later = micros + numbers * _UNITS[unit]
    else:
        later = _months_later(micros, numbers * _MONTHS[unit])
    if (later[~missing] < _FIRST).any():
        raise uncertain("a date before the year 1")
    missing = missing | (later >= _END)
    return pa.array(np.where(missing, 0, later), pa.timestamp("us"), mask=missing)


def _months_later(micros: np.ndarray, months: np.ndarray) -> np.ndarray:
    """Return the same day of another month, or that month's last day if it is shorter."""
    days = micros.view("datetime64[us]").astype("datetime64[D]")
    begin = days.astype("datetime64[M]")
    later = begin + months
    last = (later + 1).astype("datetime64[D]") - 1
    target = np.minimum(
        later.astype("datetime64[D]") + (days - begin.astype("datetime64[D]")), last
    )
    moments: np.ndarray = target.astype("datetime64[us]").view(np.int64) + micros % DAY
    return moments


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {
    **dict.fromkeys((*_PARTS, *_CLOCK), build_part),
    **dict.fromkeys(("TO_DAYS", "DATEDIFF"), build_days),
    **dict.fromkeys(("DATE", "LAST_DAY"), build_date),
    **dict.fromkeys(("WEEK", "YEARWEEK", "WEEKOFYEAR"), build_week),
}
COMPUTED: dict[str, Callable[..., pa.Array]] = {
    **dict.fromkeys((*_PARTS, *_CLOCK), compute_part),
    **dict.fromkeys(("TO_DAYS", "DATEDIFF"), compute_days),
    **dict.fromkeys(("DATE", "LAST_DAY"), compute_date),
    **dict.fromkeys(("WEEK", "YEARWEEK", "WEEKOFYEAR"), compute_week),
    **dict.fromkeys(("+ INTERVAL", "- INTERVAL"), compute_interval),
}
