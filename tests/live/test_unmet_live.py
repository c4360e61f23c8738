"""Rules that fit nothing on a real source: ``config check --source`` and ``run`` warn of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config
from tests.support.live.receiving import config_for, toml
from tests.support.live.server import Server

from .test_run import Run

FILTERS = {
    "do_db": "gonedb", "do_table": "unmet.odrers",
    "ignore_table": "unmet.tsaks", "wild_do_table": "gone.%", "wild_ignore_table": r"unmet.lgo\_%",
}  # fmt: skip
"""an entry of each kind of filter that fits nothing, but for ignore_db, which do_db excludes"""
MET = {"do_db": ["unmet"], "wild_do_table": ["unmet.%"]}
"""those beside which rows are applied"""
RULES: list[dict[str, Any]] = [
    {"match": "unmet.ordres", "on_ddl": "stop"},
    {"match": "away.%", "to": "lake.%"},
    {"match": "unmet.%", "mask": {"mial": "null"}, "exclude": ["nto"]},
]
SAID = [
    "filters.rewrite_db elsewhere->here: the source has no table in elsewhere",
    "filters.do_db gonedb fits nothing on the source",
    "filters.do_table unmet.odrers fits nothing on the source; the nearest is unmet.orders",
    "filters.ignore_table unmet.tsaks fits nothing on the source; the nearest is unmet.tasks",
    "filters.wild_do_table gone.% fits nothing on the source",
    r"filters.wild_ignore_table unmet.lgo\_% fits nothing on the source",
    "tables[1].match unmet.ordres decides about no table of the source; the nearest is"
    " unmet.orders",
    "tables[2].match away.% decides about no table of the source",
    "tables[3].exclude names nto, which no table of unmet.% has; the nearest is note",
    "tables[3].mask names mial, which no table of unmet.% has; the nearest is mail",
]


@pytest.fixture(scope="module")
def server(shared_server: Server) -> Server:
    shared_server.query(
        "CREATE DATABASE unmet", "CREATE TABLE unmet.tasks (id INT PRIMARY KEY, mail VARCHAR(20))",
        "CREATE TABLE unmet.orders (id INT PRIMARY KEY, note INT)",
        "INSERT INTO unmet.tasks VALUES (1, 'x')",
    )  # fmt: skip
    return shared_server


def ruled(server: Server, folder: Path, filters: Any, rules: Any) -> Config:
    plain = config_for(server, folder).to_mapping()
    return Config.from_mapping({**plain, "filters": filters, "tables": rules})


def warned_of(file: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What ``config check --source`` warns of rules."""
    main(["config", "check", "--config", str(file), "--source", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["errors"] == []
    said = [one["what"] for one in found["warnings"]]
    return [one for one in said if one.startswith(("filters.", "tables["))]


@pytest.mark.slow
def test_run_warns_of_each_rule_that_fits_nothing(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``run`` applies what the others are about."""
    filters = {kind: [entry, *MET.get(kind, [])] for kind, entry in FILTERS.items()}
    filters["rewrite_db"] = ["elsewhere->here"]
    run = Run(ruled(server, tmp_path, filters, RULES), tmp_path)
    try:
        assert warned_of(run.file, capsys) == SAID
        run.wait_for(server.executed)
    finally:
        run.stop()
    warned = [line for line in run.said if "WARNING" in line]
    assert [one for one in SAID if not any(one in line for line in warned)] == []


def test_a_database_that_is_left_out(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [{"match": "unmet.%", "include": ["id", "mail", "nto"]}]
    (file := tmp_path / "my.toml").write_text(
        toml(ruled(server, tmp_path, {"ignore_db": ["unmte"]}, rules))
    )
    assert warned_of(file, capsys) == [
        "filters.ignore_db unmte fits nothing on the source; the nearest is unmet",
        "tables[1].include names nto, which no table of unmet.% has; the nearest is note",
    ]
