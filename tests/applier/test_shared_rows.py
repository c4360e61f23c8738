"""``channels`` of ``[[tables]]`` beside ``row_filter``: sources of which each has some rows of one
Delta table, told apart by their filters; each channel's cuts are as if it were alone."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import STRIDE
from tests.support.local_delta import CRASHES, applier, apply_without_stream, run, stopped
from tests.support.shards import MAPPED
from tests.support.shared import commits, writers
from tests.support.shared_rows import (
    CHANNELS,
    FILTERS,
    LogIdentity,
    by,
    check,
    orders,
    rule,
    seen,
    wanted,
)
from tests.support.tended import KEYS, PARTS, age, hurry, tend

WIDE = orders(("w", "int"))


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, LogWriter]:
    """Each source has rows that pass its own filter, and others."""
    made = writers(tmp_path)
    for channel, log in made.items():
        log.ddl(orders().create, "shop")
        log.transaction(insert(orders(), (1, channel), (2, "b"), (3, "none"), (4, channel)))
    return made


def test_each_channels_rows_are_as_if_it_were_alone(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    for channel in CHANNELS:
        assert run(logs[channel].folder, target, **by(channel))
    eu, us = logs["eu"], logs["us"]
    eu.ddl("ALTER TABLE orders ADD w INT DEFAULT 4", "shop")
    eu.transaction(
        update(WIDE, ((2, "b", 4), (7, "out", 4))), update(WIDE, ((1, "eu", 4), (8, "in", 5)))
    )
    us.transaction(
        update(orders(), ((1, "us"), (1, "none"))), update(orders(), ((3, "none"), (3, "x"))),
        delete(orders(), (2, "b")), insert(orders(), (9, "y")),
    )  # fmt: skip
    for channel in CHANNELS * 2:
        assert run(logs[channel].folder, target, **by(channel))
    check(target, wanted(logs, tmp_path / "apart"))


def test_a_filter_by_the_key_decides_partial_images(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path
) -> None:
    """The key is in each image before, so a filter by it alone gets along with them."""
    eu = logs["eu"]
    eu.transaction(update(orders(), ({0: 2}, {1: "new"})), delete(orders(), {0: 1}, {0: 4}))
    assert run(eu.folder, target, **by("eu"))
    assert run(logs["us"].folder, target, **by("us"))
    check(target, wanted(logs, tmp_path / "apart"))


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 10))]
)
def test_random_histories_of_two_channels_end_equal(
    target: Path, tmp_path: Path, seed: int
) -> None:
    """In groups of random bounds, each channel cut off at random."""
    rand, logs = random.Random(f"rows {seed}"), writers(tmp_path)
    histories = {channel: LogIdentity(log, rand) for channel, log in logs.items()}
    for _ in range(rand.randint(6, 12)):
        channel = rand.choice(CHANNELS)
        for _ in range(rand.randint(1, 6)):
            histories[channel].step()
        crash, most = rand.choice([0, 0, rand.randint(1, 30)]), rand.choice([1, 3, 100])
        run(logs[channel].folder, target, crash=crash, group_max_transactions=most, **by(channel))
    for channel in CHANNELS:
        if histories[channel].rows is None:
            histories[channel].step()
        assert run(logs[channel].folder, target, **by(channel))
    check(target, wanted(logs, tmp_path / "apart"))


@pytest.fixture
def changed(tmp_path: Path) -> dict[str, LogWriter]:
    """A log of each source with statements of each kind."""
    made = writers(tmp_path)
    for channel, log in made.items():
        other = orders((channel, "int"))
        log.ddl(WIDE.create, "shop")
        log.transaction(insert(WIDE, *((key, "a", key) for key in range(1, 5))))
        log.ddl(f"ALTER TABLE orders ADD {channel} INT DEFAULT 3, DROP w", "shop")
        log.transaction(delete(other, (1, "a", 3)), update(other, ((2, "a", 3), (5, "a", 3))))
        log.ddl("TRUNCATE TABLE orders", "shop")
        log.transaction(insert(other, (5, "e", 1), (6, "f", 1)))
        log.ddl("DROP TABLE orders", "shop")
        log.ddl(WIDE.create, "shop")
        log.transaction(insert(WIDE, (5, "e", 1), (6, "e", 1)))
    return made


@pytest.mark.slow
def test_a_channel_comes_between_any_two_steps(
    changed: dict[str, LogWriter], tmp_path: Path
) -> None:
    want = wanted(changed, tmp_path / "apart")
    for step in range(1, 400, STRIDE):
        target, left = tmp_path / f"lake{step}", [step]

        def told(name: str, left: list[int] = left, target: Path = target) -> None:
            left[0] -= 1
            if not left[0]:
                CRASHES.told = lambda name: None
                assert run(changed["us"].folder, target, **by("us"))

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(CRASHES, "told", told)
            assert run(changed["eu"].folder, target, group_max_transactions=1, **by("eu"))
        if left[0] > 0:
            break
        check(target, want)
    assert step > 20


@pytest.mark.slow
def test_crashes_of_both_channels_leave_each_ones_rows_equal(
    changed: dict[str, LogWriter], tmp_path: Path
) -> None:
    want = wanted(changed, tmp_path / "apart")
    for step in range(1, 400, STRIDE):
        target = tmp_path / f"lake{step}"
        ended = run(changed["eu"].folder, target, crash=step, **by("eu"))
        run(changed["us"].folder, target, crash=step, **by("us"))
        run(changed["eu"].folder, target, crash=step % 7 + 1, **by("eu"))
        for channel in ("us", "eu"):
            assert run(changed[channel].folder, target, **by(channel))
        check(target, want)
        if ended:
            break
    assert step > 20


@pytest.mark.slow
@pytest.mark.parametrize("tidies", CHANNELS)
def test_upkeep_of_one_channel_keeps_the_others_cuts(
    logs: dict[str, LogWriter], target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    tidies: str,
) -> None:  # fmt: skip
    """Compaction, VACUUM and clean-up of the log by one channel leave the other's cuts."""
    keeps = "us" if tidies == "eu" else "eu"
    for key in range(10, 22, 2):
        for channel in CHANNELS:
            own = key if channel == "eu" else key + 1
            logs[channel].transaction(insert(orders(), (own, "x")))
            logs[channel].transaction(update(orders(), ((own, "x"), (own, "y"))))
            assert run(logs[channel].folder, target, **by(channel))
    before = seen(target, keeps)
    assert len(before) > 5
    hurry(monkeypatch)
    given = by(tidies)
    given["keys"] = {**given["keys"], **KEYS}
    for _ in range(2):
        with applier(logs[tidies].folder, target, parts=PARTS, **given) as found:
            apply_without_stream(found)
            tend(found)
            tend(found)
        age(target)
    assert seen(target, keeps) == before
    compacted = [
        version
        for version, actions in commits(target)
        if any(a.get("commitInfo", {}).get("operation") == "OPTIMIZE" for a in actions)
    ]
    assert compacted
    for channel in (keeps, tidies):
        logs[channel].transaction(insert(orders(), (50, "new"), (51, "new")))
        assert run(logs[channel].folder, target, **by(channel))
    check(target, wanted(logs, tmp_path / "apart"))


@pytest.mark.parametrize("first", CHANNELS)
def test_a_filter_that_is_not_declared_disjoint(
    logs: dict[str, LogWriter], target: Path, first: str
) -> None:
    other = "us" if first == "eu" else "eu"
    assert run(logs[first].folder, target, **by(first))
    for more, message in (
        ({"disjoint": False}, "nothing says that row_filter"),
        ({"row_filter": FILTERS[first]}, "the two channels have the same filter"),
    ):
        error = stopped(logs[other].folder, target, **by(other, **more))
        assert isinstance(error, SettingError) and message in error.message
    assert run(logs[other].folder, target, **by(other))
    assert run(logs[first].folder, target, **by(first, disjoint=False))


def test_another_filter_than_the_recorded_one_is_refused(
    logs: dict[str, LogWriter], target: Path
) -> None:
    assert run(logs["eu"].folder, target, **by("eu"))
    error = stopped(logs["eu"].folder, target, **by("eu", row_filter="id % 4 = 0"))
    assert isinstance(error, SettingError)
    assert "row_filter is id % 4 = 0, and this channel has id % 2 = 0 on record" in error.message


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER TABLE orders DROP PRIMARY KEY", "the key (id) would be (none)"),
        (
            "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
            "the key (id) would be (id, v)",
        ),
        ("ALTER TABLE orders MODIFY id BIGINT", "column id, at which row_filter looks"),
        ("ALTER TABLE orders RENAME COLUMN id TO nr", "column id becomes nr"),
        ("ALTER TABLE orders RENAME TO old", "does not follow RENAME"),
        (
            "DROP TABLE orders; CREATE TABLE orders (id INT, v VARCHAR(40), PRIMARY KEY (id, v))",
            "this channel has id on record",
        ),
    ],
)
def test_a_statement_that_takes_away_what_tells_rows_apart(
    logs: dict[str, LogWriter], target: Path, statement: str, says: str
) -> None:
    assert run(logs["eu"].folder, target, **by("eu"))
    for one in statement.split("; "):
        logs["eu"].ddl(one, "shop")
    error = stopped(logs["eu"].folder, target, **by("eu"))
    assert says in error.message and "snapshot --table" not in str(error.hint)
    assert run(logs["us"].folder, target, **by("us"))


def test_another_key_in_the_log_stops(target: Path, tmp_path: Path) -> None:
    """Of a table without PRIMARY KEY the server picks an index, which no statement says."""
    eu, columns = writers(tmp_path)["eu"], (("id", "int"), ("v", "int"))
    eu.ddl("CREATE TABLE orders (id INT NOT NULL, v INT NOT NULL, UNIQUE (id), UNIQUE (v))", "shop")
    for key in ((0,), (1,)):
        named = Table("orders", columns, key, database="shop", not_null=(0, 1))
        eu.transaction(insert(named, (2 + 2 * key[0], 1 + key[0])))
    error = stopped(eu.folder, target, group_max_transactions=1, **by("eu"))
    assert isinstance(error, SettingError)
    assert "the key (id) would be (v)" in error.message


def test_what_tables_have_against_others_rows_is_said_at_once(target: Path, tmp_path: Path) -> None:
    made, names = writers(tmp_path), ("orders", "items")
    for log in made.values():
        for name in names:
            log.ddl(replace(orders(), name=name).create, "shop")

    def rules(channel: str, *filters: str) -> dict[str, Any]:
        tables = [
            {**rule(channel), "match": f"shop.{name}", "to": f"lake.{name}", "row_filter": text}
            for name, text in zip(names, filters, strict=True)
        ]
        return {"channel": channel, "tables": tables, **MAPPED}

    assert run(made["eu"].folder, target, **rules("eu", "id < 5", "id < 5"))
    assert run(made["us"].folder, target, **rules("us", "id > 5", "id >= 5"))
    error = stopped(made["us"].folder, target, **rules("us", "id > 4", "id = 4"))
    assert isinstance(error, SettingError) and error.table == "lake.items, lake.orders"
    assert "lake.items: row_filter is id = 4" in error.message
    assert "lake.orders: row_filter is id > 4" in error.message


def test_another_key_than_the_other_channels_is_refused(target: Path, tmp_path: Path) -> None:
    made = writers(tmp_path)
    made["eu"].ddl(orders().create, "shop")
    made["us"].ddl(orders(key=(0, 1)).create, "shop")
    assert run(made["eu"].folder, target, **by("eu"))
    error = stopped(made["us"].folder, target, **by("us"))
    assert isinstance(error, SettingError) and "the key is id, v, and id" in error.message
