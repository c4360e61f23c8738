"""A table, and what ALTER TABLE makes of it."""

from __future__ import annotations

from dataclasses import replace

from spark_repl.alter.alteration import Altered, mirrored
from spark_repl.alter.apply_alter import alter
from spark_repl.sql.classify import Effect, classify, classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.alter.altered_rows import AlteredRows

SESSION = Session("d", charsets={"d": "utf8mb4_0900_ai_ci"}, explicit_timestamps=True)
BASE = "id INT PRIMARY KEY, a VARCHAR(10) CHARSET latin1, b TEXT CHARSET latin1, c INT NOT NULL"


def table(elements: str = BASE, options: str = "") -> SourceTable:
    found = classify_in(f"CREATE TABLE t ({elements}) {options}", SESSION).definition
    assert found is not None
    return found


def altered(
    actions: str, before: SourceTable | None = None, **session: object
) -> Altered[SourceTable]:
    statement = classify(f"ALTER TABLE t {actions}", "d")
    assert statement.effect is not Effect.UNSUPPORTED, statement.reason
    return alter(before or table(), statement, replace(SESSION, **session))  # type: ignore[arg-type]


def altered_rows(
    before: SourceTable, altered: Altered[SourceTable], session: Session
) -> AlteredRows:
    """The rows of a target that mirrors the source's table."""
    return AlteredRows(TargetTable.mirror_of(before), mirrored(altered), session)
