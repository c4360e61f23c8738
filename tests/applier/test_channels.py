"""Several channels, a source each, into one target: each as if it were alone, no table of two."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.cli.main import main
from spark_repl.control.cuts.cut_reader import cut
from spark_repl.control.cuts.cut_wait import wait_for
from spark_repl.control.cuts.joint_cut import JointCut, joint_cut
from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.claimed_names import ClaimedNames
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConfigError, OtherChannelError, TargetError
from spark_repl.observe.metrics import metrics
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import (
    HERE,
    applier,
    apply_without_stream,
    at_cut,
    cuts,
    rows,
    run,
    stopped,
)
from tests.support.tended import age, hurry, tended
from tests.support.two_sources import US, U, dies_before_a_cut, names_of, refused

A, B = Table("a"), Table("b")


def test_each_channel_has_its_own_data_cuts_and_status(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    """Side by side and by turns: data, positions, cuts, status and metrics of each."""
    with applier(log.folder, target) as first, applier(us.folder, target, channel="us") as other:
        for key in range(5):
            log.transaction(insert(A, (key, "eu")), insert(B, (key, "eu")))
            us.transaction(insert(U, (key, "us")))
            for replica in (other, first):
                replica.opened.applied.refresh()
                apply_without_stream(replica)
    assert names_of(target) == ["default", "us"]
    assert rows(target, A) == rows(target, B) == [(key, "eu") for key in range(5)]
    assert rows(target, U) == [(key, "us") for key in range(5)]
    assert {name for cut in cuts(target) for name in cut.tables} == {"t.a", "t.b"}
    assert {name for cut in cuts(target, "us") for name in cut.tables} == {"u.a"}
    for one in cuts(target, "us"):
        if one.tables:
            (shown,) = at_cut(target, one).values()
            assert shown == [(key, "us") for key in range(len(shown))]
    assert cuts(target, "us")[-1].gtid_executed == f"{US}:1-7"
    for name, tables in (("default", {"t.a", "t.b"}), ("us", {"u.a"})):
        looked = status(str(target), at=channel_at(str(target), name))
        assert looked["tables"].keys() == tables and looked["state"] == "stopped"
        said = [line for line in metrics(looked).splitlines() if not line.startswith("#")]
        assert said and all(f'channel="{name}"' in line for line in said)
    apps = {
        action["txn"]["appId"]
        for line in (target / "u" / "a" / "_delta_log").glob("*.json")
        for action in map(json.loads, line.read_text().splitlines())
        if "txn" in action
    }
    assert apps == {"spark_repl:us"}


@pytest.mark.parametrize("shared_state", [False, True])
def test_a_crash_of_one_channel_never_touches_the_other(
    log: LogWriter, us: LogWriter, target: Path, tmp_path: Path, shared_state: bool
) -> None:
    """Each is cut off further on, while the other one goes on: also where both name one folder for
    their working state."""
    keys = {"state_path": str(tmp_path / "state")} if shared_state else {}
    done, key = [False, False], 0
    for crash in range(1, 40):
        log.transaction(insert(A, (key, "eu")), insert(B, (key, "eu")))
        us.transaction(insert(U, (key, "us")))
        key += 1
        done[0] = run(log.folder, target, crash=crash, keys=keys)
        done[1] = run(us.folder, target, crash=crash, channel="us", keys=keys)
        if all(done):
            break
    assert all(done) and key > 3
    assert rows(target, A) == rows(target, B) == [(n, "eu") for n in range(key)]
    assert rows(target, U) == [(n, "us") for n in range(key)]
    for channel, tables in (("default", ["t.a", "t.b"]), ("us", ["u.a"])):
        for one in cuts(target, channel):
            assert set(one.tables) <= set(tables)
            shown = at_cut(target, one)
            assert len({len(found) for found in shown.values()}) < 2


def test_a_table_of_another_is_refused(log: LogWriter, us: LogWriter, target: Path) -> None:
    """By both channels' names, before anything of it is written; another name is a way out."""
    run(log.folder, target)
    us.ddl(Table("a").create)
    us.transaction(insert(A, (1, "us")))
    error = refused(us, target, "us")
    assert f'"default" has t.a of {target}: "us" can not feed it' in error.message
    assert (error.table, error.gtid) == ("t.a", us.gtid(2))
    log.transaction(insert(A, (2, "eu")))
    run(log.folder, target)
    assert rows(target, A) == [(2, "eu")]
    rule = {"match": "t.%", "to": "t_us.%"}
    assert run(us.folder, target, channel="us", tables=[rule])
    assert rows(target, Table("a", database="t_us")) == [(1, "us")]
    assert rows(target, A) == [(2, "eu")]


def test_the_first_is_refused_as_the_others_are(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    run(log.folder, target)
    assert run(us.folder, target, channel="us")
    log.ddl(U.create, "u")
    error = refused(log, target, "default")
    assert f'"us" has u.a of {target}: "default" can not feed it' in error.message


def test_a_table_whose_name_differs_only_in_case_is_refused(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    run(log.folder, target)
    us.ddl(Table("A").create)
    assert "t.A" in refused(us, target, "us").message


def test_rows_of_a_table_that_the_log_does_not_create(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    run(log.folder, target)
    us.transaction(insert(A, (1, "us")))
    assert refused(us, target, "us").table == "t.a"


def dies_renaming(log: Path, target: Path, channel: str) -> None:
    """An applier ends between a RENAME into x.y and its cut."""
    with pytest.raises(KeyboardInterrupt), pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.support.local_delta.CRASHES.told", dies_before_a_cut)
        run(log, target, channel=channel)
    assert not any("x.y" in cut.tables for cut in cuts(target, channel))


def test_rename_into_a_name_of_one_beside(log: LogWriter, us: LogWriter, target: Path) -> None:
    """Also into one that it has given to a table since its last cut: only a note says so."""
    run(log.folder, target)
    run(us.folder, target, channel="us")
    us.ddl("RENAME TABLE u.a TO x.y")
    dies_renaming(us.folder, target, "us")
    log.ddl("RENAME TABLE t.b TO x.y")
    assert '"us" has x.y' in refused(log, target, "default").message
    assert run(us.folder, target, channel="us")
    assert "x.y" in cuts(target, "us")[-1].tables


def test_rename_into_a_name_of_the_first(log: LogWriter, us: LogWriter, target: Path) -> None:
    """Its note comes with the cut, and what it dies without, another may have."""
    log.ddl("RENAME TABLE t.a TO x.z")
    run(log.folder, target)
    run(us.folder, target, channel="us")
    log.ddl("RENAME TABLE t.b TO x.y")
    dies_renaming(log.folder, target, "default")
    us.ddl("RENAME TABLE u.a TO x.y")
    assert run(us.folder, target, channel="us")
    assert '"us" has x.y' in refused(log, target, "default").message
    assert set(cuts(target)[-1].tables) == {"x.z", "t.b"}
    us.ddl("RENAME TABLE x.y TO x.z")
    assert '"default" has x.z' in refused(us, target, "us").message


@pytest.mark.parametrize("channel", ["default", "us"])
def test_only_one_of_two_channels_that_announce_a_table_gets_it(
    log: LogWriter, us: LogWriter, target: Path, channel: str
) -> None:
    """The one is just going to announce its table, as the other one comes."""
    run(log.folder, target)
    assert run(us.folder, target, channel="us")
    writer, other = (log, "us") if channel == "default" else (us, "default")
    control = channel_at(str(target), other).control
    control.claim()
    rival = ClaimedNames(control, str(target))
    fault: list[str] = []

    class Late(Control):
        def write(self, kind: str, **row: Any) -> None:
            if kind == "table" and not fault:
                fault.append("")
                with suppress(OtherChannelError):
                    rival.claim(["t.c"])
                    fault.append("taken")
            super().write(kind, **row)

    writer.ddl(Table("c").create)
    parts = replace(HERE, control=Late)
    if channel == "default":  # its announcement is its note
        assert '"us" has t.c' in refused(log, target, channel, parts=parts).message
        assert fault == ["", "taken"]
    else:
        assert run(us.folder, target, channel="us", parts=parts)
        assert fault == [""]


def test_a_lost_note_of_a_name_is_written_again(
    us: LogWriter, log: LogWriter, target: Path
) -> None:
    """With the power: a start writes it once more, before anything else comes."""
    run(log.folder, target)
    assert run(us.folder, target, channel="us")
    max((target / "_repl" / "control" / "_delta_log").glob("*.json")).unlink()
    assert names_of(target) == ["default"]
    assert run(us.folder, target, channel="us")
    assert names_of(target) == ["default", "us"]
    log.ddl(U.create, "u")
    assert '"us" has u.a' in refused(log, target, "default").message


def test_a_dropped_table_that_is_kept_under_another_name(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    odd = Table("`a@dropped`")
    run(log.folder, target)
    us.ddl(odd.create)
    assert run(us.folder, target, channel="us")
    log.ddl("DROP TABLE t.a")
    log.ddl(A.create)
    error = refused(log, target, "default", ddl={"policy": ["t.a: ignore_drop"]})
    assert error.table == "t.a@dropped"


def test_a_dropped_tables_name_stays_its_channels(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    """A dropped table's name stays its channel's: cuts that are kept show it."""
    run(log.folder, target)
    assert run(us.folder, target, channel="us")
    us.ddl("DROP TABLE u.a", "u")
    assert run(us.folder, target, channel="us")
    log.ddl("DROP TABLE t.a")
    run(log.folder, target)
    us.ddl(A.create)
    assert '"default" has t.a' in refused(us, target, "us").message
    log.ddl(U.create, "u")
    assert '"us" has u.a' in refused(log, target, "default").message


def test_a_table_that_waits_for_its_copy(log: LogWriter, us: LogWriter, target: Path) -> None:
    """The name is its channel's before there is anything of it."""
    run(log.folder, target)
    us.ddl("RENAME TABLE x.hidden TO t.b", "u")
    filters = {"ignore_table": ["x.hidden"]}
    error = stopped(us.folder, target, channel="us", copies=True, filters=filters)
    assert isinstance(error, OtherChannelError) and error.table == "t.b"


def test_commands_name_a_channel_if_there_are_several(
    log: LogWriter, us: LogWriter, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command names a channel, or is told which there are."""
    us.transaction(insert(U, (1, "us")))
    run(log.folder, target)
    assert run(us.folder, target, channel="us")
    at = ["--target", str(target)]
    wait, skip = ["wait", "--gtid", f"{US}:1"], ["skip", "--gtid", f"{US}:99"]
    lists = [[name, "list"] for name in ("cut", "xa", "quarantine")]
    others = [["cut", "show"], ["cut", "export"], ["report", "--out", "x"], ["status", "--metrics"]]
    for command in (wait, skip, *lists, *others):
        assert main([*command, *at]) == 2, command
        said = capsys.readouterr().err
        assert "default, us" in said and "--channel NAME" in said, said
    assert main(["wait", "--gtid", f"{US}:1-4", *at, "--channel", "us", "--timeout", "0"]) == 1
    assert main(["wait", "--gtid", f"{US}:1-3", *at, "--channel", "us", "--timeout", "0"]) == 0
    assert main(["skip", "--gtid", f"{US}:99", *at, "--channel", "us"]) == 0
    assert main(["xa", "list", *at, "--channel", "us"]) == 0
    capsys.readouterr()
    assert main(["cut", "show", *at, "--channel", "us", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"].keys() == {"u.a"}
    assert main(["status", *at, "--json"]) == 0
    looks = json.loads(capsys.readouterr().out)["channels"]
    assert {name: set(look["tables"]) for name, look in looks.items()} == {
        "default": {"t.a", "t.b"}, "us": {"u.a"}
    }  # fmt: skip
    assert main(["status", *at]) == 0
    shown = capsys.readouterr().out
    assert shown.count("running:") == 2 and "channel:  us" in shown
    assert main(["status", *at, "--channel", "us", "--metrics"]) == 0
    assert 'channel="us"' in capsys.readouterr().out
    with pytest.raises(ConfigError, match="several channels: default, us"):
        wait_for(str(target), f"{US}:1", 0)
    assert wait_for(str(target), f"{US}:1", 0, "us").tables.keys() == {"u.a"}


def test_a_configuration_names_the_channel_of_a_command(
    us: LogWriter, log: LogWriter, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command with a configuration concerns that channel, also before the channel has a table."""
    run(log.folder, target)
    file = tmp_path / "us.toml"
    file.write_text(f'channel = "us"\n[target]\npath = "{target}"\n[relay]\npath = "{us.folder}"\n')
    assert main(["cut", "list", "--config", str(file)]) == 1
    assert 'the channel "us" has applied nothing' in capsys.readouterr().err
    assert run(us.folder, target, channel="us")
    assert main(["cut", "show", "--config", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"].keys() == {"u.a"}
    assert main(["status", "--config", str(file), "--json"]) == 0
    look = json.loads(capsys.readouterr().out)
    assert look["replica_status"][0]["Channel_Name"] == "us" and set(look["tables"]) == {"u.a"}


def test_a_joint_cut_shows_each_channels_newest_cut(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    """A vector: each channel's newest cut, whose tables are no other's."""
    run(log.folder, target)
    us.transaction(insert(U, (1, "us")))
    assert run(us.folder, target, channel="us")
    spark = MagicMock()
    with pytest.raises(ConfigError, match="several channels"):
        cut(spark, str(target))
    assert cut(spark, str(target), channel="us").tables == ["u.a"]
    now = joint_cut(spark, str(target))
    assert sorted(now.tables) == ["t.a", "t.b", "u.a"]
    assert now.gtid_executed == {"default": f"{log.source}:1-3", "us": f"{US}:1-3"}
    assert sorted(now.create_views("now_")) == ["now_t_a", "now_t_b", "now_u_a"]
    assert now.manifest()["us"]["tables"]["u.a"]["files"]
    now.table("u.a")
    assert spark.read.format().option().load.call_args.args == (str(target / "u" / "a"),)
    with pytest.raises(ConfigError, match=r"no table 'x\.y'"):
        now.table("x.y")
    twice = {"a": now.cuts["us"], "b": now.cuts["us"]}
    with pytest.raises(TargetError, match='"a" and "b" both show it'):
        JointCut(twice)


def lying(*folders: Path) -> dict[Path, int]:
    """Each file with its size."""
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path: path.stat().st_size for path in paths}


@pytest.mark.parametrize("tidies", ["default", "us"])
def test_one_channels_upkeep_keeps_the_others_cuts(
    log: LogWriter, us: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch, tidies: str
) -> None:
    """Compaction, VACUUM, clean-up of logs, pruned cuts and removed tables are each channel's
    own."""
    for writer, table in ((log, A), (us, U)):
        for key in range(6):
            writer.transaction(insert(table, (key, "x")), insert(table, (key + 100, "x")))
            writer.transaction(update(table, ((key, "x"), (key, "y"))))
            writer.transaction(delete(table, (key + 100, "x")))
    log.ddl("DROP TABLE t.b")
    assert run(log.folder, target, group_max_transactions=1)
    assert run(us.folder, target, channel="us", group_max_transactions=1)
    keeps, table, own = ("us", U, log) if tidies == "default" else ("default", A, us)
    shown = [at_cut(target, cut) for cut in cuts(target, keeps)]
    home = Layout(str(target), home=Layout.home_of("us") if keeps == "us" else "")
    kept = [target / table.database, Path(home.xa), Path(home.quarantine)]
    before = lying(*kept)
    hurry(monkeypatch)
    tended(own.folder, target, tidies)
    age(target)
    tended(own.folder, target, tidies)
    assert len(cuts(target, tidies)) == 1
    assert not (target / "t" / "b").exists() or tidies == "us"
    assert lying(*kept) == before
    assert len(shown) > 15 and [at_cut(target, cut) for cut in cuts(target, keeps)] == shown
    for writer, names in ((log, '"us" has u.A'), (us, '"default" has t.A')):  # notes are kept, too
        database = names[-3]
        writer.ddl(f"CREATE TABLE {database}.A (id INT)", database)
        channel = "default" if writer is log else "us"
        assert names in refused(writer, target, channel).message
