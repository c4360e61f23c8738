"""The server's own end state, and whether the Delta tables have it, value for value.

A file ``<db>.<table>.jsonl`` holds the columns and the key in its first line and then a JSON array
per row, values as the server prints them, binary ones as upper-case hex.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame


def expected_tables(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]], list[Any]]]:
    """(db.table, columns, rows) of each file of a folder."""
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        yield path.name.removesuffix(".jsonl"), lines[0]["columns"], lines[1:]


def differences(table: DataFrame, columns: list[dict[str, Any]], rows: list[Any]) -> list[str]:
    """Rows that only one side has, as text; empty when both are equal. The order doesn't count."""
    names = [column["name"] for column in columns]
    if table.columns != names:
        return [f"columns {table.columns} instead of {names}"]
    want = Counter(json.dumps(row) for row in rows)
    got = Counter(
        json.dumps([_text(value, column) for value, column in zip(row, columns, strict=True)])
        for row in table.collect()
    )
    missing = [f"missing {row}" for row in (want - got).elements()]
    return missing + [f"too many {row}" for row in (got - want).elements()]


def _text(value: Any, column: dict[str, Any]) -> str | None:
    """One value as the server prints it."""
    kind = column["column_type"]
    if value is None:
        return None
    if isinstance(value, bool):
        return f"{int(value):02X}" if column.get("encoding") == "hex" else str(int(value))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex().upper()
    if isinstance(value, datetime):
        digits = int(kind.partition("(")[2].rstrip(")") or 0)
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        return f"{value.year:04d}{text[text.index('-') :]}" + (
            f".{value.microsecond:06d}"[: digits + 1] if digits else ""
        )
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)
