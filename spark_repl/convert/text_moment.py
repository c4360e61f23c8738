"""Text -> dates and TIME, in the forms in which the server prints them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..sql.temporal_literals import DAY, SECOND
from .temporal import TIME_MAX, put_moment, rounded, time_array
from .type_change import Converted, TypeChange, TypeFamily, by_distinct, family_of


def text_moments(texts: pa.Array, change: TypeChange) -> Converted:
    """Text in the form in which the server prints dates or TIME; Unconvertible for others."""
    kind = family_of(change.after)
    read = _time_reader(change) if kind == TypeFamily.TIME else _moment_reader(change)
    done = by_distinct(texts, read, pa.int64()).values
    micros = pc.fill_null(done, 0).to_numpy(zero_copy_only=False)
    missing = done.is_null().to_numpy(zero_copy_only=False)
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
