"""``channels`` of ``[[tables]]``: several sources' shards in one Delta table, each by a channel of
its own: each channel's cuts are as if it were alone, whatever comes between."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import ConcurrentChangeError, SettingError, TargetError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import STRIDE
from tests.support.local_delta import (
    CRASHES,
    applier,
    apply_without_stream,
    cuts,
    put,
    run,
    stopped,
)
from tests.support.read_rows import Read, repaired
from tests.support.shared import (
    BOTH,
    CHANNELS,
    FOLDER,
    LogIdentity,
    check,
    check_seen,
    commits,
    fields,
    one,
    seen,
    wanted,
    writers,
)


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, LogWriter]:
    made = writers(tmp_path)
    for channel, log in made.items():
        log.ddl(one(channel).create, f"shop_{channel}1")
        log.transaction(insert(one(channel), (1, channel), (2, "b")))
    return made


def apply(logs: dict[str, LogWriter], target: Path, channel: str, **more: Any) -> bool:
    return run(logs[channel].folder, target, channel=channel, **{**BOTH, **more})


def test_each_channels_shards_are_as_if_it_were_alone(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    for channel in CHANNELS:
        assert apply(logs, target, channel)
    wide = one("eu", 1, ("w", "int"))
    logs["eu"].ddl("ALTER TABLE shop_eu1.orders ADD w INT DEFAULT 4", "shop_eu1")
    logs["eu"].transaction(update(wide, ((1, "eu", 4), (1, "x", 5))))
    logs["us"].ddl(one("us", 2, ("u", "int")).create, "shop_us2")
    logs["us"].transaction(
        delete(one("us"), (2, "b")), insert(one("us", 2, ("u", "int")), (1, "", 3))
    )
    for channel in CHANNELS * 2:
        assert apply(logs, target, channel)
    check(target, logs, tmp_path / "apart")
    assert fields(target) == ["id", "v", "shop", "w", "u"]
    versions = {at.version for at in cuts(target, "eu")[-1].tables.values()}
    assert len(versions) == 1


@pytest.fixture
def changed(tmp_path: Path) -> dict[str, LogWriter]:
    """A log of each channel's source with statements of each kind."""
    made = writers(tmp_path)
    for channel, log in made.items():
        wide, other = one(channel, 1, ("w", "int")), one(channel, 1, (channel, "int"))
        log.ddl(wide.create)
        log.transaction(insert(wide, (1, "a", 1), (2, "b", 2)))
        log.ddl(f"ALTER TABLE shop_{channel}1.orders ADD {channel} INT DEFAULT 3")
        log.ddl(f"ALTER TABLE shop_{channel}1.orders DROP w")
        log.transaction(delete(other, (1, "a", 3)))
        log.ddl(f"TRUNCATE TABLE shop_{channel}1.orders")
        log.transaction(insert(other, (5, "e", 1)))
        log.ddl(f"DROP TABLE shop_{channel}1.orders")
        log.ddl(wide.create)
        log.transaction(insert(wide, (5, "e", 1)))
    return made


@pytest.mark.slow
def test_a_channel_comes_between_any_two_steps(
    changed: dict[str, LogWriter], tmp_path: Path
) -> None:
    """At each step of the one the other takes the version that it was planned behind."""
    want = wanted(changed, tmp_path / "apart")
    for step in range(1, 400, STRIDE // 2 or 1):
        target, left = tmp_path / f"lake{step}", [step]

        def told(name: str, left: list[int] = left, target: Path = target) -> None:
            left[0] -= 1
            if not left[0]:
                CRASHES.told = lambda name: None
                assert apply(changed, target, "us")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(CRASHES, "told", told)
            assert apply(changed, target, "eu", group_max_transactions=1)
        if left[0] > 0:
            break
        check_seen(target, want)
        assert apply(changed, target, "us") and apply(changed, target, "eu")
    assert step > 20


def test_both_come_to_one_version_again_and_again(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    """A channel that commits all the time never holds up the other, which writes nothing twice."""
    for channel in CHANNELS:
        assert apply(logs, target, channel)
    us = logs["us"]
    with applier(us.folder, target, channel="us", **BOTH) as busy:
        key = 100

        def told(name: str) -> None:
            nonlocal key
            if name == "before_put" and key % 5:
                CRASHES.told = lambda name: None
                key += 1
                us.transaction(insert(one("us"), (key, "busy")))
                busy.opened.applied.refresh()
                apply_without_stream(busy)
                CRASHES.told = told

        key = 101
        logs["eu"].transaction(insert(one("eu"), (7, "new")))
        logs["eu"].ddl("ALTER TABLE shop_eu1.orders ADD w INT DEFAULT 4", "shop_eu1")
        logs["eu"].ddl("TRUNCATE TABLE shop_eu1.orders", "shop_eu1")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(CRASHES, "told", told)
            with applier(logs["eu"].folder, target, channel="eu", **BOTH) as found:
                assert apply_without_stream(found).counters.retries == 0
    assert key > 103
    check(target, logs, tmp_path / "apart")


@pytest.mark.parametrize(
    "error", [OSError("lost"), ConcurrentChangeError("as a store's second try")]
)
def test_an_answer_is_lost_and_the_other_commits_on_top(
    changed: dict[str, LogWriter], tmp_path: Path, error: Exception
) -> None:
    want = wanted(changed, tmp_path / "apart")
    for number in range(1, 10, 3):
        target, left = tmp_path / f"lake{number}", [number]

        def told(name: str, left: list[int] = left, target: Path = target) -> None:
            left[0] -= name == "after_put"
            if not left[0]:
                CRASHES.told = bool
                left[0] = -1
                assert apply(changed, target, "us")
                raise error

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(CRASHES, "told", told)
            assert apply(changed, target, "eu", group_max_transactions=1)
        assert left == [-1]
        check_seen(target, want)


def test_rows_are_repaired_behind_what_the_other_commits(
    logs: dict[str, LogWriter], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for channel in CHANNELS:
        assert apply(logs, target, channel)

    def told(name: str) -> None:
        if name == "before_put":
            monkeypatch.setattr(CRASHES, "told", bool)
            logs["us"].transaction(insert(one("us"), (50, "first")))
            assert apply(logs, target, "us")

    rows = Read([(1, "right", "eu1")], [(2, None, None)], Table("orders//eu1", database="lake"))
    made = repaired(
        logs["eu"], target, rows, meanwhile=lambda: monkeypatch.setattr(CRASHES, "told", told),
        channel="eu", **BOTH,
    )  # fmt: skip
    assert made is not None and made.outcome.result() == commits(target)[-1][0]
    assert [*seen(target, "eu").values()][-1] == {"eu1": [(("id", 1), ("v", "right"))]}
    assert (("id", 50), ("v", "first")) in [*seen(target, "us").values()][-1]["us1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 10))]
)
def test_random_histories_of_two_channels_end_equal(
    target: Path, tmp_path: Path, seed: int
) -> None:
    """In groups of random bounds, each channel cut off at random."""
    rand = random.Random(f"shared {seed}")
    logs = writers(tmp_path)
    histories = {channel: LogIdentity(log, channel, rand) for channel, log in logs.items()}
    for _ in range(rand.randint(6, 12)):
        channel = rand.choice(CHANNELS)
        for _ in range(rand.randint(1, 6)):
            histories[channel].step()
        crash = rand.choice([0, 0, rand.randint(1, 30)])
        apply(logs, target, channel, crash=crash, group_max_transactions=rand.choice([1, 3, 100]))
    for channel in CHANNELS:
        assert apply(logs, target, channel)
    check(target, logs, tmp_path / "apart")


@pytest.mark.slow
def test_a_crash_of_one_channel_leaves_both_channels_shards_equal(
    changed: dict[str, LogWriter], tmp_path: Path
) -> None:
    """One channel is cut off at each step of its way, the other one goes on meanwhile."""
    want = wanted(changed, tmp_path / "apart")
    for step in range(1, 400, STRIDE):
        target = tmp_path / f"lake{step}"
        ended = apply(changed, target, "eu", crash=step)
        apply(changed, target, "us", crash=step)
        apply(changed, target, "eu", crash=step % 7 + 1, group_max_transactions=1)
        for channel in ("us", "eu"):
            assert apply(changed, target, channel)
        check_seen(target, want)
        if ended:
            break
    assert step > 20


def test_a_foreign_commit_stops_each_channel(logs: dict[str, LogWriter], target: Path) -> None:
    for channel in CHANNELS:
        assert apply(logs, target, channel)
    add = {"path": "x", "size": 1, "dataChange": True, "partitionValues": {}}
    put(str(target / FOLDER), commits(target)[-1][0] + 1, [{"add": add}], operation="WRITE")
    for channel in CHANNELS:
        error = stopped(logs[channel].folder, target, channel=channel, **BOTH)
        assert (
            isinstance(error, TargetError) and "another writer changed the table" in error.message
        )


def test_a_channel_that_touches_the_others_shards_stops_them(
    logs: dict[str, LogWriter], target: Path
) -> None:
    """Whatever has made it do so."""
    for channel in CHANNELS:
        assert apply(logs, target, channel)
    removed = next(
        a["add"]
        for _, actions in commits(target)
        for a in actions
        if "add" in a and "eu1" in a["add"]["partitionValues"].values()
    )
    actions = [{"remove": {**removed, "dataChange": True}}]
    put(str(target / FOLDER), commits(target)[-1][0] + 1, actions, "spark_repl:us", 1)
    error = stopped(logs["eu"].folder, target, channel="eu", **BOTH)
    assert isinstance(error, TargetError) and "files of this channel's shards, eu1" in error.message


def test_another_channels_column_of_another_type_stops(
    logs: dict[str, LogWriter], target: Path
) -> None:
    logs["eu"].ddl("ALTER TABLE shop_eu1.orders ADD w INT")
    logs["us"].ddl("ALTER TABLE shop_us1.orders ADD w VARCHAR(9)")
    assert apply(logs, target, "eu")
    error = stopped(logs["us"].folder, target, channel="us", **BOTH)
    assert isinstance(error, SettingError) and "column w is integer in lake.orders" in error.message
    logs["eu"].ddl("ALTER TABLE shop_eu1.orders MODIFY v INT")
    error = stopped(logs["eu"].folder, target, channel="eu", **BOTH)
    assert isinstance(error, SettingError) and "column v is string in lake.orders" in error.message


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        ("RENAME COLUMN v TO u", "column v would be u, in one of the tables that lake.orders has"),
        ("MODIFY id BIGINT", "column id is integer in lake.orders, with"),
    ],
)
def test_alters_that_change_shared_columns_stop(
    logs: dict[str, LogWriter], target: Path, alter: str, says: str
) -> None:
    logs["us"].ddl(f"ALTER TABLE shop_us1.orders {alter}")
    error = stopped(logs["us"].folder, target, channel="us", **BOTH)
    assert isinstance(error, SettingError) and says in error.message
    assert "give all of its channels another target.path" in str(error.hint)


def test_a_channel_may_have_a_narrower_type(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    logs["eu"].ddl("ALTER TABLE shop_eu1.orders ADD w DOUBLE DEFAULT 0.1")
    assert apply(logs, target, "eu")
    logs["us"].ddl("ALTER TABLE shop_us1.orders ADD w INT DEFAULT 3")
    assert apply(logs, target, "us")
    check(target, logs, tmp_path / "apart")


def test_a_column_stays_that_no_shard_has(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    logs["eu"].ddl("ALTER TABLE shop_eu1.orders ADD w INT DEFAULT 3")
    logs["eu"].ddl("ALTER TABLE shop_eu1.orders DROP w")
    for channel in CHANNELS:
        assert apply(logs, target, channel)
    logs["us"].ddl("ALTER TABLE shop_us1.orders ADD w INT")
    assert apply(logs, target, "us")
    check(target, logs, tmp_path / "apart")
    assert fields(target) == ["id", "v", "shop", "w"]
