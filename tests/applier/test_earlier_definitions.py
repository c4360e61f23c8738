"""Definitions that versions have left which did not say what they had assumed of character sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown, run

LATIN = Table("a", (("id", "int"), ("v", "varchar(40) latin1")))


def as_earlier(target: Path, charset: str | None, collation: int) -> None:
    """Turn the table's definition into one of an earlier version: it does not record which
    character sets are assumed, and the table's own is ``charset``, or missing."""
    [commit] = target.glob("t/*/_delta_log/00000000000000000000.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    [metadata] = [line["metaData"] for line in lines if "metaData" in line]
    said = json.loads(metadata["configuration"]["spark_repl.definition"])
    del said["charset"]
    if charset is not None:
        said["charset"] = charset
    for column in said["columns"]:
        del column["assumed"], column["compares"]
        if column["collation"]:
            column["collation"], column["meta"] = collation, 40 * (1 if collation == 9 else 4)
    metadata["configuration"]["spark_repl.definition"] = json.dumps(said)
    commit.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(
    ("charset", "collation"),
    [(None, 255), ("utf8mb4_", 255), ("utf8mb4_0900_ai_ci", 255), ("latin2_general_ci", 9)],
)
@pytest.mark.parametrize(
    ("statements", "want"),
    [
        (["MODIFY v VARBINARY(40)"], [(1, b"\xf1")]),
        (["MODIFY v VARCHAR(20)"], [(1, "ñ")]),
        (["ADD c VARCHAR(9) DEFAULT 'ñ'", "MODIFY c VARBINARY(9)"], [(1, "ñ", b"\xf1")]),
    ],
)
def test_a_table_map_tells_an_earlier_tables_character_set(
    tmp_path: Path, charset: str | None, collation: int, statements: list[str], want: list[Any]
) -> None:
    """Outside of strict mode, too."""
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE TABLE t.a (id INT PRIMARY KEY, v VARCHAR(40))")
    run(log.folder, target)
    as_earlier(target, charset, collation)
    log.transaction(insert(LATIN, (1, b"\xf1")))
    for statement in statements:
        log.ddl(f"ALTER TABLE t.a {statement}")
    run(log.folder, target)
    assert last_shown(target)["t.a"] == want
