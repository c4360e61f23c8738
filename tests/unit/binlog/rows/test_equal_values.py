"""Values that differ in the log and are one in the target: which they are, and keys of theirs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from spark_repl.binlog.charsets import charset
from spark_repl.binlog.charsets.charset import to_text
from spark_repl.binlog.rows.equal_values import has_equal_values, refuse_second_forms, second_form
from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import DecodeError
from spark_repl.tables.column import Column, ColumnType
from spark_repl.tables.source_table import SourceTable
from tests.support.json_binary import laid_out

_TWICE = ("armscii8", "cp932", "eucjpms", "sjis", "ujis")
_UTF = ("utf8mb4", "utf8mb3", "utf16", "utf16le", "utf32", "ucs2", "binary")


def column(kind: int, collation: int = 255, literals: tuple[str, ...] = ()) -> Column:
    meta = 1 if kind in (ColumnType.ENUM, ColumnType.SET) else 40
    return Column("k", kind, meta, False, collation=collation, literals=literals)


def values(*found: bytes) -> Values:
    buffer, offset, length = laid_out(found, b"")
    return Values(buffer, offset, length.astype(np.int32))


def characters(name: str) -> Iterator[tuple[bytes, str]]:
    """Every character of one or two bytes, or of three in the sets that have such."""
    high = range(0x80, 0x100)
    found = [(a,) for a in range(0x100)] + list(itertools.product(high, range(0x30, 0x100)))
    if name in ("ujis", "eucjpms"):
        found += [(0x8F, a, b) for a, b in itertools.product(high, high)]
    for codes in found:
        try:
            text = to_text(bytes(codes), name)
        except DecodeError:
            continue
        if len(text) == 1:
            yield bytes(codes), text


@pytest.mark.parametrize("name", sorted(set(charset._COLLATIONS) - set(_UTF)))
def test_a_character_has_one_form_but_for_second_ones(name: str) -> None:
    known = list(characters(name))
    count = Counter(text for _, text in known)
    if name not in _TWICE:
        assert max(count.values()) == 1
        return
    first = Counter(text for data, text in known if second_form(data, name) is None)
    assert first.keys() == count.keys(), "of each a form is left"
    assert max(first.values()) == 1
    needless = {t for data, t in known if second_form(data, name) and count[t] == 1}
    assert not needless


def test_forms_are_looked_for_at_characters() -> None:
    assert second_form(b"a\x87\x90b", "cp932") == b"\x87\x90"
    assert second_form(b"\x81\x87\x90\x81", "cp932") is None
    assert second_form(b"a\\", "sjis") == b"\\" and second_form(b"\x83\\", "sjis") is None


def table(*columns: Column) -> SourceTable:
    return SourceTable("d", "t", columns, ())


@pytest.mark.parametrize(
    ("kind", "collation", "literals", "zero_dates", "want"),
    [
        (ColumnType.LONG, 0, (), "null", False),
        (ColumnType.DOUBLE, 0, (), "null", False),
        (ColumnType.VARCHAR, 255, (), "null", False),
        (ColumnType.VARCHAR, 63, (), "null", False),
        (ColumnType.VARCHAR, 8, (), "null", False),
        (ColumnType.VARCHAR, 95, (), "error", True),
        (ColumnType.JSON, 0, (), "error", True),
        (ColumnType.DATE, 0, (), "error", False),
        (ColumnType.DATETIME, 0, (), "null", True),
        (ColumnType.ENUM, 255, ("a", "b"), "null", False),
        (ColumnType.ENUM, 255, ("a", ""), "error", True),
        (ColumnType.SET, 255, ("a", "a"), "error", True),
    ],
)
def test_tables_with_second_forms_are_recognised(
    kind: int, collation: int, literals: tuple[str, ...], zero_dates: str, want: bool
) -> None:
    found = table(column(ColumnType.LONG), column(kind, collation, literals))
    assert has_equal_values(found, Forms(zero_dates=zero_dates)) is want


@pytest.mark.parametrize(
    ("kind", "literals", "fine", "refused"),
    [
        (ColumnType.ENUM, ("a", "b"), [0, 1, 2], []),
        (ColumnType.ENUM, ("", "a", "a"), [1, 2], [0, 3]),
        (ColumnType.SET, ("", "b", "b"), [0, 2, 3], [1, 4, 6]),
    ],
)
def test_two_members_of_one_text_in_a_key_are_refused(
    kind: int, literals: tuple[str, ...], fine: list[int], refused: list[int]
) -> None:
    """The server's own number of a text is taken."""
    key = column(kind, literals=literals)
    refuse_second_forms(key, values(*(bytes([number]) for number in fine)))
    for number in refused:
        with pytest.raises(DecodeError, match=f"the value {number} of") as caught:
            refuse_second_forms(key, values(*(bytes([n]) for n in (*fine, number))))
        assert caught.value.row == len(fine)


def test_a_second_form_in_a_text_key_is_refused() -> None:
    key = column(ColumnType.VARCHAR, 95)
    refuse_second_forms(key, values(b"\x81\xe0", b"", b"a"))
    with pytest.raises(DecodeError, match="8790, that cp932 has twice") as caught:
        refuse_second_forms(key, values(b"\x81\xe0", b"a\x87\x90"))
    assert caught.value.row == 1 and "utf8mb4" in str(caught.value.hint)
