"""The examples of the README and of docs/ run, each page's one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = {
    str(page.relative_to(ROOT)): re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    for page in PAGES
}


def test_pages_have_examples() -> None:
    found = {page: len(blocks) for page, blocks in BLOCKS.items() if blocks}
    assert found == {"README.md": 2, "docs/python.md": 4}


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks])
def test_examples_run(
    spark: SparkSession, bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spark_repl" / "demo").mkdir(parents=True)
    (tmp_path / "spark_repl" / "demo" / "bank").symlink_to(bank)
    # Relative paths are the JVM's own working folder's there, ours here: cut() makes them absolute.
    names: dict[str, Any] = {"spark": spark}
    for number, block in enumerate(BLOCKS[page]):
        block = block.replace('"spark_repl/demo/bank"', repr(str(bank)))
        exec(compile(block, f"{page} block {number}", "exec"), names)  # noqa: S102
    assert names["result"].counters.transactions == 3006
    assert names["row"].money == 1_000_000
    if "stream" in names:
        rows = spark.sql("SELECT count(*) AS n FROM transactions").collect()
        assert rows[0].n == 3006
