"""Generated columns and defaults that are expressions: what a server has in rows that are there,
beside what ``ddl.expressions`` computes of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live.expression_cases import GRID, Composer, grid
from tests.support.live.expression_grid import ExpressionGrid
from tests.support.live.schema_load import SchemaLoad
from tests.support.live.server import Server
from tests.support.local_delta import run
from tests.support.own_expressions import Tally

from .test_schema_changes import assert_equal

pytestmark = pytest.mark.live

_SHOWN = 20
STRICT = "STRICT_TRANS_TABLES"
# Of a hundred expressions so many are computed at least; the others stop by name.
COMPUTED_PERCENT = {"numbers": 93, "letters": 90, "moments": 92, "documents": 99, "random": 85}


@pytest.fixture(scope="module")
def connection(shared_server: Server) -> Iterator[Any]:
    opened = shared_server.connect(charset="utf8mb4", use_unicode=False, conv={})
    yield opened
    opened.close()


def assert_right(tally: Tally, cases: int, percent: int) -> None:
    assert not tally.wrong, "\n".join(tally.wrong[:_SHOWN])
    assert tally.computed * 100 >= cases * percent, tally.unknown
    assert tally.computed + sum(tally.unknown.values()) == cases
    assert tally.values > 10 * tally.computed
    assert all(tally.unknown)  # each says why


@pytest.mark.parametrize("name", ["moments", "documents"])
def test_expressions_are_what_the_server_makes_of_them(connection: Any, name: str) -> None:
    cases = grid(name)[1::2]
    assert_right(ExpressionGrid(connection).compare(cases), len(cases), COMPUTED_PERCENT[name])


@pytest.mark.parametrize("name", ["numbers", "letters"])
def test_a_sample_of_expressions_has_the_servers_values(connection: Any, name: str) -> None:
    cases = grid(name)[3::20]  # most are others than unit/expressions/test_evaluation_recorded has
    assert_right(ExpressionGrid(connection).compare(cases), len(cases), COMPUTED_PERCENT[name])


@pytest.mark.parametrize("modes", ["", STRICT])
def test_composed_expressions_have_the_servers_values(connection: Any, modes: str) -> None:
    composer = Composer(int(os.environ.get("SPARK_REPL_SEED", "1")))
    cases = [composer.case() for _ in range(100)]
    tally = ExpressionGrid(connection, modes).compare(cases)
    assert_right(tally, len(cases), COMPUTED_PERCENT["random"])


@pytest.mark.soak
@pytest.mark.parametrize("name", GRID)
@pytest.mark.parametrize("modes", ["", STRICT])
def test_the_whole_grids_of_expressions_have_the_servers_values(
    connection: Any, name: str, modes: str
) -> None:
    cases = grid(name)
    tally = ExpressionGrid(connection, modes).compare(cases)
    assert_right(tally, len(cases), COMPUTED_PERCENT[name])


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(101, 111))
def test_many_composed_expressions_have_the_servers_values(connection: Any, seed: int) -> None:
    composer = Composer(seed)
    cases = [composer.case() for _ in range(1000)]
    tally = ExpressionGrid(connection).compare(cases)
    assert_right(tally, len(cases), COMPUTED_PERCENT["random"])


STATEMENTS = [
    "ALTER TABLE t ADD g INT AS (n * 2) STORED, ADD v INT AS (g + 1) VIRTUAL",
    "INSERT INTO t (id, n, s, d) VALUES (10, 5, 'later', '2024-01-31')",
    "ALTER TABLE t ADD w VARCHAR(40) NOT NULL DEFAULT (CONCAT(IFNULL(s, 'none'), '-', v))",
    "UPDATE t SET n = n + 1 WHERE id < 3",
    "ALTER TABLE t MODIFY n BIGINT NOT NULL, ADD m DATE AS (d + INTERVAL 1 MONTH)",
    "ALTER TABLE t MODIFY g BIGINT AS (n * 3) STORED",
    "DELETE FROM t WHERE id = 2",
    "ALTER TABLE t CHANGE w words CHAR(30)",
    "ALTER TABLE t ADD y SMALLINT AS (n * 20000) VIRTUAL, DROP COLUMN v",
    "ALTER TABLE t DROP COLUMN y",
    "ALTER TABLE t ADD u DECIMAL(12,4) AS (n / 7) STORED AFTER id",
    "ALTER TABLE t CONVERT TO CHARACTER SET latin1, ADD c INT AS (LENGTH(words))",
    "INSERT INTO t (id, n, s, words) VALUES (11, 0, 'ö', 'x')",
]


@pytest.mark.parametrize("mapping", [True, False])
def test_a_log_with_expressions_ends_as_on_the_server(
    shared_server: Server, tmp_path: Path, mapping: bool
) -> None:
    shared_server.query("RESET BINARY LOGS AND GTIDS", "DROP DATABASE IF EXISTS d")
    load = SchemaLoad(shared_server, 1)
    load.tables["t"] = {}
    try:
        load.say("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, s VARCHAR(20), d DATE)")
        load.say("INSERT INTO t VALUES (1, 3, 'é', '2024-01-31'), (2, -4, NULL, NULL)")
        for statement in STATEMENTS:
            load.say(statement)
    finally:
        load.close()
    log, target = tmp_path / "log", tmp_path / "lake"
    log.mkdir()
    for path in shared_server.data.glob("binlog.0*"):
        shutil.copy(path, log)
    assert run(log, target, group_max_transactions=1, keys={"column_mapping": mapping})
    assert assert_equal(target, load.states) > len(STATEMENTS)
