"""Literals of dates and times, in all forms that the server accepts."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

SECOND, DAY = 1_000_000, 86_400_000_000
_START = datetime.datetime(1970, 1, 1)
_FRACTION = r"(?:\.([0-9]{0,9}))?"
_APART = re.compile(
    r"([0-9]{2}|[0-9]{4})[-/.:]([0-9]{1,2})[-/.:]([0-9]{1,2})"
    rf"(?:(?:T| +)([0-9]{{1,2}})(?::([0-9]{{1,2}})(?::([0-9]{{1,2}}){_FRACTION})?)?)?"
)
_TOGETHER = re.compile(rf"([0-9]{{6}}|[0-9]{{8}})|([0-9]{{12}}|[0-9]{{14}}){_FRACTION}")
_OFFSET = re.compile(r"(.+[0-9])([+-])([0-9]{2}):([0-9]{2})")
_CLOCK = re.compile(
    rf"(-?)(?:([0-9]{{1,2}}) +)?([0-9]{{1,3}}):([0-9]{{1,2}})(?::([0-9]{{1,2}}){_FRACTION})?"
)
_CLOCK_TOGETHER = re.compile(rf"(-?)([0-9]{{1,7}}){_FRACTION}")
_WITH_CLOCK = re.compile(r"[0-9]{14}|[^ T]+ ")
_NUMBER = re.compile(r"(-?)([0-9]+)(\.[0-9]*)?")


def moment_of(text: str, *, truncates: bool) -> tuple[int | None, int | None]:
    """Return (microseconds since 1970 on the text's clock, None for 0000-00-00; microseconds by
    which this clock is ahead of UTC, None for the session's clock). Raise ValueError for a text
    that is not a date, or is not known to be one."""
    text, ahead = text.strip(), None
    if match := _OFFSET.fullmatch(text):
        text, size = match[1], (int(match[3]) * 60 + int(match[4])) * 60 * SECOND
        ahead = -size if match[2] == "-" else size
    if match := _APART.fullmatch(text):
        year, rest, fraction = (
            match[1],
            [int(group or 0) for group in match.groups()[1:6]],
            match[7],
        )
    elif match := _TOGETHER.fullmatch(text):
        digits, fraction = match[1] or match[2], match[3]
        edge = 4 if len(digits) in (8, 14) else 2
        year, digits = digits[:edge], digits[edge:].ljust(10, "0")
        rest = [int(digits[at : at + 2]) for at in range(0, 10, 2)]
    elif text == "0":
        return None, ahead
    else:
        raise ValueError(text)
    if not int(year) and not any(rest) and not int(fraction or 0):
        return None, ahead
    full = int(year) if len(year) == 4 else int(year) + (2000 if year < "70" else 1900)
    month, day, hour, minute, second = rest
    moment = datetime.datetime(full, month, day, hour, minute, second) - _START
    return moment // datetime.timedelta(microseconds=1) + _micros(fraction, truncates), ahead


def time_of(text: str, *, truncates: bool) -> int:
    """Return signed microseconds. Raise ValueError for a text that is not a TIME, or is not known
    to be one."""
    text = text.strip()
    if match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(group or 0) for group in match.groups()[1:5])
        hours, fraction = hours + 24 * days, match[6]
    elif match := _CLOCK_TOGETHER.fullmatch(text):
        size, fraction = int(match[2]), match[3]
        hours, minutes, seconds = size // 10_000, size // 100 % 100, size % 100
    elif _WITH_CLOCK.match(text):
        micros, ahead = moment_of(text, truncates=truncates)
        if micros is None or ahead is not None:
            raise ValueError(text)
        return micros % DAY
    else:  # the server reads a date without a clock as hours, minutes and seconds
        raise ValueError(text)
    if minutes > 59 or seconds > 59:
        raise ValueError(text)
    whole = ((hours * 60 + minutes) * 60 + seconds) * SECOND
    return (whole + _micros(fraction, truncates)) * (-1 if match[1] else 1)


def letters_of(text: str) -> str:
    """Return the text that a column reads from a literal in the form of ``Column.default``. Raise
    ValueError for bytes that are not text, and for a double that is not a whole number."""
    if text.startswith("'"):
        return text[1:]
    if text.startswith("0x"):
        return bytes.fromhex("0" * (len(text) % 2) + text[2:]).decode("ascii")
    if text.startswith("0b"):
        raise ValueError(text)
    if "e" not in text.lower():
        return text
    if not float(text).is_integer():
        raise ValueError(text)
    return f"{Decimal(text):.0f}"


def moment_letters(text: str) -> str:
    """Return ``letters_of``; for a number, the text of the date that the number stands for."""
    letters = letters_of(text)
    return letters if text[:1] == "'" or text[:2] == "0x" else _digits_of_moment(letters)


def _digits_of_moment(number: str) -> str:
    match = _NUMBER.fullmatch(number)
    if not match or match[1]:
        raise ValueError(number)
    digits, fraction = match[2].lstrip("0"), (match[3] or "").rstrip(".0")
    if not digits and not fraction:
        return "0"
    size = len(digits)
    return digits.zfill(6 if size < 6 else 12 if 8 < size < 12 else size) + fraction


def _micros(fraction: str | None, truncates: bool) -> int:
    """Return six digits. Nanoseconds are rounded, or cut off."""
    digits = (fraction or "").ljust(7, "0")
    return int(digits[:6]) + (digits[6] >= "5" and not truncates)
