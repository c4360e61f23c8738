"""Head of a table at a cut: some of its rows, read by delta-rs without Spark.

The module itself is the process that reads rows for the status page: it reads a request from
standard input, and prints JSON. Its memory is limited.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from ...delta.store.delta_rs_read import opened, read
from ...delta.store.storage import one_line
from ...errors import ConfigError, SparkReplError
from ..records.channels import channel_at
from ..records.shared_tables import shared_shards
from .cut_reader import find_cut, shard_column, table_at

if TYPE_CHECKING:
    from ..table.cut import Cut
    from ..table.layout import Layout

ROWS_MOST, COLUMNS_MOST, TEXT_MOST, BYTES_MOST = 50, 100, 300, 32
"""of a page: rows, columns, characters of a text, bytes of a binary value"""
_CELL_MOST = 60
_MEMORY_BYTES = 4 << 30


def head(layout: Layout, cut: Cut, name: str, rows: int, where: str = "") -> pa.Table:
    """Return at most ``rows`` rows of the table ``name`` (``db.table``) at a cut, in no particular
    order, for which the SQL condition ``where`` is true. If several channels feed the table, return
    only rows of the cut's channel. Raise ConfigError as ``table_at``, and if delta-rs refuses the
    condition."""
    version = table_at(cut, name)
    folder = layout.table(version.path)
    conditions = [f"({where})"] if where else []
    if shards := shared_shards(cut).get(name):
        names = ", ".join("'" + shard.replace("'", "''") + "'" for shard in shards)
        conditions.append(f'"{shard_column(layout, name)}" IN ({names})')
    query = "SELECT * FROM t"
    if conditions:
        query += f" WHERE {' AND '.join(conditions)}"
    try:
        return read(folder, version.version, f"{query} LIMIT {max(0, rows)}")
    except DeltaError as error:
        if not where:
            raise
        with opened(folder, version.version) as table:
            columns = ", ".join(field.name for field in table.schema().fields)
        raise ConfigError(
            f"the condition is refused: {one_line(str(error))}", table=name,
            hint=f"the columns are {columns}; text stands in single quotes",
        ) from error  # fmt: skip


def head_json(request: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns and the first rows of a table, with large values cut off.

    ``request``: target, state_path, channel, table, and at, the cut. Raise what the target raises.
    """
    at = channel_at(request["target"], request["channel"], request["state_path"])
    cut = find_cut(at.control, request["at"])
    rows = head(at.layout, cut, request["table"], ROWS_MOST)
    more = max(rows.num_columns - COLUMNS_MOST, 0)
    rows = rows.select(range(min(rows.num_columns, COLUMNS_MOST)))
    return {
        "table": request["table"],
        "gtid_executed": cut.gtid_executed,
        "at": cut.at and cut.at.isoformat(),
        "columns": [{"name": field.name, "number": _is_number(field)} for field in rows.schema],
        "columns_left_out": more,
        "rows": [[value_json(value) for value in row.values()] for row in rows.to_pylist()],
    }


def _is_number(field: pa.Field) -> bool:
    kinds, kind = pa.types, field.type
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def value_json(value: Any) -> Any:
    """Return a value for the page: None for NULL, text, the begin of a long text with its
    ``length``, or the begin of bytes, as ``hex``, with their number."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return {"hex": value[:BYTES_MOST].hex(), "bytes": len(value)}
    text = _nested_text(value) if isinstance(value, dict | list) else str(value)
    if len(text) > TEXT_MOST:
        return {"text": text[:TEXT_MOST], "length": len(text)}
    return text


def cell(value: Any) -> str:
    """Return a column's value as text of a table on a screen: on one line, and at most 60
    characters."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        text = f"0x{value[:_CELL_MOST].hex()}"  # encode only the part that is shown
    elif isinstance(value, dict | list):
        text = _nested_text(value)
    else:
        text = " ".join(str(value)[: 2 * _CELL_MOST].split("\n"))
    return text if len(text) <= _CELL_MOST else text[: _CELL_MOST - 3] + "..."


def _nested_text(value: Any) -> str:
    """Return a struct, map or list as JSON, with bytes as 0x and hexadecimal digits."""
    return json.dumps(
        value, default=lambda part: f"0x{part.hex()}" if isinstance(part, bytes) else str(part),
        ensure_ascii=False,
    )  # fmt: skip


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        answer = head_json(json.loads(sys.stdin.read()))
    except SparkReplError as error:
        answer = {"error": error.message, "hint": error.hint or ""}
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
