"""XA transactions: prepared at one place, ended at another, through restarts and crashes (WL#6860).

What a history must end in is computed serially: a branch's rows appear where its XA COMMIT stands.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from tests.spark.lab import assert_applied_once, assert_rows, run
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

A, B = Table("a"), Table("b")
ONE, TWO, THREE = (b"one", b"", 1), (b"t\0'\"w", b"o" * 64, 2**32 - 1), (b"\xff" * 64, b"3", 7)


@pytest.fixture
def xa(log: LogWriter) -> LogWriter:
    log.ddl(B.create)
    log.transaction(insert(A, (1, "old"), (2, "old")))
    return log


def prepared(target: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["xa", "list", "--target", str(target), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out.splitlines()[-1])["prepared"]
    return found


@pytest.mark.parametrize("bound", [2, pytest.param(100, marks=pytest.mark.soak)])
def test_interleaved_branches_commit_at_their_ends(spark, xa, target, bound, capsys):
    # Scenarios 65, 67, 86, 88: interleaved, other order of ends, other files, NULs and quotes.
    xa.xa_prepare(ONE, insert(A, (10, "one")), update(A, ((1, "old"), (1, "one"))))
    xa.xa_prepare(TWO, insert(B, (20, "two")))
    xa.transaction(insert(A, (11, "plain")))
    xa.rotate()
    xa.xa_prepare(THREE, insert(A, (30, "three")))
    xa.xa_end("COMMIT", TWO)
    xa.xa_end("ROLLBACK", ONE)
    run(spark, xa.folder, target, group_max_transactions=bound)
    assert_rows(spark, target, A, [(1, "old"), (2, "old"), (11, "plain")])
    assert_rows(spark, target, B, [(20, "two")])
    (left,) = prepared(target, capsys)
    assert (left["gtrid"], left["bqual"], left["format_id"]) == ("ff" * 64, "33", 7)
    assert left["gtid"] == xa.gtid(7)
    xa.xa_end("COMMIT", THREE)
    xa.xa_prepare(ONE, delete(A, (2, "old")), one_phase=True)
    run(spark, xa.folder, target, group_max_transactions=bound)
    assert_rows(spark, target, A, [(1, "old"), (11, "plain"), (30, "three")])
    assert prepared(target, capsys) == []
    assert [*(target / "_repl" / "xa").iterdir()] == []
    assert_applied_once(target)


def test_branches_survive_a_restart_without_relay_log_and_checkpoint(spark, xa, target, tmp_path):
    # Scenarios 66, 68: the branch survives a restart, the checkpoint's loss, the log's purge,
    # and a change of workers.
    xa.xa_prepare(ONE, insert(A, (10, "one")))
    xa.xa_prepare(TWO, insert(A, (20, "two")))
    run(spark, xa.folder, target)
    xa.rotate()
    xa.xa_end("COMMIT", ONE)
    xa.xa_end("ROLLBACK", TWO)
    (xa.folder / "bin.000001").unlink()
    shutil.rmtree(target / "_repl" / "checkpoint")
    shutil.rmtree(target / "_repl" / "index")
    run(spark, xa.folder, target, workers=1)
    assert_rows(spark, target, A, [(1, "old"), (2, "old"), (10, "one")])
