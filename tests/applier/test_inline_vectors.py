"""``target.inline_vector_bytes``: a small group's commits contain their deletion vectors."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl

from spark_repl.delta.log.log_replay import read_commit
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import cuts, rows, run
from tests.support.readers import by_duckdb_query

TABLES = tuple(Table(name) for name in ("a", "b", "c"))
MANY = 6_000
"""rows whose scattered deletions make a vector of more than 1024 bytes"""


def filled(folder: Path) -> LogWriter:
    log = LogWriter(folder)
    log.ddl("CREATE DATABASE t")
    for table in TABLES:
        log.ddl(table.create)
        log.transaction(insert(table, *((key, "x") for key in range(MANY))))
    return log


def test_small_vectors_are_in_the_commit_and_every_engine_reads_them(tmp_path: Path) -> None:
    log, target = filled(tmp_path / "log"), tmp_path / "lake"
    keys = {"inline_vector_bytes": 1024, "compact_files": 0}
    assert run(log.folder, target, keys=keys)
    want = dict.fromkeys(range(MANY), "x")
    one, folder = TABLES[0], target / "t" / "a"
    for key in range(12):  # a checkpoint among them
        del want[key]
        want[100 + key] = "y"
        log.transaction(delete(one, (key, "x")), update(one, ((100 + key, "x"), (100 + key, "y"))))
        assert run(log.folder, target, keys=keys)
    assert not list(folder.glob("*.bin"))
    expected = sorted(want.items())
    assert rows(target, one) == expected
    assert sorted(pl.read_delta(str(folder)).select("id", "v").rows()) == expected
    (found,) = by_duckdb_query([(f"SELECT id, v FROM delta_scan('{folder}') ORDER BY id", ())])
    assert found == expected
    gone = Random(1).sample(range(200, MANY), 2_500)
    log.transaction(delete(one, *((key, "x") for key in gone)))
    assert run(log.folder, target, keys=keys)
    assert len(list(folder.glob("*.bin"))) == 1
    assert rows(target, one) == [pair for pair in expected if pair[0] not in gone]


def test_a_vector_in_the_commit_is_as_the_protocol_has_it(tmp_path: Path) -> None:
    log, target = filled(tmp_path / "log"), tmp_path / "lake"
    log.transaction(delete(TABLES[0], (7, "x")))
    assert run(log.folder, target, group_max_transactions=1, keys={"inline_vector_bytes": 1024})
    version = cuts(target)[-1].tables["t.a"].version
    (vector,) = (
        action["add"]["deletionVector"]
        for action in read_commit(str(target / "t" / "a"), version) or ()
        if "add" in action
    )
    assert (vector["storageType"], vector["cardinality"]) == ("i", 1)
    assert "offset" not in vector and len(vector["pathOrInlineDv"]) % 5 == 0
