"""``jobs/``: the job under a real spark-submit, and the notebook's cells one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.demo.expected import expected_tables
from spark_repl.runtime.java import delta_jars
from tests.spark.lab import assert_server_state_elsewhere
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import rows

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "jobs"
TRANSACTIONS = 3006


def test_the_job_under_spark_submit(tmp_path: Path) -> None:
    config, log, table = tmp_path / "replica.toml", LogWriter(tmp_path / "log"), Table("a")
    for statement in ("CREATE DATABASE t", table.create):
        log.ddl(statement)
    for key in range(8):
        log.transaction(insert(table, (key, "x")))
    target = tmp_path / "lake"
    paths = (json.dumps(str(path)) for path in (log.folder, target))
    config.write_text("[relay]\npath = {}\n[target]\npath = {}\n".format(*paths))
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", "local[2]", "--jars", ",".join(delta_jars())),
        *(str(JOBS / "replicate.py"), str(config), "--available-now"),
    ]
    own = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    own |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "10 transactions, now at bin.000001:" in ran.stdout
    assert rows(target, table) == [(key, "x") for key in range(8)]


def test_the_notebook(
    spark: SparkSession,
    bank: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, *cells = (
        (JOBS / "notebook_replicate.py").read_text("utf-8").split("# COMMAND ----------")
    )
    assert first == "# Databricks notebook source\n"
    assert len(cells) == 4
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spark_repl" / "demo").mkdir(parents=True)
    (tmp_path / "spark_repl" / "demo" / "bank").symlink_to(bank)
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"cell {number}", "exec"), names)  # noqa: S102
    said = capsys.readouterr().out
    assert f"{TRANSACTIONS} transactions, now at " in said
    for name, _, want in expected_tables(bank / "expected"):
        assert f"{name} {len(want)}\n" in said
    assert "|balance" in said.replace(" ", "")
    assert_server_state_elsewhere(tmp_path / "lake", bank / "expected")
