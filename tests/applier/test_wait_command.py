"""``wait`` reports transactions that neither the source nor the target knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.control.cuts.cut_wait import unknown_sources
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import run

A = Table("a")
OTHER = "99999999-2222-3333-4444-555555555555"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "x")))
    assert run(log.folder, tmp_path / "lake")
    return tmp_path / "lake"


def test_a_server_that_the_target_does_not_know_is_named(
    target: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["wait", "--target", str(target), "--gtid", f"{OTHER}:1", "--timeout", "0"]) == 1
    assert f"no cut has a transaction of {OTHER} yet" in caplog.text


def test_wait_names_the_servers_that_no_transaction_came_from(target: Path) -> None:
    control = Control(Layout(str(target)).control)
    last = control.last_cut()
    assert last is not None
    assert unknown_sources(control, f"{last.gtid_executed},{OTHER}:1") == [OTHER]
    assert unknown_sources(control, last.gtid_executed.split(":")[0] + ":99") == []


def test_a_source_that_does_not_answer_is_no_error(
    target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = target.parent / "r.toml"
    file.write_text('[source]\nsocket = "none.sock"\n[target]\npath = "lake"\n')
    words = ["wait", "--config", str(file), "--gtid", f"{OTHER}:1", "--timeout", "0"]
    assert main(words) == 1
    assert "no cut holds" in capsys.readouterr().err
