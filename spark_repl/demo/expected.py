"""Expected tables: comparison of Delta tables with the server's final rows, value by value.

A file ``<db>.<table>.jsonl`` holds the columns and the key in its first line, and then a JSON array
per row. Values are as the server prints them, binary values as upper-case hex.
"""

from __future__ import annotations

import errno
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any


def expected_tables(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]], list[Any]]]:
    """Yield (db.table, columns, rows) of each file of a folder. Raise FileNotFoundError if there
    are no files, because nothing would be compared."""
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise FileNotFoundError(errno.ENOENT, "no expected tables", str(folder))
    for path in paths:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        yield path.name.removesuffix(".jsonl"), lines[0]["columns"], lines[1:]


def differences(
    names: Sequence[str],
    got: Iterable[Sequence[Any]],
    columns: list[dict[str, Any]],
    rows: list[Any],
) -> list[str]:
    """Return the rows that only one side has, as text; none if both are equal in any order.

    ``names`` and ``got`` were read from the table (rows of Python values); ``columns`` and ``rows``
    are the server's.
    """
    wanted = [column["name"] for column in columns]
    if list(names) != wanted:
        return [f"columns {list(names)} instead of {wanted}"]
    want = Counter(json.dumps(row) for row in rows)
    have = Counter(
        json.dumps([server_text(value, column) for value, column in zip(row, columns, strict=True)])
        for row in got
    )
    missing = [f"missing {row}" for row in (want - have).elements()]
    return missing + [f"too many {row}" for row in (have - want).elements()]


def server_text(value: Any, column: dict[str, Any]) -> str | None:
    """Return a value as the server prints it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return f"{int(value):02X}" if column.get("encoding") == "hex" else str(int(value))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex().upper()
    if isinstance(value, datetime):
        digits = int(column["column_type"].partition("(")[2].rstrip(")") or 0)
        text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return text[: 20 + digits] if digits else text[:19]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)
