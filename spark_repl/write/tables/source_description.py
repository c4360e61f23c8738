"""Source description: what MySQL declares about a table, in the metadata of its Delta table.

Readers of the Delta table, and catalogs, see comments, types and keys without the source. Comments
are Delta's own. Other declarations are properties of the table, and metadata of its columns, whose
names begin with ``mysql.``. Readers that do not know them ignore them.

Invariant: a comment changes only when MySQL's comment changes, so a comment that a user has given
the Delta table stays. Design: docs/design/catalogs.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...delta.log.table_snapshot import NewTable
from ...relay.source_places import SourcePlace
from ...sql.new_columns import characters
from ...tables.column import BINARY, CHARACTER_TYPES, Column, ColumnType
from ...tables.table_name import database_of
from .table_metadata import created

if TYPE_CHECKING:
    from ...delta.log.stamp import Stamp
    from ...delta.log.table_snapshot import Snapshot
    from ...tables.target_table import TargetTable

KEY = "mysql.primary_key"
"""property: the names of the PRIMARY KEY's columns, a JSON list"""
DATABASE = "mysql.database"
"""property: the database in which the source created the table; RENAME TABLE does not change it"""
EXECUTED, POSITION = "mysql.gtid_executed", "mysql.position"
"""properties: the source's state when the table got its definition"""
COPY_START = "copy_start"
"""field of a first copy's commit: the source's gtid_executed before the copy read any row"""
TYPE, GENERATED = "mysql.type", "mysql.generated"
"""metadata of a column"""
_T = ColumnType
_NAMES = {
    _T.TINY: "tinyint", _T.SHORT: "smallint", _T.INT24: "mediumint", _T.LONG: "int",
    _T.LONGLONG: "bigint", _T.FLOAT: "float", _T.DOUBLE: "double", _T.DECIMAL: "decimal",
    _T.DECIMAL_OLD: "decimal", _T.DATE: "date", _T.TIME: "time", _T.TIME_OLD: "time",
    _T.DATETIME: "datetime", _T.DATETIME_OLD: "datetime", _T.TIMESTAMP: "timestamp",
    _T.TIMESTAMP_OLD: "timestamp", _T.YEAR: "year", _T.BIT: "bit", _T.JSON: "json",
    _T.GEOMETRY: "geometry", _T.VECTOR: "vector", _T.ENUM: "enum", _T.SET: "set",
}  # fmt: skip
_SIZES = {1: "tiny", 2: "", 3: "medium", 4: "long"}


def described(
    new: NewTable,
    definition: TargetTable,
    before: TargetTable | None = None,
    numbers: Sequence[int | None] = (),
) -> NewTable:
    """Return a table's metadata with the declarations of its ``definition``, whose columns are
    those of ``new``. ``before``: the definition before ALTER TABLE; ``numbers`` [columns]: the
    number of the column before it whose metadata the column has, None for new metadata."""
    schema = json.loads(new.schema_string)
    earlier = [before.columns[n] if before and n is not None else None for n in numbers]
    for field, column, old in zip(
        schema["fields"], definition.columns, earlier or [None] * len(definition.columns),
        strict=True,
    ):  # fmt: skip
        metadata = field["metadata"] | _declared(column)
        if column.comment != (old.comment if old else ""):
            metadata["comment"] = column.comment
        field["metadata"] = {name: value for name, value in metadata.items() if value != ""}
    same = definition.comment == (before.comment if before else "")
    configuration = {k: v for k, v in new.configuration.items() if k != KEY}
    # RENAME TABLE may have given a table another database: ``completed`` adds the first one.
    database = {} if before else _database(definition)
    return replace(
        new,
        schema_string=json.dumps(schema),
        configuration=database | configuration | _key(definition),
        comment=None if same else definition.comment,
    )


def completed(snapshot: Snapshot, definition: TargetTable) -> NewTable | None:
    """Return the metadata of a table that an earlier version of spark_repl created, with the
    declarations that it lacks. Return None if it lacks none, or cannot get them. Comments stay as
    they are: earlier versions did not record those of MySQL."""
    if definition.is_shard or snapshot.is_managed or DATABASE in snapshot.configuration:
        return None
    schema = snapshot.schema_string
    # RENAME TABLE may have given the table another database since its creation.
    configuration = snapshot.configuration | _database(created(snapshot))
    old = NewTable(schema, configuration, snapshot.partition_columns)
    if f'"{TYPE}"' in schema:
        return old
    names = [field["name"] for field in json.loads(schema)["fields"]]
    if names != [column.name for column in definition.columns]:
        return None  # another writer has added columns
    return described(old, definition, definition, range(len(names)))


def declares_alike(before: TargetTable, after: TargetTable) -> bool:
    """Return whether both definitions, which have the same columns, have the same declarations. A
    Delta table of shards keeps those of its first shard."""
    return before.is_shard or _declarations(before) == _declarations(after)


def at_place(new: NewTable, stamp: Stamp) -> NewTable:
    """Return a table's metadata with the source's state when it gets its definition, as the
    commit's ``stamp`` has it. The commit of a first copy has no position."""
    commit = json.loads(stamp.user_metadata or "{}")
    place = SourcePlace.of(commit.get("source", {}))
    executed = commit.get("gtid_executed") or commit.get(COPY_START, "")
    own = {EXECUTED: executed, POSITION: str(place or "")}
    configuration = {k: v for k, v in new.configuration.items() if k not in own}
    return replace(new, configuration=configuration | {k: v for k, v in own.items() if v})


def _declarations(table: TargetTable) -> object:
    columns = [(column.comment, _declared(column)) for column in table.columns]
    return table.comment, _key(table), columns


def _key(table: TargetTable) -> dict[str, str]:
    key = table.source_key
    if table.is_shard or not key or table.has_primary is False:
        return {}
    names = [table.columns[number].name for number in key]
    return {KEY: json.dumps(names, ensure_ascii=False)}


def _database(table: TargetTable) -> dict[str, str]:
    return {} if table.is_shard else {DATABASE: database_of(table.name_on_source)}


def _declared(column: Column) -> dict[str, str]:
    """Return a column's metadata, '' for none. A masked column has none: its type may list
    values."""
    if column.mask or column.extra:
        return {TYPE: "", GENERATED: ""}
    return {TYPE: type_text(column.as_logged), GENERATED: column.as_logged.generated}


def type_text(column: Column) -> str:
    """Return the type as COLUMN_TYPE of information_schema has it, without the display width of
    integers and the subtype of GEOMETRY, which definitions lack. Return '' if it is not known."""
    kind, detail = ColumnType(column.type), (column.detail or "").replace("ZEROFILL", "").strip()
    if kind in CHARACTER_TYPES:
        return _text_type(column)
    name = _NAMES.get(kind, "")
    if kind in (_T.ENUM, _T.SET):
        if not column.literals:  # as in a TABLE_MAP event with minimal metadata
            return ""
        quoted = (f"'{member.replace(chr(39), chr(39) * 2)}'" for member in column.literals)
        return f"{name}({','.join(quoted)})"
    inside = ""
    if kind == _T.DECIMAL:
        inside = f"{column.precision},{column.scale}"
    elif kind in (_T.TIME, _T.DATETIME, _T.TIMESTAMP, _T.BIT):
        inside = str(column.meta or "")
    elif kind in (_T.FLOAT, _T.DOUBLE, _T.VECTOR):
        inside = detail
    name += f"({inside})" if inside else ""
    name += " unsigned" if column.unsigned and kind != _T.YEAR else ""
    return name + (" zerofill" if "ZEROFILL" in (column.detail or "") else "")


def _text_type(column: Column) -> str:
    """Return the type of a column of characters or bytes."""
    is_binary = column.collation == BINARY
    if column.type == _T.BLOB:
        return _SIZES.get(column.meta, "") + ("blob" if is_binary else "text")
    if not column.collation:
        return ""
    name = "binary" if is_binary else "char"
    return f"{'' if column.type == _T.STRING else 'var'}{name}({characters(column)})"
