"""Store values of all kinds as text or bytes: character sets, lengths, padding.

Lengths are those of the column: characters of CHAR and VARCHAR, bytes of TEXT and of all binary
types. A truncated value is unfit, unless it loses only trailing spaces of text. If a strict server
also refuses that, its ALTER TABLE is not in the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.charset import UTF8, charset_of, to_text
from ..binlog.charsets.one_byte import NONE, one_byte_table
from ..binlog.charsets.repertoire import BASIC, DAMAGED, ONLY_READ, WHOLE, letters
from ..errors import DecodeError
from ..sql.charsets import WIDE
from ..tables.column import BINARY, Column, ColumnType, Form
from .number_text import exact, plain_text, real_text
from .temporal import moment_text, read_moments, read_times, time_text
from .type_change import (
    Converted,
    TypeChange,
    TypeFamily,
    by_distinct,
    bytes_max,
    characters,
    either,
    family_of,
    longest_character,
)

_T = ColumnType
_CODECS = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
# The first bytes of a surrogate: Python refuses such a character, the server may accept it.
_SET_UNKNOWN = (
    "the character set of {} is not known: no statement of the log has said it, and no TABLE_MAP"
)
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")


def store_text(texts: pa.Array, change: TypeChange) -> Converted:
    """Store text, in the character set of ``before``, in a column of text or bytes. Raise
    Unconvertible if the result is not known."""
    after = change.after
    if after.collation == BINARY:
        return store_bytes(_encoded(texts, change), after)
    # A strict server refuses what its character set lacks.
    if after.assumed and not change.before.assumed and not change.session.is_strict:
        _refuse_letters(texts, change)
    texts, foreign = in_charset(texts, change)
    cut, unfit = _fitted(texts, change)
    return Converted(cut, either(foreign, unfit), "does not fit")


def store_bytes(raw: pa.Array, after: Column) -> Converted:
    """Store bytes in BINARY(n), VARBINARY(n) or BLOB."""
    limit = bytes_max(after)
    size = pc.binary_length(raw)
    unfit = pc.greater(size, limit)
    if pc.any(unfit).as_py():
        raw = pc.binary_slice(raw, 0, limit)
    if after.type != _T.STRING:
        return Converted(raw, unfit, "is too long")
    if pc.any(pc.less(size, limit)).as_py():
        raw = by_distinct(raw, lambda v: (v and v.ljust(limit, b"\0"), True), pa.binary()).values
        raw = pc.if_else(pc.equal(pc.binary_length(raw), 0), b"\0" * limit, raw)
    return Converted(raw, unfit, "is too long")


def store_raw(raw: pa.Array, change: TypeChange) -> Converted:
    """Store bytes in a column of text or bytes. A column of text truncates them at the first byte
    that is not part of a character. Raise Unconvertible if the result is not known."""
    after = change.after
    if after.collation == BINARY:
        return store_bytes(raw, after)
    if after.assumed and pc.any(pc.greater(pc.binary_length(raw), 0)).as_py():
        raise change.refused(_SET_UNKNOWN.format(after.name))
    charset = charset_of(after.collation)
    try:
        if charset not in UTF8:
            raise pa.ArrowInvalid(charset)
        texts = raw.cast(pa.string())
        if charset == "ascii" and not pc.all(pc.string_is_ascii(texts)).as_py():
            raise pa.ArrowInvalid(charset)
        if charset == "utf8mb3" and pc.any(_matches(texts, _outside(charset))).as_py():
            raise pa.ArrowInvalid(charset)
        converted = Converted(texts)
    except pa.ArrowInvalid:
        converted = by_distinct(raw, _reader(charset, change), pa.string())
    read_alone = ONLY_READ.get(charset)
    if read_alone and pc.any(_matches(converted.values, f"[{read_alone}]")).as_py():
        raise change.refused(f"the server does not take each byte of {charset} that it reads")
    texts = converted.values
    cut, unfit = _fitted(texts, change)
    return Converted(cut, either(converted.unfit, unfit), "does not fit")


def _refuse_letters(texts: pa.Array, change: TypeChange) -> None:
    """Raise Unconvertible for a letter that a character set may lack, or may encode otherwise."""
    if pc.all(pc.string_is_ascii(texts)).as_py() is False:
        named = change.before if change.after.collation == BINARY else change.after
        raise change.refused(_SET_UNKNOWN.format(named.name))


def in_charset(texts: pa.Array, change: TypeChange) -> tuple[pa.Array, pa.Array | None]:
    """Return the text with a ? for each character that the set of ``after`` lacks, and which values
    had such a character. Raise Unconvertible if the set's characters are not known."""
    charset = charset_of(change.after.collation)
    before = change.before
    from_charset = charset_of(before.collation) if before.collation else ""
    if charset in WHOLE or charset == from_charset:
        return texts, None
    if pc.all(pc.string_is_ascii(texts)).as_py() not in (False,) and charset != "swe7":
        return texts, None
    outside = _outside(charset)
    if not outside:
        raise change.refused(f"which characters {charset} lacks is not known")
    if charset in DAMAGED and pc.any(_matches(texts, DAMAGED[charset])).as_py():
        raise change.refused(f"the server writes U+{ord(DAMAGED[charset]):X} wrong in {charset}")
    foreign = _matches(texts, outside)
    if pc.any(foreign).as_py():
        texts = pc.replace_substring_regex(texts, outside, "?")
    return texts, foreign


def keeps_characters(before: str, after: str) -> bool:
    """Return whether each text in the character set ``before`` exists in ``after``."""
    if before == after or after in WHOLE:
        return True
    if after in BASIC:
        return before not in WHOLE
    table = one_byte_table(after)
    return before == "ascii" and (table is None or table[:128] == bytes(range(128)).decode())


@lru_cache
def _outside(charset: str) -> str:
    """Return a regular expression for a character outside of the set; '' if the set is not
    known."""
    if charset in BASIC:
        return r"[^\x{0}-\x{FFFF}]"
    if (written := letters(charset)) is None:
        return ""
    codes = enumerate(sorted(map(ord, written)))
    runs = [[code for _, code in run] for _, run in groupby(codes, lambda pair: pair[1] - pair[0])]
    return "[^" + "".join(f"\\x{{{run[0]:X}}}-\\x{{{run[-1]:X}}}" for run in runs) + "]"


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(texts, pattern)


def _fitted(texts: pa.Array, change: TypeChange) -> tuple[pa.Array, pa.Array | None]:
    """Truncate texts to the column's length. CHAR has no trailing spaces, even after truncation."""
    if change.after.type != _T.STRING:
        return _cut(texts, change)
    cut, unfit = _cut(pc.utf8_rtrim(texts, " "), change)
    return pc.utf8_rtrim(cut, " "), unfit


def _cut(texts: pa.Array, change: TypeChange) -> tuple[pa.Array, pa.Array | None]:
    after = change.after
    if after.type == _T.BLOB:
        return _cut_bytes(texts, change)
    most = characters(after)
    long = pc.greater(pc.utf8_length(texts), most)
    if not pc.any(long).as_py():
        return texts, None
    rest = pc.utf8_ltrim(pc.utf8_slice_codeunits(texts, most), " ")
    unfit = pc.and_(long, pc.greater(pc.binary_length(rest), 0))
    return pc.utf8_slice_codeunits(texts, 0, most), unfit


def _cut_bytes(texts: pa.Array, change: TypeChange) -> tuple[pa.Array, pa.Array | None]:
    """Truncate to the length of TEXT. Between TEXT of one character set the server truncates in the
    middle of a character, which raises Unconvertible."""
    after, limit = change.after, bytes_max(change.after)
    charset = charset_of(after.collation)
    size = pc.binary_length(texts) if charset in UTF8 else pc.utf8_length(texts)
    wide = charset not in UTF8 and longest_character(after) > 1
    if wide:
        size = pc.multiply(size, longest_character(after))
    long = pc.greater(size, limit)
    if not pc.any(long).as_py():
        return texts, None
    if wide:
        raise change.refused(f"a text may have more than {limit} bytes in {charset}")
    same = charset_of(change.before.collation) if change.before.type == _T.BLOB else ""
    if charset not in UTF8:
        rest = pc.utf8_slice_codeunits(texts, limit)
        unfit = pc.not_equal(pc.utf8_ltrim(rest, " "), "")
        return pc.utf8_slice_codeunits(texts, 0, limit), unfit

    def cut(text: str | None) -> tuple[str | None, bool]:
        raw = (text or "").encode()
        head = raw[:limit].decode("utf-8", "ignore")
        if same == charset and len(head.encode()) < min(limit, len(raw)):
            raise change.refused(f"the server cuts a character in two behind {limit} bytes")
        return None if text is None else head, not raw[len(head.encode()) :].strip(b" ")

    converted = by_distinct(texts, cut, pa.string())
    return converted.values, converted.unfit


def _encoded(texts: pa.Array, change: TypeChange) -> pa.Array:
    """Return the bytes of text in the character set of ``before``. Raise Unconvertible if the set
    is not known."""
    before = change.before
    if before.assumed and pc.any(pc.greater(pc.binary_length(texts), 0)).as_py():
        raise change.refused(_SET_UNKNOWN.format(before.name))
    if before.literals:
        _refuse_letters(texts, change)
    charset = charset_of(before.collation) if before.collation else "utf8mb4"
    if charset in UTF8 or (
        pc.all(pc.string_is_ascii(texts)).as_py() is not False and longest_character(before) == 1
    ):
        return texts.cast(pa.binary())
    return by_distinct(texts, _writer(charset, change), pa.binary()).values


def _writer(charset: str, change: TypeChange) -> Callable[[str | None], tuple[bytes | None, bool]]:
    table = one_byte_table(charset)
    codec = _CODECS.get(charset)
    if codec is None and (table is None or len(set(table) - {NONE}) < len(table.replace(NONE, ""))):
        raise change.refused(f"the bytes of a text in {charset} are not known from its characters")
    places = {char: byte for byte, char in enumerate(table or "")}

    def write(text: str | None) -> tuple[bytes | None, bool]:
        if text is None:
            return None, True
        return (text.encode(codec) if codec else bytes(places[char] for char in text)), True

    return write


def _reader(charset: str, change: TypeChange) -> Callable[[bytes | None], tuple[str | None, bool]]:
    def read(raw: bytes | None) -> tuple[str | None, bool]:
        if raw is None:
            return None, True
        if charset in UTF8:
            return _valid_part(raw, charset, change)
        try:
            text = to_text(raw, charset)
        except DecodeError as error:
            raise change.refused(f"{error.message}") from error
        if charset in _CODECS and text.encode(_CODECS[charset]) != raw:
            raise change.refused(f"bytes that are no text in {charset}")
        return text, True

    return read


def _valid_part(raw: bytes, charset: str, change: TypeChange) -> tuple[str, bool]:
    try:
        text = raw.decode("ascii" if charset == "ascii" else "utf-8")
    except UnicodeDecodeError as error:
        if _SURROGATE.match(raw, error.start):
            raise change.refused("what the server makes of surrogates is not known") from error
        text = raw[: error.start].decode("utf-8")
    if charset == "utf8mb3":
        text = re.split("[\U00010000-\U0010ffff]", text, maxsplit=1)[0]
    return text, len(text.encode()) == len(raw)


def number_text(values: pa.Array, change: TypeChange) -> pa.Array:
    """Return numbers as the server prints them. Raise Unconvertible if this form is not known."""
    before, kind = change.before, family_of(change.before)
    if kind == TypeFamily.YEAR:
        return pc.utf8_lpad(values.cast(pa.string()), 4, "0")
    if not change.plain and kind != TypeFamily.BIT and (before.unsigned or kind == TypeFamily.REAL):
        raise change.refused("whether it is ZEROFILL, or has a number of digits, is not known")
    if kind == TypeFamily.REAL:
        return real_text(values, change)
    return plain_text(exact(values, change))


def _store_number(values: pa.Array, change: TypeChange) -> Converted:
    before, after = change.before, change.after
    is_bit = family_of(before) == TypeFamily.BIT
    if is_bit and after.collation != BINARY and charset_of(after.collation) in WIDE:
        raise change.refused("the server cuts bits off in a character set of wide letters")
    if not is_bit or after.type != ColumnType.BLOB:
        return store_text(number_text(values, change), change)
    if before.meta == 1:
        values = pc.if_else(values, b"\1", b"\0")
    return store_raw(values, change)


def _moment(values: pa.Array, change: TypeChange) -> Converted:
    before = change.before
    if before.form == Form.TEXT and family_of(before) != TypeFamily.TIMESTAMP:
        return store_text(values, change)
    micros, missing = read_moments(values, change)
    is_date = family_of(before) == TypeFamily.DATE
    return store_text(moment_text(micros, missing, before.meta, is_date), change)


def _time(values: pa.Array, change: TypeChange) -> Converted:
    return store_text(time_text(*read_times(values, change), change.before.meta), change)


def _json(values: pa.Array, change: TypeChange) -> Converted:
    if change.before.form == Form.VARIANT:
        raise change.refused("a VARIANT doesn't keep how the server prints it")
    return store_text(values, change)


def _member(values: pa.Array, change: TypeChange) -> Converted:
    after = change.after
    if after.collation == BINARY or charset_of(after.collation) in WIDE:
        # A Column does not record its members' set, which may be binary or have wide letters.
        raise change.refused("the character set of the members is not known")
    return store_text(values, change)


def _geometry(values: pa.Array, change: TypeChange) -> Converted:
    """Store geometries as four bytes of SRID, then WKB; the empty value has no bytes."""
    if change.before.form == Form.BYTES:
        return store_raw(values, change)
    wkb = pc.struct_field(values, "wkb")
    numbers = pc.fill_null(pc.struct_field(values, "srid"), 0).to_numpy(zero_copy_only=False)
    data = [None, pa.py_buffer(numbers.astype("<i4"))]
    srid = pa.Array.from_buffers(pa.binary(4), len(values), data).cast(pa.binary())
    raw = pc.binary_join_element_wise(srid, wkb, b"")
    return store_raw(pc.if_else(pc.equal(pc.binary_length(wkb), 0), b"", raw), change)


def _vector(values: pa.Array, change: TypeChange) -> Converted:
    """Store vectors as four bytes of each float."""
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    edges = np.concatenate(([0], np.cumsum(sizes * 4))).astype(np.int32)
    data = np.asarray(values.flatten(), "<f4")
    validity = None if values.null_count == 0 else values.is_valid().buffers()[1]
    buffers = [validity, pa.py_buffer(edges), pa.py_buffer(np.ascontiguousarray(data))]
    return store_raw(pa.Array.from_buffers(pa.binary(), len(values), buffers), change)


AS_TEXT: dict[TypeFamily, Callable[[pa.Array, TypeChange], Converted]] = {
    TypeFamily.INTEGER: _store_number,
    TypeFamily.DECIMAL: _store_number,
    TypeFamily.REAL: _store_number,
    TypeFamily.YEAR: _store_number,
    TypeFamily.BIT: _store_number,
    TypeFamily.TEXT: store_text,
    TypeFamily.BYTES: store_raw,
    TypeFamily.ENUM: _member,
    TypeFamily.SET: _member,
    TypeFamily.DATE: _moment,
    TypeFamily.DATETIME: _moment,
    TypeFamily.TIMESTAMP: _moment,
    TypeFamily.TIME: _time,
    TypeFamily.JSON: _json,
    TypeFamily.GEOMETRY: _geometry,
    TypeFamily.VECTOR: _vector,
}
