"""Reads of a table after many changes, compared with an optimized copy.

    python -m tests.bench.reads LOGS [--changes 10000 1000000] [--group 20000] [--rounds 8]
        [--rest 45]

LOGS: the folder in which ``make_logs`` made ``single_rows``. Applies table bench.r0 of that log, in
groups of ``--group`` transactions of the log (a tenth of them change the table). After each number
of changes the applier runs for ``--rest`` seconds more, as it does without changes on the source.
Then Spark rewrites a copy of the table (OPTIMIZE, and PURGE of deletion vectors), and each engine
scans both, and looks up a row by its key in both, by turns. Prints a line of JSON for each number
of changes: the median seconds of table and copy, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from spark_repl import Config, Replica
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.runtime.spark_session import build_session
from spark_repl.schedule.until import Until
from spark_repl.write.upkeep.scheduler import REST_S
from tests.support.readers import timed_by_duckdb

_TABLES = 10
"""tables of the log that change by turns"""
_SCAN = "SELECT count(*), sum(k), max(c) FROM {table}"
_LOOK_UP = "SELECT k, c FROM {table} WHERE id = {key}"
Answers = list[tuple[float, Any]]
Engine = Callable[[list[tuple[str, str]]], Answers]
"""runs queries, each of a table's folder, and returns the seconds and the rows of each"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--changes", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--group", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--rest", type=float, default=REST_S + 15)
    options = parser.parse_args()
    spark = build_session(master="local[2]")
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder:
        config = Config.from_mapping(
            {
                "relay": {"path": str(options.logs / "single_rows")},
                "target": {"path": f"{folder}/lake"},
                "apply": {"group_max_transactions": options.group},
                "filters": {"do_table": ["bench.r0"]},
            }
        )
        prepared = (options.logs / "single_rows.prepared").read_text()
        first = applied(spark, config, prepared)
        server, _, last = first.gtid_executed.partition(":1-")
        for changes in sorted(options.changes):
            until = f"after-gtids:{server}:1-{int(last) + _TABLES * changes}"
            cut = applied(spark, config, until, options.rest)
            table, copy = cut.tables["bench.r0"], f"{folder}/copy"
            path = Layout.of(config.target).table(table.path)
            shutil.copytree(path, copy)
            optimize(spark, copy)
            found = {
                name: compared(engine, path, copy, options.rounds)
                for name, engine in engines(spark).items()
            }
            sizes = {"files": files_of(path), "copy_files": files_of(copy)}
            commits = table.version - first.tables["bench.r0"].version
            print(
                json.dumps({"changes": changes, "commits": commits, **sizes, **found}), flush=True
            )
            shutil.rmtree(copy)


def applied(spark: Any, config: Config, until: str, rest_s: float = 0) -> Cut:
    """Apply the log up to ``until``, and rest. Return the last cut."""
    with Replica(spark, config, until=Until.parse(until)) as replica:
        replica.apply()
        time.sleep(rest_s)
    cut = Control.existing(config.target.path).last_cut()
    assert cut is not None
    return cut


def optimize(spark: Any, folder: str) -> None:
    """Leave the table's rows in files without deletion vectors, as few as Spark makes of them."""
    spark.sql(f"OPTIMIZE delta.`{folder}`")
    spark.sql(f"REORG TABLE delta.`{folder}` APPLY (PURGE)")


def files_of(folder: str) -> int:
    return len(DeltaTable(folder).get_add_actions().column("path"))


def compared(engine: Engine, table: str, copy: str, rounds: int) -> dict[str, Any]:
    """Return the medians, after one round that is not counted. Raise AssertionError if table and
    copy give other rows."""
    dice, found = random.Random(1), dict[str, Any]()
    for name, query in (("scan", _SCAN), ("look_up", _LOOK_UP)):
        asked = [query.replace("{key}", str(dice.randrange(1, 100_000))) for _ in range(rounds + 1)]
        # Spark compiles a query for the first of the two: each is the first in half of the rounds.
        turns = [(table, copy), (copy, table)] * len(asked)
        both = [(one, at) for one, folders in zip(asked, turns, strict=False) for at in folders]
        answers = engine(both)
        rows = [sorted(map(tuple, answer)) for _, answer in answers]
        assert rows[::2] == rows[1::2], f"{name}: table and copy differ"
        took = [(at, took) for (_, at), (took, _) in zip(both, answers, strict=True)][2:]
        old, new = (median(s for at, s in took if at == folder) for folder in (table, copy))
        found[name] = {
            "table_s": round(old, 4),
            "copy_s": round(new, 4),
            "times": round(old / new, 2),
        }
    return found


def engines(spark: Any) -> dict[str, Engine]:
    return {
        "Spark": lambda queries: timed(lambda *query: by_spark(spark, *query), queries),
        "DuckDB": by_duckdb,
        "delta-rs": lambda queries: timed(by_delta_rs, queries),
    }


def timed(run: Callable[[str, str], Any], queries: list[tuple[str, str]]) -> Answers:
    answers = []
    for query, folder in queries:
        began = time.perf_counter()
        rows = run(query, folder)
        answers.append((time.perf_counter() - began, rows))
    return answers


def by_spark(spark: Any, query: str, folder: str) -> Any:
    return spark.sql(query.replace("{table}", f"delta.`{folder}`")).collect()


def by_delta_rs(query: str, folder: str) -> Any:
    engine = QueryBuilder().register("t", DeltaTable(folder))
    rows = pa.table(engine.execute(query.replace("{table}", "t")).read_all())
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def by_duckdb(queries: list[tuple[str, str]]) -> Answers:
    return timed_by_duckdb(
        [(query.replace("{table}", f"delta_scan('{folder}')"), ()) for query, folder in queries]
    )


if __name__ == "__main__":
    main()
