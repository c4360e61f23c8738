"""Logs of other versions of MySQL, every type: the decoder's end state is the server's."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from spark_repl.alter.schema_history import SchemaHistory
from spark_repl.binlog.event_types import EventType
from spark_repl.binlog.events.event import parse_query
from spark_repl.tables.column import ColumnType
from tests.support.live.replay import replay_logs

SERVERS = Path(__file__).parents[3] / "fixtures" / "servers"


def history(data: bytes) -> SchemaHistory:
    """After all CREATE TABLEs of a file with checksums."""
    found, at = SchemaHistory(), 4
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 9)[0]
        if data[at + 4] == EventType.QUERY:
            query = parse_query(data[at + 19 : at + size - 4])
            if query.statement.startswith(b"CREATE TABLE"):
                found.see(query)
        at += size
    return found


@pytest.mark.parametrize("version", ["5.7.22", "8.0.15"])
def test_end_state_is_the_servers(version: str) -> None:
    path = SERVERS / version / "binlog.000001"
    definitions = history(path.read_bytes()).definitions
    for name, want in json.loads((path.parent / "expected.json").read_text()).items():
        found = replay_logs([path], f"old.{name}", known=definitions)
        json_columns = [
            i for i, c in enumerate(definitions[f"old.{name}"].columns) if c.type == ColumnType.JSON
        ]
        assert len(found) > 8
        if json_columns and version < "8":
            # 5.7 prints 1 where servers since 8.0 print 1.0.
            found, want = (_parsed(rows, json_columns) for rows in (found, want))
        assert found == want, name


def _parsed(rows: list[list[Any]], columns: list[int]) -> list[list[Any]]:
    for row in rows:
        for i in columns:
            row[i] = row[i] and json.loads(row[i])
    return sorted(rows, key=lambda row: int(row[0]))
