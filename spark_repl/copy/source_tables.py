"""ListedTable: a table of the source to copy: its definition, its size, and its chunks' ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..binlog.charsets.charset import KEY_TEXT_HINT, charset_of, to_text
from ..config.renaming import whole_of
from ..errors import DecodeError, NoTableError, SchemaError, SourceError
from ..rules.renamed_tables import claim
from ..rules.replication_filters import ReplicationFilters
from ..sql.classify import Effect, classify
from ..tables.case_folding import fold, folded_definition
from ..tables.column import BINARY, CHARACTER_TYPES, NUMERIC_TYPES, Column, ColumnType
from ..tables.table_definition import SYSTEM_SCHEMAS
from ..tables.table_name import parts_of, table_name

if TYPE_CHECKING:
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable

Query = Callable[[str], list[tuple[Any, ...]]]
_NO_FILTERS = ReplicationFilters()

_CHUNK_BYTES, _CHUNK_ROWS_MIN, _CHUNK_ROWS_MAX = 48 << 20, 2_000, 400_000
_SYSTEM = ", ".join(f"'{name}'" for name in sorted(SYSTEM_SCHEMAS))
# Types of a first key column, other than numbers and text, that compare with a literal in order.
_TEXT_LITERALS = (ColumnType.DATE, ColumnType.DATETIME, ColumnType.TIMESTAMP, ColumnType.TIME)

_BLOBS = (ColumnType.BLOB, ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR)


@dataclass(frozen=True)
class ListedTable:
    """A table of the source. ``rows`` and ``bytes_per_row`` are the server's estimates."""

    definition: SourceTable
    rows: int
    """estimated number"""
    bytes_per_row: int
    created: str = ""
    """time at which the source created or rebuilt the table (TRUNCATE, most of ALTER TABLE)"""

    @property
    def digest(self) -> str:
        """Return a digest that differs after a statement has changed the table. It may be equal if
        the changes were undone."""
        return sha256(f"{self.definition.to_json()} {self.created}".encode()).hexdigest()[:32]


def needs_view(definition: SourceTable, variables: Mapping[str, str]) -> bool:
    """Return whether the table has to be read as of one moment, because its log can't be applied
    twice.

    Without a key, equal rows can't be distinguished. A row image without all columns, or a JSON
    diff, must be applied to the row's previous version. If the key of a row changes while the table
    is read, the copy may have the row under neither key.
    """
    image = variables.get("binlog_row_image", "FULL").upper()
    types = _types(definition)
    return (
        not definition.primary_key
        or image == "MINIMAL"
        or (image == "NOBLOB" and not types.isdisjoint(_BLOBS))
        or (bool(variables.get("binlog_row_value_options")) and ColumnType.JSON in types)
    )


def refuse_diffs(tables: Sequence[ListedTable], variables: Mapping[str, str]) -> None:
    """Raise SourceError if JSON columns are stored as VARIANT and the source logs JSON diffs."""
    diffs = bool(variables.get("binlog_row_value_options"))
    if diffs and any(ColumnType.JSON in _types(table.definition) for table in tables):
        raise SourceError(
            "the source logs JSON diffs (binlog_row_value_options), which a column kept as VARIANT"
            " (target.json_as) can't have",
            hint="SET PERSIST binlog_row_value_options = ''",
        )


def _types(definition: SourceTable) -> set[int]:
    return {column.type for column in definition.columns}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def full_name(definition: SourceTable) -> str:
    """Return the quoted name of the table in statements on the source."""
    names = parts_of(definition.name_on_source)
    return ".".join(map(quoted, names))


def list_tables(
    query: Query, only: tuple[str, ...] = (), filters: ReplicationFilters = _NO_FILTERS
) -> list[ListedTable]:
    """Return the users' tables that ``filters`` keep, largest first, under their names in the
    target.

    If ``only`` is given, return only these tables, and all shards of a table that it names. Raise
    SchemaError for a table that can't be copied or would get another table's name. Raise
    NoTableError if a table is missing, or is dropped while the source is queried.
    """
    listed = query(
        "SELECT table_schema, table_name, coalesce(table_rows, 0), coalesce(avg_row_length, 0),"
        " create_time"
        " FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        f" AND table_schema NOT IN ({_SYSTEM}) ORDER BY data_length DESC, 1, 2"
    )
    folds = case_of_names(query) > 0  # with 2 they are listed as written, and logged in lower case
    wanted = set(map(fold, only) if folds else only)
    filters = filters.folded() if folds else filters
    logged = [table_name(str(database), str(table)) for database, table, *_ in listed]
    names = kept_names(map(fold, logged) if folds else logged, filters)
    tables = []
    for (database, table, count, width, created), name in zip(listed, names, strict=True):
        if name and (not only or name in wanted or whole_of(name) in wanted):
            definition = table_definition(query, str(database), str(table), name)
            if folds:
                definition = folded_definition(definition)
            if name != definition.name or definition.foreign_keys:
                definition = filters.rewrites.definition(definition)
            tables.append(ListedTable(definition, int(count), int(width), str(created)))
    existing = {table.definition.name for table in tables}
    if missing := wanted - existing - set(map(whole_of, existing)):
        raise NoTableError(
            f"the source has no table {', '.join(sorted(missing))}", table=min(missing),
            hint="give DATABASE.TABLE as the target has it (spark-repl config explain), and to the"
            " account SELECT on it",
        )  # fmt: skip
    return tables


def kept_names(logged: Iterable[str], filters: ReplicationFilters) -> list[str]:
    """Return the names in the target of the source's tables; "" for tables that ``filters`` leave
    out. Raise SchemaError that lists all tables which can't have their name, or would share it."""
    names, origins, faults = list[str](), dict[str, str](), list[SchemaError]()
    for logged_name in logged:
        name = filters.rewrites.table(logged_name)
        names.append(name if filters.keeps(name) else "")
        if not names[-1]:
            continue
        try:
            filters.rewrites.check(logged_name)
            claim(origins, name, logged_name)
        except SchemaError as error:
            faults.append(error)
    if faults:
        raise SchemaError(
            "; ".join(fault.message for fault in faults),
            table=", ".join(fault.table or "" for fault in faults),
            hint=faults[0].hint,
        )
    return names


@contextmanager
def _naming(table: str) -> Iterator[None]:
    """Name the table in a NoTableError: a statement may have dropped the table since."""
    try:
        yield
    except NoTableError as error:
        raise error.at(table=table) from None


def case_of_names(query: Query) -> int:
    """Return the source's lower_case_table_names."""
    return int(query("SELECT @@lower_case_table_names")[0][0])


def table_definition(query: Query, database: str, table: str, name: str = "") -> SourceTable:
    """Return the source's definition of the table that is ``name`` in the target. Raise
    NoTableError, and SchemaError for a definition that the target can't represent."""
    with _naming(name or table_name(database, table)):
        ((_, statement),) = query(f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")
    created = classify(statement, database)
    if created.effect != Effect.CREATE_TABLE or created.definition is None:
        raise SchemaError(
            f"the table's definition is not understood: {created.reason}",
            table=table_name(database, table), hint="leave the table out of the copy",
        )  # fmt: skip
    created.definition.arrow_schema()  # raises for a column whose type has no Arrow type
    return created.definition


def chunk_ends(query: Query, table: ListedTable, target: TargetTable) -> tuple[str, ...]:
    """Return the inclusive upper ends of all chunks but the last, as SQL literals.

    Return () for one chunk, also if the ``target`` must not show values of the key. Raise
    NoTableError if the table no longer exists.
    """
    definition = table.definition
    if not definition.primary_key or target.masks_order:
        return ()
    column = definition.columns[definition.primary_key[0]]
    if column.type not in (*NUMERIC_TYPES, *CHARACTER_TYPES, *_TEXT_LITERALS):
        return ()
    size = _CHUNK_BYTES // max(table.bytes_per_row, 1)
    size = min(max(size, _CHUNK_ROWS_MIN), _CHUNK_ROWS_MAX)
    if table.rows < size:
        return ()
    name, ends, where = quoted(column.name), list[str](), ""
    hexed = f"HEX(CAST({name} AS BINARY))" if _is_text(column) else name
    while True:
        with _naming(definition.name):
            rows = query(
                f"SELECT {hexed} FROM {full_name(definition)} {where} ORDER BY {name}"
                f" LIMIT 1 OFFSET {size}"
            )
        if not rows:
            return tuple(ends)
        end = literal(column, _sent(table, column, rows[0][0]))
        if ends and ends[-1] == end:
            return tuple(ends)  # one value has more rows than a chunk: the rest goes in one
        ends.append(end)
        where = f"WHERE {name} > {end}"


def _is_text(column: Column) -> bool:
    return column.type in CHARACTER_TYPES


def _sent(table: ListedTable, column: Column, value: Any) -> Any:
    """Return a value of a key as ``literal`` takes it, of the bytes that the source has. Raise
    SchemaError for bytes without a character, which no literal finds again."""
    if not _is_text(column) or column.collation == BINARY:
        return value
    try:
        text = to_text(bytes.fromhex(value), charset_of(column.collation))
    except DecodeError as error:
        message = f"column {column.name}: {error.message}"
        raise SchemaError(message, table=table.definition.name, hint=KEY_TEXT_HINT) from None
    return text.encode().hex()


def literal(column: Column, value: Any) -> str:
    """Return an SQL literal; text as hex digits, so that nothing needs quoting. The column's
    collation compares it."""
    if _is_text(column):
        if column.collation == BINARY:
            return f"X'{value}'"
        return f"_utf8mb4 X'{value}'"
    if column.type in NUMERIC_TYPES:
        return str(value)
    return f"'{value}'"


def wheres(column: str, ends: tuple[str, ...]) -> list[str]:
    """Return a WHERE clause per chunk; together they select every row exactly once."""
    if not ends:
        return [""]
    conditions = [f"WHERE {column} <= {ends[0]}"]
    conditions += [f"WHERE {column} > {low} AND {column} <= {high}" for low, high in pairwise(ends)]
    return [*conditions, f"WHERE {column} > {ends[-1]}"]
