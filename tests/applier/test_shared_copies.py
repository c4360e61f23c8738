"""First copies into a table that several channels feed, beside the others' rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.control.records import recorded_filters
from spark_repl.control.records.channels import channel_at, opened
from spark_repl.control.records.copies import Copy, last_copy, record_copy
from spark_repl.copy.copy_plan import in_shared
from spark_repl.gtid import GtidSet
from spark_repl.rules.replication_filters import ReplicationFilters
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import run
from tests.support.made_copy import read_into
from tests.support.shared import BOTH, check, commits, one, seen, writers
from tests.support.tended import age, hurry


def config(target: Path, channel: str) -> Config:
    return Config.from_mapping(
        {"channel": channel, "target": {"path": str(target)}, "tables": BOTH["tables"]}
    )


def plan(target: Path, channel: str, held: str, *names: str) -> None:
    """Plans a copy of all tables of the channel, as ``copy_plan`` does."""
    made = config(target, channel)
    control = opened(made).control
    control.claim()
    try:
        recorded_filters.record(control, ReplicationFilters.of(made))
        start = GtidSet.parse(held)
        paths = {name: f"lake/orders//{number}" for number, name in enumerate(names, 1)}
        copy = Copy(start, dict.fromkeys(names, ()), paths, held=start)
        record_copy(control, in_shared(made, control, copy))
    finally:
        control.release()


def copied(target: Path, channel: str, table: Table, rows: Sequence[Any]) -> None:
    shard = table.database.removeprefix("shop_")
    read_into(config(target, channel), table, rows, f"lake.orders//{shard}")


def finish(target: Path, channel: str, until: str) -> None:
    control = opened(config(target, channel)).control
    control.claim()
    try:
        copy = last_copy(control)
        assert copy is not None
        record_copy(control, replace(copy, until=GtidSet.parse(until)))
    finally:
        control.release()


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, LogWriter]:
    made = writers(tmp_path)
    for channel, log in made.items():
        log.ddl(one(channel).create)
        log.transaction(insert(one(channel), (1, channel), (2, "b")))
        log.transaction(update(one(channel), ((2, "b"), (2, "c"))))
    return made


def apply(logs: dict[str, LogWriter], target: Path, channel: str, **more: Any) -> bool:
    return run(logs[channel].folder, target, channel=channel, **{**BOTH, **more})


@pytest.mark.parametrize("first", ["eu", "us"])
@pytest.mark.parametrize("crash", [0, 1, 4, 8, 12])
def test_a_copy_keeps_the_other_channels_rows(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path, first: str, crash: int
) -> None:
    other = "us" if first == "eu" else "eu"
    assert apply(logs, target, first)
    log = logs[other]
    plan(target, other, f"{log.source}:1-2", f"lake.orders//{other}1")
    logs[first].transaction(insert(one(first), (7, "meanwhile")))
    assert apply(logs, target, first)
    copied(target, other, one(other), [(1, other, f"{other}1"), (2, "c", f"{other}1")])
    logs[first].transaction(insert(one(first), (8, "meanwhile")))
    assert apply(logs, target, first)
    finish(target, other, f"{log.source}:1-3")
    if not apply(logs, target, other, crash=crash):
        assert apply(logs, target, other)
    check(target, logs, tmp_path / "apart")


def test_a_copy_that_is_given_up_leaves_no_row(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    assert apply(logs, target, "eu")
    log = logs["us"]
    plan(target, "us", f"{log.source}:1-2", "lake.orders//us1")
    copied(target, "us", one("us"), [(1, "us", "us1"), (9, "gone since", "us1")])
    plan(target, "us", f"{log.source}:1-3", "lake.orders//us1")
    copied(target, "us", one("us"), [(1, "us", "us1"), (2, "c", "us1")])
    finish(target, "us", f"{log.source}:1-3")
    assert apply(logs, target, "us") and apply(logs, target, "eu")
    check(target, logs, tmp_path / "apart")
    assert [*seen(target, "us").values()][-1]["us1"] != []


def test_the_first_of_all_is_a_copy(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    for channel, log in logs.items():
        plan(target, channel, f"{log.source}:1-2", f"lake.orders//{channel}1")
    for channel, log in logs.items():
        rows = [(1, channel, f"{channel}1"), (2, "c", f"{channel}1")]
        copied(target, channel, one(channel), rows)
        finish(target, channel, f"{log.source}:1-3")
        assert apply(logs, target, channel)
    check(target, logs, tmp_path / "apart")


def test_the_log_stays_from_where_a_copy_began(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a cut shows it."""
    from tests.applier.test_shared_upkeep import tended

    assert apply(logs, target, "eu")
    log = logs["us"]
    plan(target, "us", f"{log.source}:1-2", "lake.orders//us1")
    copied(target, "us", one("us"), [(1, "us", "us1"), (2, "c", "us1")])
    hurry(monkeypatch)
    for key in range(100, 103):
        logs["eu"].transaction(insert(one("eu"), (key, "x")))
        age(target)
        tended(logs, target, "eu")
    finish(target, "us", f"{log.source}:1-3")
    assert apply(logs, target, "us")
    assert channel_at(str(target), "us").control.last_cut() is not None
    assert commits(target)
    check(target, logs, tmp_path / "apart")
