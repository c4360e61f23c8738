"""What the channels of a shared table promise stays, whichever of them tidies up."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.control.cuts.cut_export import manifest
from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.retention import pin
from spark_repl.delta.log.checkpoint_schedule import EVERY
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import applier, apply_without_stream, cuts, run
from tests.support.shared import BOTH, CHANNELS, FOLDER, check, commits, one, seen, writers
from tests.support.tended import KEYS, PARTS, age, hurry, tend

KEY = itertools.count(1000)


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, LogWriter]:
    made = writers(tmp_path)
    for channel, log in made.items():
        log.ddl(one(channel).create)
        for key in range(10):
            log.transaction(insert(one(channel), (key, "x"), (key + 100, "x")))
            log.transaction(update(one(channel), ((key, "x"), (key, "y"))))
            log.transaction(delete(one(channel), (key + 100, "x")))
    return made


def by_turns(logs: dict[str, LogWriter], target: Path, **more: Any) -> None:
    """A group of each, one after the other."""
    given = {**BOTH, **more, "group_max_transactions": 1}
    for upto in range(3, 33, 8):
        for channel in CHANNELS:
            log = logs[channel]
            until = Until.parse(f"after-gtids:{log.source}:1-{min(upto, log.gno)}")
            assert run(log.folder, target, channel=channel, until=until, **given)
    for channel in CHANNELS:
        assert run(logs[channel].folder, target, channel=channel, **given)


def tended(logs: dict[str, LogWriter], target: Path, channel: str) -> None:
    given = {**BOTH, "keys": {**BOTH["keys"], **KEYS}}
    with applier(logs[channel].folder, target, channel=channel, parts=PARTS, **given) as found:
        apply_without_stream(found)
        for _ in range(2):
            tend(found)


@pytest.mark.slow
@pytest.mark.parametrize("tidies", CHANNELS)
def test_upkeep_of_one_channel_keeps_the_others_cuts(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    tidies: str,
) -> None:  # fmt: skip
    """Compaction, VACUUM and clean-up of the log, also if cuts of the other channel are pinned and
    that channel lags far behind."""
    by_turns(logs, target)
    keeps = "us" if tidies == "eu" else "eu"
    before, count = seen(target, keeps), len(commits(target))
    assert len(before) > 5
    control = channel_at(str(target), keeps).control
    pin(control, control.cuts()[2], "kept")
    hurry(monkeypatch)
    for _ in range(2):
        tended(logs, target, tidies)
        age(target)
    assert seen(target, keeps) == before
    assert len(cuts(target, tidies)) == 1
    assert (len(commits(target)) < count) == (tidies == "eu")
    logs[keeps].transaction(insert(one(keeps), (500, "new")))
    logs[tidies].transaction(insert(one(tidies), (500, "new")))
    for channel in (keeps, tidies):
        assert run(logs[channel].folder, target, channel=channel, **BOTH)
    check(target, logs, tmp_path / "apart")


@pytest.mark.slow
def test_the_first_channel_tidies_only_what_none_needs(
    logs: dict[str, LogWriter], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only what none of them needs."""
    by_turns(logs, target)
    hurry(monkeypatch)
    age(target)
    count = len(commits(target))
    tended(logs, target, "us")
    assert len(commits(target)) >= count
    for _ in range(2):
        for channel in CHANNELS:
            logs[channel].transaction(insert(one(channel), (next(KEY), "more")))
            tended(logs, target, channel)
            age(target)
    assert len(commits(target)) < count / 2


def test_one_that_stands_behind_keeps_the_log(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it can look at all that the other has done since."""
    assert run(logs["us"].folder, target, channel="us", **BOTH)
    for key in range(200, 203):
        logs["eu"].transaction(insert(one("eu"), (key, "z")))
        assert run(logs["eu"].folder, target, channel="eu", **BOTH)
    hurry(monkeypatch)
    age(target)
    tended(logs, target, "eu")
    logs["us"].transaction(insert(one("us"), (500, "new")))
    assert run(logs["us"].folder, target, channel="us", **BOTH)
    check(target, logs, tmp_path / "apart")


@pytest.mark.slow
def test_one_whose_shards_are_dropped_keeps_its_cuts_alone(
    logs: dict[str, LogWriter], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log goes on without it."""
    logs["us"].ddl("DROP TABLE shop_us1.orders")
    by_turns(logs, target)
    hurry(monkeypatch)
    for _ in range(3):
        logs["eu"].transaction(insert(one("eu"), (next(KEY), "more")))
        age(target)
        tended(logs, target, "eu")
    shown = {at.version for cut in cuts(target, "us") for at in cut.tables.values()}
    assert {version for version, _ in commits(target) if version < EVERY} <= shown


def test_files_stay_as_long_as_the_longest_promise(
    logs: dict[str, LogWriter], target: Path
) -> None:
    short = {"keys": {**BOTH["keys"], "cut_retention_hours": 30}}
    long = {"keys": {**BOTH["keys"], "cut_retention_hours": 300}}
    assert run(logs["eu"].folder, target, channel="eu", **{**BOTH, **short})
    assert run(logs["us"].folder, target, channel="us", **{**BOTH, **long})
    assert run(logs["eu"].folder, target, channel="eu", **{**BOTH, **short})
    made = [a["metaData"] for _, actions in commits(target) for a in actions if "metaData" in a]
    assert made[-1]["configuration"]["delta.deletedFileRetentionDuration"] == "interval 300 hours"


def test_a_manifest_has_a_channels_own_files(logs: dict[str, LogWriter], target: Path) -> None:
    for channel in CHANNELS:
        assert run(logs[channel].folder, target, channel=channel, **BOTH)
    for channel in CHANNELS:
        one_of = channel_at(str(target), channel)
        newest = one_of.control.last_cut()
        assert newest is not None
        made = manifest(one_of.layout, newest)["tables"]["lake.orders"]
        values = {v for file in made["files"] for v in file["partition_values"].values()}
        assert values == {f"{channel}1"} and made["path"] == str(target / FOLDER)
        json.dumps(made)


def test_a_cut_says_whose_rows_it_has(
    logs: dict[str, LogWriter], target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the version that it names has the others' rows, too."""
    for channel in CHANNELS:
        assert run(logs[channel].folder, target, channel=channel, **BOTH)
    show = ["cut", "show", "--at", "latest", "--target", str(target), "--channel", "us"]
    assert main(show) == 0
    said = "other channels feed it, too: lake.orders: of the cut are the shards us1"
    assert said in capsys.readouterr().out
    assert main([*show, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["tables"]["lake.orders"]
    assert shown["path"] == FOLDER and shown["shards"] == ["us1"]


@pytest.mark.slow
def test_a_dropped_shard_leaves_the_folder(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is the other's, too; and the shard may come again."""
    by_turns(logs, target)
    logs["eu"].ddl("DROP TABLE shop_eu1.orders")
    assert run(logs["eu"].folder, target, channel="eu", **BOTH)
    hurry(monkeypatch)
    for _ in range(3):
        age(target)
        tended(logs, target, "eu")
    logs["eu"].ddl(one("eu").create)
    logs["eu"].transaction(insert(one("eu"), (1, "again")))
    for channel in ("us", "eu"):
        assert run(logs[channel].folder, target, channel=channel, **BOTH)
    check(target, logs, tmp_path / "apart")


def test_a_channel_without_changes_follows_the_shared_table(
    logs: dict[str, LogWriter], target: Path
) -> None:
    """So the log before may go that it would look at."""
    other = Table("x")
    logs["us"].ddl(other.create)
    assert run(logs["us"].folder, target, channel="us", **BOTH)
    assert run(logs["eu"].folder, target, channel="eu", **BOTH)
    with applier(logs["us"].folder, target, channel="us", **BOTH) as found:
        tend(found)
        logs["us"].transaction(insert(other, (1, "a")))
        found.opened.applied.refresh()
        apply_without_stream(found)
    shown = cuts(target, "us")[-1].tables["lake.orders//us1"]
    assert shown.version == commits(target)[-1][0]
