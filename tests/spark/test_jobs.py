"""``jobs/``: the notebook's cells one after the other. The job: ``test_examples``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.demo.expected import expected_tables
from tests.spark.lab import assert_server_state_elsewhere

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "jobs"
TRANSACTIONS = 3006


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
