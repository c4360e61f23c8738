"""Formats: the numbers of spark_repl's formats on disk, and the check for unknown ones.

A file or row without a number has format 1. If it has an unknown number, and can be built again, it
is built again. Otherwise FormatError refuses it, and names the version that wrote it.
docs/architecture.md lists all formats.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from . import __version__
from .errors import FormatError

KEYS = ("format", "written_by")
"""the keys that ``stamp`` adds"""
_STAMP = re.compile(r'(?:, ?)?"format": (\d+), "written_by": "([^"]*)"\}\s*$')

_PARTS = r'"format": (?P<number>\d+), "written_by": "(?P<by>[^"]*)"\}\s*$'
_TAIL_BYTES = 256


def check(number: int, known: int, what: str, file: object = None, by: str = "") -> None:
    """Raise FormatError if the number is above ``known``."""
    if number > known:
        writer = f" by spark_repl {by}" if by else ""
        raise FormatError(
            f"{what} was written{writer} in format {number}; this version, {__version__}, knows"
            f" format {known} and those before",
            file=None if file is None else str(file),
            hint="install the version that wrote it, or a later one",
        )


def stamp(text: str, number: int) -> str:
    """Return a JSON object with its format's number at the end. A reader finds the number at that
    place, regardless of the object's content."""
    body = text.rstrip()[:-1]
    comma = "" if body.rstrip() == "{" else ", "
    return f'{body}{comma}"format": {number}, "written_by": "{__version__}"}}'


def unstamp(text: str, known: int, what: str, file: object = None) -> str:
    """Return the object before ``stamp`` was applied. Raise FormatError for an unknown number."""
    match = _STAMP.search(text, max(0, len(text) - _TAIL_BYTES))  # megabytes may come before it
    if match is None:
        return text
    check(int(match[1]), known, what, file, match[2])
    return text[: match.start()] + "}"


def check_all(texts: pa.ChunkedArray, known: int, what: str, file: object = None) -> None:
    """Raise FormatError if one of many objects has a number above ``known``. Only the ends of the
    objects are read."""
    ends = pc.binary_slice(texts.cast(pa.binary()), -_TAIL_BYTES)
    stamps = pc.extract_regex(ends, _PARTS)
    for number in pc.struct_field(stamps, "number").unique().drop_null().to_pylist():
        if int(number) > known:
            who = stamps.filter(pc.equal(pc.struct_field(stamps, "number"), number))[0]["by"]
            check(int(number), known, what, file, who.as_py().decode(errors="replace"))
