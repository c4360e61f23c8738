"""The fenced blocks of README.md and docs/, and who runs each.

A Python block is run by ``spark/test_examples.py``, a TOML block read by
``unit/house/test_examples.py``; of the others, and of Python blocks that need a server, ``RUN``
says who does, and ``NOT_RUN`` why nobody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    number: int
    """among the page's blocks of this language, from 1"""
    text: str

    @property
    def name(self) -> str:
        return f"{self.page} {self.language} {self.number}"


RUN = {
    "README.md bash 2": "spark/test_examples.py::test_the_readmes_commands_end_as_the_server",
    "README.md bash 3": "live/test_examples.py::test_a_live_server_is_followed",
    "docs/getting-started.md bash 1": "live/test_examples.py::test_a_live_server_is_followed",
    **{
        f"docs/getting-started.md {block}": "live/test_examples.py::test_a_live_server_is_followed"
        for block in ("bash 2", "python 1", "python 2", "python 3")
    },
    "docs/getting-started.md sql 1": "live/test_examples.py::test_a_live_server_is_followed",
    "docs/getting-started.md text 1": "unit/cli/test_init_command.py::test_init_ends_as_documented",
    "docs/security.md sql 1": "live/test_setup.py::test_the_least_account_follows",
    "docs/python.md sql 1": "unit/control/table/test_cut_tables_sql.py"
    "::test_sql_reads_the_newest_cut",
    "docs/python.md sql 2": "unit/control/table/test_cut_tables_sql.py::test_a_cut_by_time",
    "docs/python.md sql 3": "unit/control/table/test_cut_tables_sql.py::test_a_cut_by_gtid",
    "docs/python.md sql 4": "unit/control/table/test_cut_tables_sql.py::test_a_cut_by_source_time",
    **{
        f"docs/catalogs.md {kind} {number}": "spark/test_cut_views.py"
        "::test_spark_reads_cuts_as_documented"
        for kind in ("sql", "text")
        for number in (1, 2, 3)
    },
    "docs/catalogs.md console 1": "spark/test_catalogs.py"
    "::test_spark_with_delta_reads_the_registered_tables_by_name",
    "docs/clusters.md bash 1": "spark/test_examples.py::test_the_job_runs_under_spark_submit",
    "docs/object-stores.md bash 1": "soak/test_s3.py"
    "::test_the_documented_example_runs_with_a_bucket",
}
NOT_RUN = {
    "README.md bash 1": "they run the tests, and set up what these need",
    "README.md text 1": "a drawing",
    "docs/architecture.md text 1": "a drawing",
    "docs/run-on/standalone.md text 1": "a master and a worker that stay",
    "docs/sources/own-server.md sql 1": "live/test_setup.py runs such statements",
    "docs/sources/rds.md sql 1": "RDS has the procedure",
    "docs/sources/cloud-sql.md sql 1": "as in docs/getting-started.md",
    "docs/sources/azure.md sql 1": "as in docs/getting-started.md",
    "docs/tables.md sql 1": "a question to a table that is not there",
    "docs/benchmarks.md bash 1": "they need a log and a source of the reader's",
    "docs/benchmarks.md bash 2": "they need an empty server, and minutes",
    "docs/channels.md bash 1": "live/test_channels_live.py::test_one_run_applies_two_sources",
    "docs/channels.md bash 2": "they follow a server each, until they are stopped",
}


def blocks(text: str, page: str) -> list[Block]:
    found: list[Block] = []
    for _, language, block in _FENCED.findall(text):
        number = 1 + sum(one.language == language for one in found)
        found.append(Block(page, language, number, block))
    return found


ALL = {
    block.name: block
    for page in PAGES
    for block in blocks(page.read_text("utf-8"), str(page.relative_to(ROOT)))
}


def of_language(language: str) -> list[Block]:
    return [block for block in ALL.values() if block.language == language]
