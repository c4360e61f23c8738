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

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "jobs"
TRANSACTIONS = 3006


def test_the_job_under_spark_submit(bank: Path, tmp_path: Path) -> None:
    config = tmp_path / "replica.toml"
    target = tmp_path / "lake"
    config.write_text(
        f"[relay]\npath = {json.dumps(str(bank))}\n[target]\npath = {json.dumps(str(target))}\n"
    )
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
    assert f"{TRANSACTIONS} transactions, now at bank-bin.000002:" in ran.stdout
    assert_server_state_elsewhere(target, bank / "expected")


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
    for name, _, rows in expected_tables(bank / "expected"):
        assert f"{name} {len(rows)}\n" in said
    assert "|balance" in said.replace(" ", "")
    assert_server_state_elsewhere(tmp_path / "lake", bank / "expected")
