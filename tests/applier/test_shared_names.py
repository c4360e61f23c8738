"""What the channels of a shared table have to agree on, and what is refused otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_repl import Config
from spark_repl.config.side_by_side import side_by_side
from spark_repl.control.records.channels import channels
from spark_repl.control.records.shared_tables import SharedTable, shared_tables
from spark_repl.errors import ConfigError, OtherChannelError, SettingError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import run, stopped
from tests.support.shards import MAPPED, RULE, shard
from tests.support.shared import BOTH, SHARED, check, one, writers


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, LogWriter]:
    made = writers(tmp_path)
    for channel, log in made.items():
        log.ddl(one(channel).create)
        log.transaction(insert(one(channel), (1, channel)))
    return made


def apply(logs: dict[str, LogWriter], target: Path, channel: str, **more: Any) -> bool:
    return run(logs[channel].folder, target, channel=channel, **{**BOTH, **more})


def by(rule: dict[str, Any]) -> dict[str, Any]:
    return {**MAPPED, "tables": [rule]}


@pytest.mark.parametrize("first", ["eu", "us"])
def test_both_channels_must_declare_a_shared_table(
    logs: dict[str, LogWriter], target: Path, first: str
) -> None:
    other = "us" if first == "eu" else "eu"
    assert apply(logs, target, first)
    error = stopped(logs[other].folder, target, channel=other, **by(RULE))
    assert isinstance(error, SettingError) and "several channels feed the table" in error.message
    assert apply(logs, target, other)


@pytest.mark.parametrize("first", ["eu", "us"])
def test_a_table_that_one_has_alone(logs: dict[str, LogWriter], target: Path, first: str) -> None:
    other = "us" if first == "eu" else "eu"
    assert run(logs[first].folder, target, channel=first, **by(RULE))
    error = stopped(logs[other].folder, target, channel=other, **BOTH)
    assert isinstance(error, OtherChannelError) and f'"{first}" has lake.orders' in error.message
    error = stopped(logs[first].folder, target, channel=first, **BOTH)
    assert isinstance(error, SettingError) and "made for one channel" in error.message


def test_a_channel_that_a_shared_table_does_not_name_is_refused(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    assert apply(logs, target, "eu")
    asia = LogWriter(tmp_path / "asia", source="77777777-2222-3333-4444-555555555555")
    asia.ddl(one("asia").create)
    error = stopped(asia.folder, target, channel="asia", **by(RULE))
    assert isinstance(error, OtherChannelError) and '"eu", "us" has lake.orders' in error.message
    plain = LogWriter(tmp_path / "plain", source="88888888-2222-3333-4444-555555555555")
    plain.ddl(Table("orders", database="lake").create)
    error = stopped(plain.folder, target, channel="plain")
    assert isinstance(error, OtherChannelError) and error.table == "lake.orders"


def test_other_rules_than_the_recorded_ones_are_refused(
    logs: dict[str, LogWriter], target: Path
) -> None:
    assert apply(logs, target, "eu")
    for more in (
        {"key_prefix": "region"},
        {"channels": ["us", "eu"]},
        {"channels": ["us", "asia"]},
    ):
        error = stopped(logs["us"].folder, target, channel="us", **by({**SHARED, **more}))
        assert isinstance(error, SettingError) and "on record" in error.message, more
    assert apply(logs, target, "us")
    error = stopped(logs["us"].folder, target, channel="us", **by(RULE))
    assert isinstance(error, SettingError) and "does not say so" in error.message


def test_a_channel_that_comes_later(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    """Behind those that are there, and each has to be told before it meets its commits."""
    assert apply(logs, target, "eu") and apply(logs, target, "us")
    logs["cn"] = LogWriter(tmp_path / "cn", source="77777777-2222-3333-4444-555555555555")
    logs["cn"].ddl(one("cn").create)
    logs["cn"].transaction(insert(one("cn"), (1, "c")))
    wider = by({**SHARED, "channels": ["eu", "us", "cn"]})
    assert run(logs["cn"].folder, target, channel="cn", **wider)
    error = stopped(logs["eu"].folder, target, channel="eu", **BOTH)
    assert isinstance(error, SettingError) and '"cn"' in error.message
    for channel in ("us", "eu"):
        assert run(logs[channel].folder, target, channel=channel, **wider)
    check(target, logs, tmp_path / "apart")


def test_a_shard_that_another_has(logs: dict[str, LogWriter], target: Path) -> None:
    """By its name, in any case."""
    more = {"source": {"lower_case_table_names": 0}}
    assert apply(logs, target, "eu", **more) and apply(logs, target, "us", **more)
    for name, owner, channel in (("us1", "us", "eu"), ("EU1", "eu", "us")):
        logs[channel].ddl(shard(name).create)
        error = stopped(logs[channel].folder, target, channel=channel, **BOTH, **more)
        assert isinstance(error, OtherChannelError)
        assert f'"{owner}" has lake.orders//{name}' in error.message


@pytest.mark.parametrize("first", ["eu", "us"])
def test_a_record_that_was_lost(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path, first: str
) -> None:
    """With the power: a start writes it once more, before anything else comes."""
    other = "us" if first == "eu" else "eu"
    assert apply(logs, target, first) and apply(logs, target, other)
    before = on_record(target)
    DeltaTable(str(target / "_repl" / "control")).delete("kind = 'shared_table'")
    assert on_record(target) == []
    error = stopped(logs[other].folder, target, channel=other, **BOTH)
    assert isinstance(error, OtherChannelError)
    for channel in (first, other):
        assert apply(logs, target, channel)
    assert on_record(target) == before and len(before) == 1
    check(target, logs, tmp_path / "apart")


def on_record(target: Path) -> list[SharedTable]:
    return [*shared_tables(channels(str(target))[0].control).values()]


def test_faults_of_channels_in_a_rule_are_named() -> None:
    def faults(channel: str, rule: dict[str, Any]) -> list[str]:
        values = {"channel": channel, "tables": [rule]}
        with pytest.raises(ConfigError) as caught:
            Config.from_mapping(values)
        return [*caught.value.faults]

    assert faults("asia", SHARED) == ["tables[1].channels has no asia, which is this channel"]
    plain = {"match": "a.b", "channels": ["eu", "us"]}
    assert "channels needs key_prefix" in faults("eu", plain)[0]
    assert "lower case" in faults("eu", {**SHARED, "to": "lake.Orders"})[-1]
    for value, said in (
        (["eu"], "names eu alone"), (["eu", "eu"], "names eu twice"), ("eu", "must be a list"),
    ):  # fmt: skip
        assert said in faults("eu", {**SHARED, "channels": value})[0]


def test_faults_of_two_channels_configurations_are_named(tmp_path: Path) -> None:
    def config(channel: str, rule: dict[str, Any]) -> Config:
        target, relay = {"path": str(tmp_path)}, {"path": str(tmp_path / channel)}
        source = {"host": channel}
        return Config.from_mapping(
            {
                "channel": channel, "tables": [rule], "target": target, "relay": relay,
                "source": source,
            }
        )  # fmt: skip

    def faults(us: dict[str, Any]) -> list[str]:
        return side_by_side({"eu.toml": config("eu", SHARED), "us.toml": config("us", us)})

    assert faults(SHARED) == []
    for us in (RULE, {**SHARED, "key_prefix": "region"}, {**SHARED, "channels": ["us", "eu"]}):
        assert len(faults(us)) == 1 and "key_prefix and channels, in both" in faults(us)[0]
    assert faults({**SHARED, "to": "lake.us"}) != []
    assert faults({"match": "a.b"}) != []


def test_a_shared_table_is_recorded_once(logs: dict[str, LogWriter], target: Path) -> None:
    for _ in range(2):
        assert apply(logs, target, "us") and apply(logs, target, "eu")
    first = channels(str(target))[0].control
    assert len(first.rows("shared_table")) == 1
    (stands,) = on_record(target)
    assert (stands.path, stands.channels, stands.column) == ("lake/orders", ("eu", "us"), "shop")
