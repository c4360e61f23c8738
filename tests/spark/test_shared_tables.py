"""A Delta table that two channels feed, by Delta's own log; Spark reads it at a joint cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_repl import Config, Replica, cut, joint_cut
from tests.spark.lab import replica_of
from tests.support.binlog_writer import LogWriter, delete, insert, update
from tests.support.local_delta import apply_without_stream
from tests.support.shared import CHANNELS, SHARED, check, one, writers


def comes_first(us: Replica, log: LogWriter, eu: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one channel takes the version for which the other's next commit is planned."""
    delta = eu.tracking.delta
    true = delta.commit

    def commit(*args: Any) -> int:
        monkeypatch.setattr(delta, "commit", true)
        log.transaction(insert(one("us"), (99, "first")))
        us.opened.applied.refresh()
        assert apply_without_stream(us).counters.retries == 0
        return true(*args)

    monkeypatch.setattr(delta, "commit", commit)


def test_each_channels_rows_at_its_own_cut(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, target = writers(tmp_path), tmp_path / "lake"
    for channel, log in logs.items():
        log.ddl(one(channel).create)
        log.transaction(insert(one(channel), (1, channel), (2, "b")))
    configs = {
        channel: Config.from_mapping(
            {
                "channel": channel,
                "relay": {"path": str(log.folder)},
                "target": {"path": str(target), "compact_files": 2},
                "apply": {"group_max_transactions": 1, "writer": "direct"},
                "tables": [SHARED],
            }
        )
        for channel, log in logs.items()
    }
    with (
        replica_of(spark, configs["eu"]) as eu,
        replica_of(spark.newSession(), configs["us"]) as us,
    ):
        both = {"eu": eu, "us": us}
        for number in range(3):
            for channel, replica in both.items():
                log = logs[channel]
                log.transaction(insert(one(channel), (10 + number, "n")))
                if number == 1 and channel == "eu":
                    log.ddl("ALTER TABLE shop_eu1.orders ADD w INT DEFAULT 5")
                    wide = one("eu", 1, ("w", "int"))
                    log.transaction(update(wide, ((1, "eu", 5), (1, "x", 6))))
                    log.ddl("ALTER TABLE shop_eu1.orders DROP w")
                if number == 1 and channel == "us":
                    log.transaction(delete(one("us"), (2, "b")))
                if number == 2 and channel == "eu":
                    comes_first(us, logs["us"], eu, monkeypatch)
                replica.opened.applied.refresh()
                assert apply_without_stream(replica).counters.retries == 0
    check(target, logs, tmp_path / "apart")
    now = joint_cut(spark, str(target))
    assert list(now.tables) == ["lake.orders"] and set(now.gtid_executed) == set(CHANNELS)
    rows = {
        "eu": [(1, "x"), (2, "b"), (10, "n"), (11, "n"), (12, "n")],
        "us": [(1, "us"), (10, "n"), (11, "n"), (12, "n"), (99, "first")],
    }
    want = sorted((*row, f"{channel}1", None) for channel in CHANNELS for row in rows[channel])
    assert now.create_views("now_") == ["now_lake_orders"]
    frame = spark.table("now_lake_orders")
    assert frame.columns == ["id", "v", "shop", "w"]
    assert sorted(map(tuple, frame.collect())) == want
    for channel in CHANNELS:
        own = cut(spark, str(target), channel=channel).table("lake.orders").drop("w")
        assert sorted(map(tuple, own.collect())) == [(*row, f"{channel}1") for row in rows[channel]]
