"""Equal values: values that differ in the log and are equal in the target.

The server distinguishes rows by their bytes, but the target has one text for both: JSON documents
with another layout, characters that a character set has twice, an ENUM's invalid value and an empty
literal, dates that become NULL. In a table without a key such rows are folded by value. In a key
only the form that the server itself writes for the text is accepted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import DecodeError
from ...tables.column import BINARY, CHARACTER_TYPES, DATE_TYPES, Column, ColumnType, Form
from ..charsets.charset import charset_of
from ..types.text_values import gather

if TYPE_CHECKING:
    from ...tables.source_table import SourceTable
    from ..kernels.jit import Ints
    from ..types.column_values import Values
    from ..types.forms import Forms

_T = ColumnType
# Each set that has characters twice -> patterns of a character, and of the forms that the server
# does not write. Compared with the server, which treats both forms as different keys.
_TWO, _THREE = rb"[\x81-\x9f\xe0-\xfc].|.", rb"\x8f..|[\x8e\xa1-\xfe].|."
_ROW_13 = rb"\xad[\xf0-\xf2\xf5-\xf7\xfa-\xfc]|\x8f\xa2\xf1|\x8f\xf3[\xfd\xfe]|\x8f\xf4[\xa1-\xa8]"
_SECOND = {
    "armscii8": (rb".", rb"[\xa4\xa5\xa9\xab\xac\xff]"),
    "cp932": (_TWO, rb"[\xed\xee].|\x87[\x90-\x92\x95-\x97\x9a-\x9c]|\xfa[\x4a-\x54\x58-\x5b]"),
    "eucjpms": (_THREE, _ROW_13 + rb"|\x8f\xf4[\xab-\xad]|\x8f\xa2\xb7"),
    "sjis": (_TWO, rb"\x5c"),
    "ujis": (_THREE, rb"\xa1\xc0|\x8f\xa2\xb7"),
}
_PATTERNS = {
    name: (re.compile(character, re.DOTALL), re.compile(second, re.DOTALL))
    for name, (character, second) in _SECOND.items()
}
_HINT = (
    "the server tells it from the other form of the same text, the target can't: convert the column"
    " to utf8mb4 on the source, or update the row with the text itself"
)


def has_equal_values(definition: SourceTable, forms: Forms) -> bool:
    """Return whether two rows of the table may differ in the log but be equal in the target."""
    return any(_has_equal_values(column, forms) for column in definition.columns)


def _has_equal_values(column: Column, forms: Forms) -> bool:
    if column.type == _T.JSON:
        return True
    if column.type in (_T.ENUM, _T.SET):
        return _repeats(column)
    if forms.text_errors == "replace" and column.type in CHARACTER_TYPES:
        return column.collation != BINARY
    if column.type in DATE_TYPES:
        return forms.zero_dates == "null" and column.form != Form.TEXT
    return has_second_forms(column)


def has_second_forms(column: Column) -> bool:
    """Return whether the column's character set contains characters twice."""
    return _charset(column) in _SECOND


def _repeats(column: Column) -> bool:
    """Return whether an ENUM or SET has two values with the same text. The value without literals
    has the empty text."""
    return len({"", *column.literals}) <= len(column.literals)


def _charset(column: Column) -> str:
    if column.type not in CHARACTER_TYPES or column.collation == BINARY:
        return ""
    return charset_of(column.collation)


def refuse_second_forms(column: Column, values: Values) -> None:
    """Raise DecodeError if a key column has a value for whose text the server itself writes other
    bytes."""
    if column.type in (_T.ENUM, _T.SET):
        if _repeats(column):
            _refuse_numbers(column, values.little_endian(), values.length >= 0)
        return
    charset = _charset(column)
    if charset not in _PATTERNS:
        return
    encoded = gather(values, pa.binary()).dictionary_encode()
    for number, value in enumerate(encoded.dictionary.to_pylist()):
        if second := second_form(value, charset):
            row = int(np.argmax(encoded.indices.fill_null(-1).to_numpy() == number))
            raise DecodeError(
                f"a key has a character in a form, {second.hex()}, that {charset} has twice",
                hint=_HINT,
            ).of_row(row)


def second_form(value: bytes, charset: str) -> bytes | None:
    """Return the first character of ``value`` that is not in the form that the server prefers, or
    None."""
    character, second = _PATTERNS[charset]
    if not second.search(value):  # a match need not begin at a character
        return None
    return next((c for c in character.findall(value) if second.fullmatch(c)), None)


def _refuse_numbers(column: Column, numbers: Ints, valid: np.ndarray) -> None:
    server = _server_enum if column.type == _T.ENUM else _server_set
    for number in np.unique(numbers[valid]).tolist():
        if server(column.literals, number) != number:
            row = int(np.argmax(valid & (numbers == number)))
            raise DecodeError(
                f"a key has the value {number} of {column.type_name}, whose text another has too",
                hint=_HINT,
            ).of_row(row)


def _server_enum(literals: tuple[str, ...], number: int) -> int:
    """Return the number that the server assigns to the text of an ENUM's number."""
    text = literals[number - 1] if 0 < number <= len(literals) else ""
    return literals.index(text) + 1 if text in literals else 0


def _server_set(literals: tuple[str, ...], number: int) -> int:
    """Return the number that the server assigns to the text of a SET's number."""
    members = [name for i, name in enumerate(literals) if number >> i & 1]
    if members == [""]:
        return 0
    return sum(1 << literals.index(name) for name in set(members))
