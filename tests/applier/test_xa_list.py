"""``xa list``: what it shows of a branch is what --xid takes, whatever its format id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import run

A = Table("a")


def test_a_branch_of_format_0_is_listed_and_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, target = LogWriter(tmp_path / "log"), str(tmp_path / "lake")
    log.ddl(A.create)
    log.xa_prepare((b"zero", b"", 0), insert(A, (1, "x")))
    log.xa_prepare((b"one", b"b", 1), insert(A, (2, "x")))
    assert run(log.folder, target)
    assert main(["xa", "list", "--target", target]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    names = head.split()
    assert names[:4] == ["xid", "format_id", "gtrid", "bqual"] and "age_s" in names
    assert [line.split()[1] for line in lines] == ["0", "1"]
    for line in lines:
        assert main(["xa", "commit", "--target", target, "--xid", line.split()[0]]) == 0
    capsys.readouterr()
    assert main(["xa", "list", "--target", target, "--json"]) == 0
    branches = json.loads(capsys.readouterr().out)["prepared"]
    assert [(one["format_id"], one["by_hand"]) for one in branches] == [
        (0, "COMMIT"), (1, "COMMIT"),
    ]  # fmt: skip
    assert all(one["age_s"] >= 0 for one in branches)
