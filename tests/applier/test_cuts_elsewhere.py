"""Cuts that are promised are read by other engines, behind all of the upkeep: rows are folded,
files and commits that no promise needs are gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.cut_command import kept_cuts
from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.retention import pin
from spark_repl.control.table.cut import Cut, reader_tables
from spark_repl.delta.log import checkpoint_schedule
from tests.applier.test_promised_cuts import SHORT, hours_pass
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import HERE, at_cut, run
from tests.support.tended import hurry, tended

A = Table("a")
KEYS = {**SHORT, "commit_retention_hours": 1}
FEATURES = {"plain": {}, "mapped": {"column_mapping": True}, "parts": {"partition_by": ["t.a(v)"]}}
DUCKDB = Path(__file__).parents[2] / ".venv" / "duckdb_delta"
SCAN = """
import duckdb, duckdb_extension_delta, glob, json, sys
path, = glob.glob(f"{duckdb_extension_delta.__path__[0]}/**/*.duckdb_extension", recursive=True)
connection = duckdb.connect()
connection.execute(f"LOAD '{path}'")
scan = "SELECT * FROM delta_scan(?, version => ?)"
print(json.dumps([connection.execute(scan, one).fetchall() for one in json.load(sys.stdin)]))
"""


def by_duckdb(tables: list[tuple[str, int]]) -> list[list[tuple[Any, ...]]]:
    """The rows of versions of tables, each sorted: what ``delta_scan`` finds."""
    if not DUCKDB.is_dir():
        pytest.skip(f"no DuckDB with its Delta extension in {DUCKDB}: make setup")
    environment = {**os.environ, "PYTHONPATH": str(DUCKDB)}
    ran = subprocess.run(
        [sys.executable, "-c", SCAN], input=json.dumps(tables), env=environment, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [sorted(map(tuple, rows)) for rows in json.loads(ran.stdout)]


def followed(log: LogWriter, target: Path, keys: dict[str, Any]) -> dict[int, Any]:
    """Nine hours in which each row was changed by hundreds of commits; what each cut showed of t.a
    when it was made, by its position. One that has run out since was pinned."""
    log.transaction(insert(A, *((key, "new") for key in range(20))))
    shown: dict[int, Any] = {}
    for number in range(5):
        for key in range(20):
            old = "new" if number == 0 else f"{number - 1}"
            log.transaction(update(A, ((key, old), (key, f"{number}"))))
        log.transaction(delete(A, (19, f"{number}")), insert(A, (19, f"{number}")))
        assert run(log.folder, target, keys=keys, group_max_transactions=1, parts=HERE)
        control = channel_at(str(target)).control
        newest = control.cuts()[-1]
        shown |= {cut.position: at_cut(target, cut).get("t.a") for cut in control.cuts()[-20:]}
        if number == 0:
            pin(control, newest, "first")
        hours_pass(2, target)
    return shown


def promised(target: Path) -> list[Cut]:
    """Return the cuts that ``cut list`` names: those within the retention, the pinned ones and the
    newest."""
    return [cut for cut, _ in kept_cuts(channel_at(str(target)).control, datetime.now(UTC))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "features",
    ["mapped", *(pytest.param(name, marks=pytest.mark.slow) for name in ("plain", "parts"))],
)
def test_what_is_promised_is_read_by_delta_rs_and_duckdb(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch, features: str
) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(checkpoint_schedule, "EVERY", 10)
    keys = {**KEYS, **FEATURES[features]}
    shown = followed(log, target, keys)
    folder = target / "t" / "a"
    before = {path for path in folder.rglob("*") if path.is_file()}
    for _ in range(2):
        log.transaction(insert(A, (log.gno + 1000, "more")))
        tended(log.folder, target, keys=keys, parts=HERE)
    gone = Counter(path.name.rpartition(".")[2] for path in before if not path.exists())
    assert gone["json"] > 5 and gone["parquet"] > 20, "commits and data files"
    left = promised(target)
    assert len(left) > 2
    places = [(f"{target}/{at.path}", at.version) for cut in left
              for name, at in reader_tables(cut).items() if name == "t.a"]  # fmt: skip
    rows = [at_cut(target, cut)["t.a"] for cut in left]
    known = [(cut, found) for cut, found in zip(left, rows, strict=True) if cut.position in shown]
    assert len(known) > 1, "the pinned one, and others; fewer where a minute has passed meanwhile"
    for cut, found in known:
        assert found == shown[cut.position], "by delta-rs"
    assert by_duckdb(places) == rows
