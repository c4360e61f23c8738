"""What one channel of a target is spared of the other: statements, readers, names of nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.cli.main import main
from spark_repl.control.cuts.joint_cut import joint_cut
from spark_repl.control.records.channels import channel_at, channels
from spark_repl.control.records.name_registry import noted_names
from spark_repl.control.table.control import Control
from spark_repl.copy.recopy import Recopier
from spark_repl.errors import TargetError
from spark_repl.observe.status.status import status
from spark_repl.service.scheduled_verify import ScheduledVerify
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import HERE, applier, cuts, rows, run
from tests.support.two_sources import US, U, dies_before_a_cut, names_of, refused

A, B = Table("a"), Table("b")


def test_a_rename_of_what_the_target_has_not(log: LogWriter, us: LogWriter, target: Path) -> None:
    """Gives nothing a name: none is refused, and none is noted."""
    run(log.folder, target)
    us.ddl("RENAME TABLE u.unknown TO t.b, u.other TO u.free")
    assert run(us.folder, target, channel="us")
    first = channels(str(target))[0].control
    assert noted_names(first) == {"u.a": "us"}
    log.ddl("RENAME TABLE x.unknown TO x.y")
    run(log.folder, target)
    assert noted_names(first) == {"u.a": "us"}


def test_statements_about_another_channels_table_leave_it(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    """What one source drops, empties or changes is its own: not what has the name here."""
    log.transaction(insert(A, (1, "eu")), insert(B, (1, "eu")))
    run(log.folder, target)
    for text in (
        "DROP DATABASE t",
        "DROP TABLE IF EXISTS t.a",
        "TRUNCATE TABLE t.b",
        "CREATE DATABASE t",
        "RENAME TABLE t.a TO u.b",
    ):
        us.ddl(text, "t")
    assert run(us.folder, target, channel="us")
    log.transaction(insert(A, (2, "eu")))
    run(log.folder, target)
    assert rows(target, A) == [(1, "eu"), (2, "eu")] and rows(target, B) == [(1, "eu")]
    assert set(cuts(target)[-1].tables) == {"t.a", "t.b"}
    assert set(cuts(target, "us")[-1].tables) == {"u.a"}


def test_a_channel_that_was_given_another_name(
    log: LogWriter, target: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Is a new one, which is said, and has none of the tables."""
    run(log.folder, target)
    assert "is new to" not in caplog.text
    assert refused(log, target, "typo").table == "t.a"
    assert f'the channel "typo" is new to {target}' in caplog.text
    run(log.folder, target)
    assert "t.a" in cuts(target)[-1].tables and names_of(target) == ["default"]


def test_the_first_transaction_is_one_to_skip(
    log: LogWriter, us: LogWriter, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a channel that has no table yet."""
    run(log.folder, target)
    asia = LogWriter(us.folder.parent / "asia", source=US, server_id=2)
    asia.ddl(A.create)
    refused(asia, target, "asia")
    asia.ddl("DROP TABLE t.a")
    at = ["--target", str(target), "--channel", "asia"]
    assert main(["skip", "--gtid", f"{US}:1", *at]) == 0, capsys.readouterr().err
    assert run(asia.folder, target, channel="asia")


def test_views_of_two_channels_that_have_one_name(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    us.ddl("CREATE TABLE u.t_b (id INT PRIMARY KEY)")
    run(log.folder, target)
    log.ddl("CREATE TABLE u_t.b (id INT PRIMARY KEY)")
    run(log.folder, target)
    assert run(us.folder, target, channel="us")
    now = joint_cut(MagicMock(), str(target))
    with pytest.raises(TargetError, match=r"the view of \S+ would be this table's, too"):
        now.create_views()
    assert "u_t_b" in now.cuts["us"].create_views()


def test_a_cut_of_all_where_one_has_none(log: LogWriter, tmp_path: Path, target: Path) -> None:
    run(log.folder, target)
    us = LogWriter(tmp_path / "us", source=US, server_id=2)
    us.ddl(U.create)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.support.local_delta.CRASHES.told", dies_before_a_cut)
        with pytest.raises(KeyboardInterrupt):
            run(us.folder, target, channel="us")
    assert names_of(target) == ["default", "us"]
    with pytest.raises(TargetError, match='"us" has published no cut yet'):
        joint_cut(MagicMock(), str(target))
    assert run(us.folder, target, channel="us")
    assert joint_cut(MagicMock(), str(target)).cuts.keys() == {"default", "us"}
    with pytest.raises(TargetError, match='"default": no cut that was published by 2001'):
        joint_cut(MagicMock(), str(target), "2001-01-01")


def test_a_start_reads_the_control_table_once(log: LogWriter, target: Path) -> None:
    """Each commit since the last pruning is a file. The start reads the control table once, to find
    the channel's own place, and tasks beside the applier do not read it again."""
    run(log.folder, target)

    class Claimed(Control):
        def claim(self, *, take_over: bool = False) -> int:
            assert self._read.version >= 0
            return super().claim(take_over=take_over)

    with applier(log.folder, target, parts=replace(HERE, control=Claimed)) as found:
        entries = Path(found.control.path) / "_delta_log"
        broken = entries / f"{len(list(entries.glob('*.json'))):020d}.json"
        broken.write_text("no JSON")
        Recopier(MagicMock(), found.config, found)
        ScheduledVerify(found.config, "", found.fail, lambda note: None)
        broken.unlink()


def test_what_one_tries_again_and_dies_of_is_its_own(
    log: LogWriter, us: LogWriter, target: Path, faults: Any, killed: Any
) -> None:
    """Scenarios 39, 48: two channels apply to one target at a time. Retries and errors, also those
    of workers, are shown only for the channel that had them. It dies between two commits, and each
    channel continues from its own place."""
    for key in range(1, 4):
        log.transaction(insert(A, (key, "eu")))
        us.transaction(insert(U, (key, "us")))
    assert run(log.folder, target)  # whose target it is
    log.transaction(insert(A, (4, "eu")))
    tried = faults(("u/a",), 2)
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(run, log.folder, target)
        assert run(us.folder, target, channel="us") and other.result()
    assert tried.count("u/a") == 3
    for name, retries in (("default", 0), ("us", 2)):
        found = status(str(target), at=channel_at(str(target), name))
        workers = found["replication_applier_status_by_worker"]
        counted = [found["replication_applier_status"][0], workers[0]]
        assert [one["COUNT_TRANSACTIONS_RETRIES"] for one in counted] == [retries, retries]
        assert workers[0]["LAST_TRANSIENT_ERROR_NUMBER"] == (5 if retries else 0)
    for made, table in ((log, A), (us, U)):
        made.transaction(insert(table, (5, "x")))
    killed(us, target, lambda at: at == "after_put", channel="us")
    assert run(log.folder, target) and run(us.folder, target, channel="us")
    assert rows(target, A) == [*((key, "eu") for key in range(1, 5)), (5, "x")]
    assert rows(target, U) == [*((key, "us") for key in range(1, 4)), (5, "x")]
    assert cuts(target)[-1].gtid_executed == f"{log.source}:1-{log.gno - 1}"
    assert cuts(target, "us")[-1].gtid_executed == f"{US}:1-{us.gno - 1}"
