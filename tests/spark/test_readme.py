"""The README's examples run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_examples_run(
    spark: SparkSession, bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spark_repl" / "demo").mkdir(parents=True)
    (tmp_path / "spark_repl" / "demo" / "bank").symlink_to(bank)
    # Relative paths are the JVM's own working folder's there, ours here: cut() makes them absolute.
    names: dict[str, Any] = {"spark": spark}
    assert len(BLOCKS) == 4
    for number, block in enumerate(BLOCKS):
        block = block.replace('"spark_repl/demo/bank"', repr(str(bank)))
        exec(compile(block, f"README.md block {number}", "exec"), names)  # noqa: S102
    assert names["result"].counters.transactions == 3006
    rows = spark.sql("SELECT count(*) AS n FROM transactions").collect()
    assert rows[0].n == 3006
