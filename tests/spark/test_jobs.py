"""``jobs/``: the notebooks' cells, one notebook after the other. The jobs: ``test_examples``,
``unit/cli/test_jobs``."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl import Config, Replica
from spark_repl.cli import configuration
from spark_repl.demo.expected import expected_tables
from tests.spark.lab import assert_server_state_elsewhere

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "jobs"
NOTEBOOKS = sorted(path.stem for path in JOBS.glob("notebook_*.py"))
TRANSACTIONS = 3006


def carry_out(name: str) -> None:
    """A notebook's cells, one after the other."""
    first, *cells = (JOBS / f"{name}.py").read_text("utf-8").split("# COMMAND ----------")
    assert first.startswith("# Databricks notebook source\n")
    assert all(line.startswith("#") for line in first.splitlines() if line)
    assert len(cells) >= 4
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells, 1):
        exec(compile(cell, f"{name}, cell {number}", "exec"), names)  # noqa: S102


class Widgets:
    """Those of Databricks, as ``dbutils.widgets``; each has the text that was typed, if any was."""

    def __init__(self, typed: dict[str, str]) -> None:
        self.widgets, self._typed, self._values = self, typed, dict[str, str]()

    def text(self, name: str, default: str) -> None:
        self._values[name] = self._typed.get(name, default)

    def get(self, name: str) -> str:
        return self._values[name]


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != "notebook_replicate"])
def test_a_notebook_has_widgets_and_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (JOBS / f"{name}.py").read_text("utf-8")
    assert text.count("# MAGIC %md\n") >= 4
    names: dict[str, Any] = {"partial": partial, "configuration": configuration}
    (definition,) = re.findall(r"^widget = .*$", text, re.MULTILINE)
    exec(definition, names)  # noqa: S102
    assert names["widget"]("target", "lake") == "lake"
    monkeypatch.setenv("NOTEBOOK_TARGET", "lake2")
    assert names["widget"]("target", "lake") == "lake2"
    names["dbutils"] = Widgets({"target": "lake3"})
    exec(definition, names)  # noqa: S102
    assert names["widget"]("target", "lake") == "lake3" and names["widget"]("cut", "x") == "x"


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
        assert f"{count} rows, 0 other than its" in capsys.readouterr().out
    carry_out("notebook_cuts")
    said = capsys.readouterr().out
    assert f"{count} rows when these" in said and "money|" in said and "1000000" in said
    history = {"relay.path": str(bank), "target.path": "past"}
    rules = {"tables": [{"match": "bank.account", "mode": "history"}]}
    with Replica(spark, Config.from_mapping(rules).override(history)) as replica:
        replica.apply()
    carry_out("notebook_history")
    said = capsys.readouterr().out
    assert f"{count} rows then," in said and "bank_account_versions" in said
    carry_out("notebook_operations")
    said = capsys.readouterr().out
    assert "wrong:    nothing" in said and "differing: 0" in said
    assert "</html>" in Path("report.html").read_text("utf-8")
