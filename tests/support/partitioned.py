"""Tables that are partitioned, as their statements make them."""

from __future__ import annotations

from spark_repl.alter.alteration import Altered
from spark_repl.alter.apply_alter import alter
from spark_repl.sql.classify import Effect, classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.partitioning import Partitioning
from spark_repl.tables.source_table import SourceTable

SESSION = Session(
    "d", time_zone="+02:00", charsets={"d": "utf8mb4_0900_ai_ci"}, explicit_timestamps=True
)
LADDER = (
    "RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION B VALUES LESS THAN (20),"
    " PARTITION c VALUES LESS THAN MAXVALUE)"
)
COLUMNS = (
    "id INT, big BIGINT UNSIGNED, d DATE, m DATETIME(3), ts TIMESTAMP NOT NULL, c VARCHAR(9),"
    " n DECIMAL(9,2), e ENUM('a'), u INT UNSIGNED"
)


def made(partition_by: str, session: Session = SESSION) -> SourceTable:
    statement = classify_in(f"CREATE TABLE t ({COLUMNS}) PARTITION BY {partition_by}", session)
    assert statement.definition is not None, statement.reason
    return statement.definition


def parted(partition_by: str, session: Session = SESSION) -> Partitioning:
    found = made(partition_by, session).partitioning
    assert found is not None
    return found


def altered(before: SourceTable, actions: str) -> Altered[SourceTable]:
    statement = classify_in(f"ALTER TABLE t {actions}", SESSION)
    assert statement.effect is not Effect.UNSUPPORTED, statement.reason
    return alter(before, statement, SESSION)
