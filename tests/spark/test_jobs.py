"""``jobs/``: the notebooks' cells, one notebook after the other. The jobs: ``test_examples``,
``unit/cli/test_jobs``."""

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


def carry_out(name: str) -> None:
    """A notebook's cells, one after the other."""
    first, *cells = (JOBS / f"{name}.py").read_text("utf-8").split("# COMMAND ----------")
    assert first == "# Databricks notebook source\n"
    assert len(cells) >= 4
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"{name}, cell {number}", "exec"), names)  # noqa: S102


@pytest.mark.slow
def test_the_notebooks_cells_run_one_after_the_other(
    spark: SparkSession,
    bank: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spark_repl" / "demo").mkdir(parents=True)
    (tmp_path / "spark_repl" / "demo" / "bank").symlink_to(bank)
    carry_out("notebook_replicate")
    said = capsys.readouterr().out
    assert f"{TRANSACTIONS} transactions, now at " in said
    for name, _, want in expected_tables(bank / "expected"):
        assert f"{name} {len(want)}\n" in said
    assert "|balance" in said.replace(" ", "")
    assert_server_state_elsewhere(tmp_path / "lake", bank / "expected")
    accounts = {name: len(want) for name, _, want in expected_tables(bank / "expected")}
    count = accounts["bank.account"]
    for _ in range(2):  # again, it goes on where it was
        carry_out("notebook_change_feed")
        assert f"{count} accounts, 0 other than its" in capsys.readouterr().out
    carry_out("notebook_cuts")
    assert f"{count} accounts when these" in capsys.readouterr().out
    carry_out("notebook_operations")
    said = capsys.readouterr().out
    assert "wrong:    nothing" in said and "differing: 0" in said
    assert "</html>" in Path("report.html").read_text("utf-8")
