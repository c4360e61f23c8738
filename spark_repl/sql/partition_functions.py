"""Functions of dates by which tables are partitioned, of columns and of literals."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import StatementError

if TYPE_CHECKING:
    from .session import Session

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
"""name -> what it makes of microseconds since 1970 [n]"""
MONOTONE = frozenset(("UNIX_TIMESTAMP", "TO_DAYS", "TO_SECONDS", "YEAR"))


def moment(text: str) -> datetime:
    """A date's text in the form in which the server prints it, as UTC. Raises StatementError."""
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
    """Microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def constant(function: str, text: str, session: Session) -> int:
    """The function of a literal, in the session's time zone. Raises StatementError."""
    if function not in FUNCTIONS:
        raise StatementError(f"a partition's value {function}('{text}') is not understood")
    at = moment(text)
    if function == "UNIX_TIMESTAMP":
        at = _at_zone(at, session.time_zone)
    return int(FUNCTIONS[function](np.array([micros_of(at)], np.int64))[0])


def _at_zone(clock: datetime, name: str) -> datetime:
    """The moment at which a zone's clocks show ``clock``."""
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
    if local.utcoffset() != local.replace(fold=1).utcoffset():  # clocks show it twice, or never
        raise StatementError(f"the moment {clock:%Y-%m-%d %H:%M:%S} in {name} is not known")
    return local.astimezone(UTC)
