"""A table's end state by its binary log, and by the server itself, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spark_repl.binlog.rows.change_bits import MOVED
from spark_repl.binlog.rows.partial_rows import PartialImages
from spark_repl.binlog.rows.walk import walk
from spark_repl.binlog.types.forms import USUAL, Forms
from spark_repl.tables.column import ColumnType
from spark_repl.tables.source_table import SourceTable
from tests.support.decoder_log import printed, read_log
from tests.support.live.decoder_server import Server

Rows = list[list[Any]]
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector")
_SHAPES = ("geometry", "point", "linestring")


def server_rows(cursor: Any, database: str, table: str) -> Rows:
    """Every row, values as the server prints them, binary in upper-case hex, floats as numbers."""
    cursor.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s"
        " AND table_name = %s ORDER BY ordinal_position",
        (database, table),
    )
    columns = [(f"`{name}`", kind) for name, kind in cursor.fetchall()]
    parts = []
    for name, kind in columns:
        form = "HEX({})" if kind in (*_BINARY, *_SHAPES) else "{}"
        form = {"float": "{} + 0e0", "bit": "HEX(CAST({} AS binary))"}.get(kind, form)
        parts.append(form.format(name))
    cursor.execute(f"SELECT {', '.join(parts)} FROM {database}.{table}")
    real = [kind in ("float", "double") for _, kind in columns]
    return sorted((_numbers(row, real) for row in cursor.fetchall()), key=repr)


def _numbers(row: Any, real: list[bool]) -> list[Any]:
    return [float(v) if f and v is not None else v for v, f in zip(row, real, strict=True)]


def replay(server: Server, name: str, forms: Forms = USUAL) -> Rows:
    """The rows of ``name`` after its changes in all logs, laid over each other by the key."""
    return replay_logs(server.logs(), name, forms)


def replay_logs(
    paths: list[Path],
    name: str,
    forms: Forms = USUAL,
    known: Mapping[str, SourceTable] | None = None,
) -> Rows:
    state: dict[Any, list[Any]] = {}
    for path in paths:
        args = *read_log(path, compressed=False), True
        for images in walk(*args, pairs=True, forms=forms, definitions=known):
            if images.definition.name == name:
                _apply(images, state)
    return sorted(state.values(), key=repr)


def _apply(images: Any, state: dict[Any, list[Any]]) -> None:
    definition = images.definition
    entries = np.arange(len(images.flags))
    rows = printed(images.decode(entries), definition)
    held = images.presence(entries)[0].to_pylist() if isinstance(images, PartialImages) else None
    real = [c.type in (ColumnType.FLOAT, ColumnType.DOUBLE) for c in definition.columns]
    old: list[Any] = []
    for i, flags in enumerate(images.flags):
        row = _numbers(rows[i], real)
        key = tuple(row[at] for at in definition.primary_key)
        if flags & 1:
            old = state.pop(key)
            continue
        if held is not None and flags & MOVED:
            row = [
                value if held[i][c >> 3] >> (c & 7) & 1 else old[c] for c, value in enumerate(row)
            ]
        state[key] = row
