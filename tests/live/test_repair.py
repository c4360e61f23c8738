"""verify --repair beside a running applier: single rows, in order with the log, under load."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_repl import Replica
from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.control.cuts.cut_reader import find_cut
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy.recopy import Recopier
from spark_repl.delta.log.add_actions import live_files
from spark_repl.service.receiving import executed_of
from tests.support.live.receiving import Running, config_for, toml
from tests.support.live.server import Load, Server
from tests.support.written_files import below_relay, below_target

from .test_copy import _catch_up, _copy, _rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000


class Beside(Load):
    """Rows of the repaired table itself change, too: others than those that differ."""

    @staticmethod
    def _transaction(cursor: Any, rng: Any, number: int) -> None:
        Load._transaction(cursor, rng, number)
        if rng.random() < 0.05:
            cursor.execute("UPDATE t.r SET n = n + 1 WHERE id < %s", (rng.randint(2, 50),))


@contextmanager
def following(config: Config, spark: SparkSession) -> Iterator[Replica]:
    with Running(config, executed_of(config)), Replica(spark, config) as replica:
        applying = threading.Thread(target=replica.apply, kwargs={"follow": True})
        applying.start()
        try:
            with Recopier(spark, config, replica):
                yield replica
        finally:
            replica.stop()
            applying.join()


def files(config: Config, name: str) -> tuple[str, set[str]]:
    layout = Layout.of(config.target)
    at = find_cut(Control(layout.control), "latest").tables[name]
    return at.path, set(live_files(layout.table(at.path), at.version) or {})


@pytest.mark.slow
def test_rows_that_were_changed_by_hand(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A value, a row less, one more and one that is left out: these alone are written, and a second
    look finds nothing; also while no applier runs."""
    server = make_server()
    plain = config_for(server, tmp_path, target__on_foreign_change="accept",
                       target__compact_files=1000)  # fmt: skip
    rule = {"match": "t.r", "mask": {"m": "keep_last:2"}, "row_filter": "id <> 77"}
    config = Config.from_mapping({**plain.to_mapping(), "tables": [rule]})
    server.query(
        "CREATE DATABASE t", "CREATE TABLE t.r (id INT PRIMARY KEY, s VARCHAR(40), n INT,"
        " m VARCHAR(9))",
        "SET SESSION cte_max_recursion_depth = 100000",
        "INSERT INTO t.r WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {ROWS}) SELECT i, CONCAT('text ', i), 0, 'secret' FROM n",
    )  # fmt: skip
    file = tmp_path / "my.toml"
    rules = "[[tables]]\nmatch = 't.r'\nmask = { m = 'keep_last:2' }\nrow_filter = 'id <> 77'\n"
    file.write_text(f"{toml(plain)}\n{rules}")
    command = ["verify", "--config", str(file), "--json", "--table", "t.r"]
    _copy(spark, config)
    _catch_up(spark, config, server.executed)
    _, copied = files(config, "t.r")
    r = f"delta.`{config.target.path}/t/r`"
    for statement in (
        f"UPDATE {r} SET s = 'by hand' WHERE id = 1234", f"DELETE FROM {r} WHERE id = 2000",
        f"INSERT INTO {r} VALUES (99999, 'by hand', 1, 'x'), (77, 'left out', 0, 'x')",
    ):  # fmt: skip
        spark.sql(statement)
    server.query("UPDATE t.r SET n = 1 WHERE id = 1")
    with following(config, spark), Beside(server, 1):
        assert main([*command, "--repair"]) == 1
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert {(d["kind"], d["row"]["id"]) for d in found["differences"]} == {
            ("different", 1234), ("missing", 2000), ("extra", 99999), ("extra", 77)}  # fmt: skip
        assert found["repaired_rows"] == {"t.r": 4}
    _catch_up(spark, config, server.executed)
    assert main(command) == 0
    spark.sql(f"UPDATE {r} SET s = 'once more' WHERE id = 1235")
    server.query("UPDATE t.r SET n = 1 WHERE id = 1")
    _catch_up(spark, config, server.executed)
    assert main([*command, "--repair"]) == 1, "while no applier runs"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["repaired_rows"] == {"t.r": 1}
    asked = "SELECT id, s, n, '****et' FROM t.r WHERE id <> 77"
    assert _rows(config, "t.r") == sorted(server.query(asked))
    path, now = files(config, "t.r")
    assert path == "t/r" and copied <= now
    left = below_target(Path(config.target.path)) + below_relay(Path(config.relay.path))
    assert {"verify/*": 2, "relay.index": 1}.items() <= left.items()
    ended = ("requests/*.repair", "requests/*.read/*.arrow", "verify/*/*/*", "staging/*/*")
    assert [left[pattern] for pattern in ended] == [0] * 4


@pytest.mark.slow
def test_rows_of_a_table_that_keeps_deleted_ones(
    make_server: Callable[..., Server], spark: SparkSession, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Under load on the table itself: single rows are repaired, and what the source has deleted
    stays. A table that has too many wrong rows is not copied over it."""
    server = make_server()
    plain = config_for(server, tmp_path, target__on_foreign_change="accept")
    extra = ["gtid", "commit_time", "deleted"]
    config = Config.from_mapping(
        {**plain.to_mapping(), "tables": [{"match": "t.r", "extra_columns": extra}]}
    )
    server.query(
        "CREATE DATABASE t", "CREATE TABLE t.r (id INT PRIMARY KEY, s VARCHAR(40), n INT)",
        "SET SESSION cte_max_recursion_depth = 100000",
        "INSERT INTO t.r WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {5 * ROWS}) SELECT i, CONCAT('text ', i), 0 FROM n",
    )  # fmt: skip
    file = tmp_path / "my.toml"
    file.write_text(f"{toml(plain)}\n[[tables]]\nmatch = 't.r'\nextra_columns = {extra}\n")
    command = ["verify", "--config", str(file), "--json", "--table", "t.r", "--repair"]
    _copy(spark, config)
    server.query("DELETE FROM t.r WHERE id IN (1500, 1501)")
    _catch_up(spark, config, server.executed)
    r = f"delta.`{config.target.path}/t/r`"
    copied = "'x:1', NULL, false"
    for statement in (
        f"UPDATE {r} SET s = 'by hand' WHERE id = 1234", f"DELETE FROM {r} WHERE id = 2000",
        f"INSERT INTO {r} VALUES (99999, 'by hand', 1, {copied})",
    ):  # fmt: skip
        spark.sql(statement)
    server.query("UPDATE t.r SET n = 1 WHERE id = 1")
    with following(config, spark), Beside(server, 1):
        assert main(command) == 1
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert found["repaired_rows"] == {"t.r": 3} and not found["copied"]
    _catch_up(spark, config, server.executed)
    gone = spark.sql(f"SELECT id FROM {r} WHERE _deleted ORDER BY id").collect()
    assert [one.id for one in gone] == [1500, 1501, 99999]
    assert main(command) == 0
    capsys.readouterr()
    spark.sql(f"UPDATE {r} SET s = 'by hand' WHERE NOT _deleted")
    server.query("UPDATE t.r SET n = 1 WHERE id = 1")
    _catch_up(spark, config, server.executed)
    assert main(command) == 1
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not found["copied"] and not found["repaired"]
    assert "more than 10,000 rows differ" in found["not_repaired"]["t.r"]
    assert spark.sql(f"SELECT 1 FROM {r} WHERE _deleted").count() == 3
