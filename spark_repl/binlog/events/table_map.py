"""parse_table_map: the body of a TABLE_MAP event -> SourceTable.

``binlog.rows.walk`` calls it for each event; results are cached by the event's bytes. With
binlog_row_metadata=FULL the event has everything: names, types, character sets, members of ENUM and
SET, and the primary key. With MINIMAL it lacks the names, the members and the key. These come from
the schema history (``definitions``), which has to agree with the event's types and lengths.

Raises DecodeError for a damaged body, for a table that the schema history lacks or contradicts, and
for a missing character set or member. It never guesses a name or a type. The layout is in the MySQL
source, libs/mysql/binlog/event/rows_event.h (Table_map_event). Design:
docs/design/table-definitions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ...errors import DecodeError
from ...tables.column import CHARACTER_TYPES, NUMERIC_TYPES, Column, ColumnType
from ...tables.source_table import Declared, SourceTable, Unapplied
from ...tables.table_definition import SYSTEM_SCHEMAS
from ...tables.table_name import table_name
from ..charsets.charset import charset_of, replaced_text
from .packed import Packed

_T = ColumnType
# Bytes of metadata per wire type; types not listed have none.
_META_BYTES = {
    _T.FLOAT: 1,
    _T.DOUBLE: 1,
    _T.BLOB: 1,
    _T.JSON: 1,
    _T.GEOMETRY: 1,
    _T.VECTOR: 1,
    _T.TIMESTAMP: 1,
    _T.DATETIME: 1,
    _T.TIME: 1,
    _T.VARCHAR: 2,
    _T.VAR_STRING: 2,
    _T.BIT: 2,
    _T.DECIMAL: 2,
    _T.STRING: 2,
    _T.ENUM: 2,
    _T.SET: 2,
}
_RENEWED: dict[int, int] = {
    _T.TIME_OLD: _T.TIME,
    _T.DATETIME_OLD: _T.DATETIME,
    _T.TIMESTAMP_OLD: _T.TIMESTAMP,
}
# Tags of the optional metadata.
_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET = 1, 2, 3
_COLUMN_NAME, _SET_VALUES, _ENUM_VALUES = 4, 5, 6
_FORGOTTEN = (
    "a statement that was not seen changed the table: set binlog_row_metadata=FULL on the source"
)
_OTHER_SET = "its character set is not utf8mb4, and CREATE TABLE does not name it; or " + _FORGOTTEN
_SIMPLE_KEY, _PREFIX_KEY, _ENUM_DEFAULT_CHARSET, _ENUM_COLUMN_CHARSET, _VISIBILITY = range(8, 13)


def parse_table_map(body: bytes, definitions: Mapping[str, Declared] | None = None) -> SourceTable:
    """Parse ``body``: the event without its 19-byte header and without checksum.

    ``definitions``: by ``database.table``, from the schema history. With
    binlog_row_metadata=MINIMAL the event itself contains no names of columns and no key.

    The result has no columns if ``definitions`` has ``Unapplied.UNREAD`` for the table. If the
    event has no column names, the result also has no columns for a table that is
    ``Unapplied.LEFT_OUT``, and for a table of the server's own schemas that ``definitions`` lacks.

    Raise DecodeError for a body that is truncated or inconsistent, unless the table is left out:
    then the result has no columns. Also raise it for any other event without column names if
    ``definitions`` lacks or contradicts the table.
    """
    return _parsed(body, None if definitions is None else definitions.get(table_of_map(body)))


def table_of_map(body: bytes) -> str:
    """Return ``database.table`` of a TABLE_MAP body."""
    packed = Packed(body, "TABLE_MAP event")
    packed.skip(8)
    return table_name(_name(packed), _name(packed))


@lru_cache(maxsize=4096)
def _parsed(body: bytes, declared: Declared | None) -> SourceTable:
    packed = Packed(body, "TABLE_MAP event")
    packed.skip(8)
    database, table = _name(packed), _name(packed)
    try:
        return _definition(packed, database, table, declared)
    except DecodeError as error:
        if declared is Unapplied.LEFT_OUT:  # unknown: which of its columns change
            return _without_columns(database, table)
        raise error.at(table=table_name(database, table)) from error


def _name(packed: Packed) -> str:
    text = packed.read(packed.number()).decode("utf-8", "replace")
    packed.skip(1)
    return text


def _without_columns(database: str, table: str) -> SourceTable:
    return SourceTable(database, table, (), ())


def _definition(
    packed: Packed, database: str, table: str, declared: Declared | None
) -> SourceTable:
    if declared is Unapplied.UNREAD:
        return _without_columns(database, table)
    count = packed.number()
    wire = packed.read(count)
    metadata = Packed(packed.read(packed.number()), "TABLE_MAP metadata")
    kinds = [_real_type(code, metadata) for code in wire]
    nullable = packed.read((count + 7) // 8)
    fields: dict[int, Packed] = {}
    while packed.left:
        tag = packed.read(1)[0]
        fields[tag] = Packed(packed.read(packed.number()), f"TABLE_MAP field {tag}")
    if _COLUMN_NAME in fields:
        declared = None
    elif declared is Unapplied.LEFT_OUT or (declared is None and database in SYSTEM_SCHEMAS):
        return _without_columns(database, table)
    else:
        _check_known(
            declared, kinds, strict=not fields.keys() & {_DEFAULT_CHARSET, _COLUMN_CHARSET}
        )
    types = [kind for kind, _ in kinds]
    collations = _collations(types, fields, declared)
    unsigned = _bits(fields.get(_SIGNEDNESS), [kind in NUMERIC_TYPES for kind in types], False)
    if declared and _SIGNEDNESS not in fields:
        unsigned = [column.unsigned for column in declared.columns]
    visible = _bits(fields.get(_VISIBILITY), [True] * count, True)
    literals = _literals(types, collations, fields, declared)
    compares = collations
    if declared and not fields.keys() & {_DEFAULT_CHARSET, _COLUMN_CHARSET}:
        compares = [column.compares for column in declared.columns]
    columns = tuple(
        Column(
            name=declared.columns[i].name if declared else _text(fields[_COLUMN_NAME]),
            type=int(kind),
            meta=meta,
            nullable=bool(nullable[i >> 3] >> (i & 7) & 1),
            unsigned=unsigned[i] or kind == ColumnType.YEAR,  # 8.0.15 logs it as signed
            collation=collations[i] if kind in CHARACTER_TYPES else 0,
            literals=literals[i],
            visible=declared.columns[i].visible if declared else visible[i],
            compares=compares[i] if kind in CHARACTER_TYPES else 0,
        )
        for i, (kind, meta) in enumerate(kinds)
    )
    key = declared.primary_key if declared else _primary_key(fields, count)
    return SourceTable(database, table, columns, key)


def _check_known(
    declared: SourceTable | None, kinds: list[tuple[int, int]], *, strict: bool
) -> None:
    """Raise DecodeError unless the schema history agrees with the types and lengths in the event.

    ``strict``: the event contains no character sets, so lengths in bytes must agree as well.
    """
    if declared is None:
        raise DecodeError(
            "the binary log names no columns, and no statement seen so far does",
            hint="set binlog_row_metadata=FULL on the source, then start from a log made since;"
            " or read the log from the table's CREATE TABLE on",
        )
    loose = () if strict else (_T.STRING, _T.VARCHAR, _T.BLOB)
    have = [(c.type, 0 if c.type in loose else c.meta) for c in declared.columns]
    # CREATE TABLE has the type TIME even if an older server created the table in the old format.
    want = [(_RENEWED.get(kind, int(kind)), 0 if kind in loose else meta) for kind, meta in kinds]
    both = _side_by_side(declared, kinds)
    for i, (own, theirs) in enumerate(zip(have, want, strict=False)):
        if own != theirs:
            raise DecodeError(
                f"column {declared.columns[i].name} is {declared.columns[i].type_name} by the"
                f" statements seen so far, but the log has {_printed(*theirs)} in its place:"
                f" {both}",
                hint=_OTHER_SET
                if own[0] == theirs[0] and own[0] in CHARACTER_TYPES
                else _FORGOTTEN,
            )
    if len(have) != len(want):
        raise DecodeError(
            f"the log has {len(want)} columns, the statements seen so far give {len(have)}: {both}",
            hint=_FORGOTTEN,
        )


def _side_by_side(declared: SourceTable, kinds: list[tuple[int, int]]) -> str:
    """Return both definitions as text, each type with the length that the event declares."""
    own = ", ".join(f"{c.name} {_printed(c.type, c.meta)}" for c in declared.columns)
    return f"by statements ({own}), in the log ({', '.join(_printed(*kind) for kind in kinds)})"


def _printed(code: int, meta: int) -> str:
    name = ColumnType(code).name if code in ColumnType.__members__.values() else f"type {code}"
    return f"{name}({meta})" if meta else name


def _real_type(code: int, metadata: Packed) -> tuple[int, int]:
    """Return (real type, Column.meta) of one column."""
    if code not in ColumnType.__members__.values() or code == _T.TYPED_ARRAY:
        raise DecodeError(
            f"a column has the wire type {code}, which this version does not decode",
            hint="leave the table out of replication, or change the column's type",
        )
    raw = metadata.read(_META_BYTES.get(ColumnType(code), 0))
    kind, meta = _unpack_meta(code, raw)
    if not _plausible(kind, meta):
        raise DecodeError(
            f"a column of type {ColumnType(kind).name} has the metadata {raw.hex()}",
            hint="the log is damaged here: fetch it again, or check it with mysqlbinlog",
        )
    return kind, meta


def _unpack_meta(code: int, raw: bytes) -> tuple[int, int]:
    if code in (_T.VARCHAR, _T.VAR_STRING):
        return code, int.from_bytes(raw, "little")
    if code == _T.BIT:
        return code, raw[0] + 8 * raw[1]
    if code == _T.DECIMAL:
        return code, raw[0] << 8 | raw[1]
    if code not in (_T.STRING, _T.ENUM, _T.SET):
        return code, raw[0] if raw else 0
    if raw[0] in (_T.ENUM, _T.SET):
        return raw[0], raw[1]
    # The two high bits of a length above 255 are stored, inverted, in the type's byte.
    if raw[0] & 0x30 != 0x30:
        return _T.STRING, raw[1] | (raw[0] & 0x30 ^ 0x30) << 4
    return _T.STRING, raw[1]


def _plausible(kind: int, meta: int) -> bool:
    if kind in (_T.TIME, _T.DATETIME, _T.TIMESTAMP):
        return meta <= 6
    if kind == _T.DECIMAL:
        return 1 <= meta >> 8 <= 65 and meta & 255 <= min(30, meta >> 8)
    if kind == _T.BIT:
        return 1 <= meta <= 64
    if kind in (_T.BLOB, _T.JSON, _T.GEOMETRY, _T.VECTOR):
        return 1 <= meta <= 4
    if kind in (_T.ENUM, _T.SET):
        return 1 <= meta <= (2 if kind == _T.ENUM else 8)
    return True


def _bits(field: Packed | None, has_bit: list[bool], absent: bool) -> list[bool]:
    """Return one bit, highest first, for each column that has one; ``absent`` for the others."""
    if field is None:
        return [absent] * len(has_bit)
    raw = field.read((sum(has_bit) + 7) // 8)
    ordinals = iter(range(len(has_bit)))
    return [
        bool(raw[(n := next(ordinals)) >> 3] >> (7 - n & 7) & 1) if has else absent
        for has in has_bit
    ]


def _collations(
    types: list[int], fields: dict[int, Packed], declared: SourceTable | None
) -> list[int]:
    """Return the collation id of each column, 0 if its type has none. Raise DecodeError if neither
    the event nor the schema history has it."""
    collations = [0] * len(types)
    texts = [i for i, kind in enumerate(types) if kind in CHARACTER_TYPES or kind == _T.VECTOR]
    lists = [i for i, kind in enumerate(types) if kind in (_T.ENUM, _T.SET)]
    for columns, default, each in (
        (texts, _DEFAULT_CHARSET, _COLUMN_CHARSET),
        (lists, _ENUM_DEFAULT_CHARSET, _ENUM_COLUMN_CHARSET),
    ):
        if not columns:
            continue
        if each in fields:
            for column in columns:
                collations[column] = fields[each].number()
        elif default in fields:
            packed = fields[default]
            common = packed.number()
            for column in columns:
                collations[column] = common
            while packed.left:
                ordinal, collation = packed.number(), packed.number()
                if ordinal >= len(columns):
                    raise DecodeError(f"character set of column {ordinal} of {len(columns)}")
                collations[columns[ordinal]] = collation
        elif declared:
            for column in columns:
                collations[column] = declared.columns[column].collation
        else:
            raise DecodeError(
                "the binary log does not say the columns' character sets",
                hint="set binlog_row_metadata=FULL on the source; it must be MySQL 8.0 or newer",
            )
    return collations


def _literals(
    types: list[int],
    collations: list[int],
    fields: dict[int, Packed],
    declared: SourceTable | None,
) -> list[tuple[str, ...]]:
    """Return the ENUM and SET literals of each column, in Unicode. Raise DecodeError if neither the
    event nor the schema history has them."""
    if declared:
        return [column.literals for column in declared.columns]
    literals: list[tuple[str, ...]] = [()] * len(types)
    for kind, tag in ((_T.ENUM, _ENUM_VALUES), (_T.SET, _SET_VALUES)):
        columns = [i for i, other in enumerate(types) if other == kind]
        if columns and tag not in fields:
            raise DecodeError(
                "the binary log does not name the values of ENUM and SET columns",
                hint="set binlog_row_metadata=FULL on the source, then start from a newer log",
            )
        for column in columns:
            packed, charset = fields[tag], charset_of(collations[column])
            values = (packed.read(packed.number()) for _ in range(packed.number()))
            literals[column] = tuple(_literal(value, charset) for value in values)
    return literals


def _literal(value: bytes, charset: str) -> str:
    """Return a member's text. Read bytes as UTF-8, as a client displays them. Replace bytes without
    a character by U+FFFD: only values that have such a member are refused."""
    return replaced_text(value, "utf8mb4" if charset == "binary" else charset)


def _text(packed: Packed) -> str:
    return packed.read(packed.number()).decode("utf-8", "replace")


def _primary_key(fields: dict[int, Packed], count: int) -> tuple[int, ...]:
    key = []
    if _SIMPLE_KEY in fields:
        while fields[_SIMPLE_KEY].left:
            key.append(fields[_SIMPLE_KEY].number())
    elif _PREFIX_KEY in fields:
        while fields[_PREFIX_KEY].left:
            key.append(fields[_PREFIX_KEY].number())
            fields[_PREFIX_KEY].number()
    if any(column >= count for column in key):
        raise DecodeError(f"primary key {key} of a table of {count} columns")
    return tuple(key)
