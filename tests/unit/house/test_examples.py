"""Every fenced block of README.md and docs/ is run, read as what it is, or says why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.config import load
from tests.support.examples import ALL, NOT_RUN, PAGES, RUN, Block, blocks, of_language
from tests.support.sources import functions

TESTS = Path(__file__).parents[2]
BY_LANGUAGE = {
    "python": "spark/test_examples.py::test_each_pages_python_examples_run",
    "toml": "below",
}


def unknown(named: dict[str, Block]) -> list[str]:
    """Return the blocks that no test runs and that have no reason."""
    return [
        name
        for name, block in named.items()
        if block.language not in BY_LANGUAGE and name not in RUN and name not in NOT_RUN
    ]


def test_each_block_is_run_or_says_why_not() -> None:
    assert unknown(ALL) == []
    assert [*RUN.keys() & NOT_RUN.keys()] == []
    assert [name for name in {**RUN, **NOT_RUN} if name not in ALL] == []


def test_every_fenced_block_is_read() -> None:
    fences = sum(page.read_text("utf-8").count("```") for page in PAGES)
    assert fences == 2 * len(ALL)


def test_the_test_that_runs_a_block_exists() -> None:
    for test in {*RUN.values(), BY_LANGUAGE["python"]}:
        path, _, name = test.partition("::")
        assert name in functions(TESTS / path), test


def test_a_new_block_is_seen() -> None:
    text = "```bash\nls\n```\n```\nls\n```\n```python\n1\n```\n  ```sql\nSELECT 1\n  ```\n"
    new = {block.name: block for block in blocks(text, "new.md")}
    assert unknown(new) == ["new.md bash 1", "new.md  1", "new.md sql 1"]


@pytest.mark.parametrize("block", of_language("toml"), ids=lambda block: block.name)
def test_configurations_can_be_read(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "replica.toml"
    file.write_text(block.text, "utf-8")
    load(file).check_supported()
