"""Formats: the number that a thing of ours on disk bears, and what becomes of an unknown one.

What has no number is of format 1. What can be made anew is, when its number is another one; the
rest is refused, by an error that says who wrote it. docs/architecture.md lists them all.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from . import __version__
from .errors import FormatError

KEYS = ("format", "written_by")
"""what ``stamp`` adds"""
_STAMP = re.compile(r'(?:, ?)?"format": (\d+), "written_by": "([^"]*)"\}\s*$')

_PARTS = r'"format": (?P<number>\d+), "written_by": "(?P<by>[^"]*)"\}\s*$'
_TAIL_BYTES = 256


def check(number: int, known: int, what: str, file: object = None, by: str = "") -> None:
    """Raises FormatError for a number above ``known``."""
    if number > known:
        writer = f" by spark_repl {by}" if by else ""
        raise FormatError(
            f"{what} was written{writer} in format {number}; this version, {__version__}, knows"
            f" format {known} and those before",
            file=None if file is None else str(file),
            hint="install the version that wrote it, or a later one",
        )


def stamp(text: str, number: int) -> str:
    """A JSON object with its format's number at the end, where it is found whatever it holds."""
    body = text.rstrip()[:-1]
    comma = "" if body.rstrip() == "{" else ", "
    return f'{body}{comma}"format": {number}, "written_by": "{__version__}"}}'


def unstamp(text: str, known: int, what: str, file: object = None) -> str:
    """The object as it was before ``stamp``. Raises FormatError for an unknown number."""
    match = _STAMP.search(text, max(0, len(text) - _TAIL_BYTES))  # megabytes may come before it
    if match is None:
        return text
    check(int(match[1]), known, what, file, match[2])
    return text[: match.start()] + "}"


def check_all(texts: pa.ChunkedArray, known: int, what: str, file: object = None) -> None:
    """Raises FormatError when one of many objects bears a number above ``known``: their ends are
    looked at alone."""
    ends = pc.binary_slice(texts.cast(pa.binary()), -_TAIL_BYTES)
    stamps = pc.extract_regex(ends, _PARTS)
    for number in pc.struct_field(stamps, "number").unique().drop_null().to_pylist():
        if int(number) > known:
            who = stamps.filter(pc.equal(pc.struct_field(stamps, "number"), number))[0]["by"]
            check(int(number), known, what, file, who.as_py().decode(errors="replace"))
