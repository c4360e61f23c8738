"""A table, and what ALTER TABLE makes of it."""

from __future__ import annotations

from dataclasses import replace

from spark_repl.alter.alteration import Altered
from spark_repl.alter.apply_alter import alter
from spark_repl.sql.classify import Effect, classify, classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.table_definition import TableDefinition

SESSION = Session("d", charsets={"d": "utf8mb4_0900_ai_ci"}, explicit_timestamps=True)
BASE = "id INT PRIMARY KEY, a VARCHAR(10) CHARSET latin1, b TEXT CHARSET latin1, c INT NOT NULL"


def table(elements: str = BASE, options: str = "") -> TableDefinition:
    found = classify_in(f"CREATE TABLE t ({elements}) {options}", SESSION).definition
    assert found is not None
    return found


def altered(actions: str, before: TableDefinition | None = None, **session: object) -> Altered:
    statement = classify(f"ALTER TABLE t {actions}", "d")
    assert statement.effect is not Effect.UNSUPPORTED, statement.reason
    return alter(before or table(), statement, replace(SESSION, **session))  # type: ignore[arg-type]
