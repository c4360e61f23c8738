"""The examples of README.md and docs/ run, a page's Python blocks one after the other."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl.user_cache import cache_folder
from tests.spark.lab import assert_server_state_elsewhere
from tests.spark.test_jobs import TRANSACTIONS
from tests.support.examples import ALL, ROOT, RUN, Block, of_language

PYTHON = [block for block in of_language("python") if block.name not in RUN]

READERS = ("duckdb", "polars")
"""what `.[readers]` installs"""


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def lacking_readers(block: Block) -> list[str]:
    """The readers that the block imports, and that are not installed."""
    return [one for one in READERS if f"import {one}\n" in block.text and not has(one)]


def bash(folder: Path, block: str, **environment: str) -> str:
    """What a block prints, which is run in ``folder``, with the commands of this environment."""
    own = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    own |= {"PATH": f"{sys.prefix}/bin:{own['PATH']}", "PYTHONPATH": str(ROOT), **environment}
    command = ["bash", "-euo", "pipefail", "-c", ALL[block].text]
    ran = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.fixture
def here(tmp_path: Path, bank: Path) -> Path:
    """A working folder as the repository's is, where examples may write."""
    (tmp_path / "spark_repl" / "demo").mkdir(parents=True)
    (tmp_path / "spark_repl" / "demo" / "bank").symlink_to(bank)
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page == "README.md" else pytest.mark.slow)
        for page in sorted({block.page for block in PYTHON})
    ],
)
def test_each_pages_python_examples_run(
    spark: SparkSession, bank: Path, here: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setenv("SPARK_REPL_CACHE", str(here / "cache"))
    monkeypatch.chdir(here)
    # Relative paths are the JVM's own working folder's there, ours here: cut() makes them absolute.
    names: dict[str, Any] = {"spark": spark}
    missing = []
    for block in PYTHON:
        if block.page == page:
            if lacking := lacking_readers(block):
                missing += lacking
                continue
            text = block.text.replace('"spark_repl/demo/bank"', repr(str(bank)))
            exec(compile(text, block.name, "exec"), names)  # noqa: S102
    assert names["result"].counters.transactions == TRANSACTIONS
    assert names["row"].money == 1_000_000
    if "stream" in names:
        rows = spark.sql("SELECT count(*) AS n FROM transactions").collect()
        assert rows[0].n == TRANSACTIONS
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; all else on the page ran")


@pytest.mark.slow
def test_the_readmes_commands_end_as_the_server(
    spark: SparkSession, bank: Path, here: Path
) -> None:
    said = bash(here, "README.md bash 2")
    assert_server_state_elsewhere(here / "lake", bank / "expected")
    assert f"applied: {TRANSACTIONS:,} transactions," in said


@pytest.mark.slow
def test_the_job_runs_under_spark_submit(spark: SparkSession, bank: Path, here: Path) -> None:
    """With the configuration's paths changed, and the jars where the example has them."""
    (here / "conf").mkdir()
    config = {"relay": str(bank), "target": str(here / "lake")}
    lines = [f"[{section}]\npath = {json.dumps(path)}\n" for section, path in config.items()]
    (here / "conf" / "replica.toml").write_text("".join(lines))
    places = {"SPARK_REPL_CACHE": ""}
    if Path(cache_folder()) != Path.home() / ".cache" / "spark_repl":  # else its archive fits
        (here / "home" / ".cache").mkdir(parents=True)
        (here / "home" / ".cache" / "spark_repl").symlink_to(cache_folder())
        places["HOME"] = str(here / "home")
    said = bash(here, "docs/clusters.md bash 1", **places)
    assert f"applied: {TRANSACTIONS:,} transactions," in said
    assert_server_state_elsewhere(here / "lake", bank / "expected")
