"""Shards that were dropped: their rows and indexes go once no cut shows them, their paths are given
to no other one, and what cuts show stays readable."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.table_paths import given_paths
from tests.support.binlog_writer import LogWriter, insert
from tests.support.local_delta import applier, apply_without_stream, at_cut, cuts, run
from tests.support.shards import BOTH, ONE, TWO, begun, filled
from tests.support.shared import SHARED, one, seen, writers
from tests.support.tended import KEYS, PARTS, age, hurry, tend

OPTIONS = {"keys": {**KEYS, **BOTH["keys"]}, "tables": BOTH["tables"]}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def go_on(log: LogWriter, target: Path) -> None:
    """All upkeep that is due, when all is two days old; all cuts but the last go."""
    age(*(target / name for name in ("lake", "_repl") if (target / name).exists()))
    with applier(log.folder, target, **OPTIONS, parts=PARTS) as found:
        apply_without_stream(found)
        for _ in range(2):
            tend(found)


def left_of(target: Path) -> tuple[Counter[str], list[str]]:
    """How many rows of a kind name paths, and the folders of key indexes."""
    held = channel_at(str(target)).control.snapshot()
    kinds = Counter(row["kind"] for row in held.other_rows if '"path"' in row["detail"])
    return kinds, sorted(os.listdir(target / "_repl" / "keys" / "lake" / "orders"))


@pytest.mark.slow
def test_nothing_grows_with_shards_that_come_and_go(tmp_path: Path, target: Path) -> None:
    log = filled(begun(tmp_path / "log"))
    go_on(log, target)
    kinds, _ = left_of(target)
    paths = set[str]()
    for number in range(5):
        log.ddl("DROP TABLE shop_2.orders", "shop_2")
        log.ddl(TWO.create, "shop_2")
        log.transaction(insert(TWO, (number, "again")), insert(ONE, (100 + number, "x")))
        go_on(log, target)
        paths.add(cuts(target)[-1].tables["lake.orders//2"].path)
    last = cuts(target)[-1].tables
    assert left_of(target) == (kinds, sorted(at.path[-1] for at in last.values()))
    assert len(paths) == 5, "no path was given twice"
    given = given_paths(channel_at(str(target)).control)
    assert all(f"lake/orders//{number}" in given for number in range(1, 8))
    assert "lake/orders//8" not in given and "lake/orders@2" not in given
    shown = at_cut(target, cuts(target)[-1])["lake.orders"]
    assert {row for row in shown if row[-1] == "2"} == {(4, "again", "2")}


def test_a_dropped_shard_stays_while_a_cut_shows_it(tmp_path: Path, target: Path) -> None:
    """The definition by which its shard is read, too."""
    log = filled(begun(tmp_path / "log"))
    assert run(log.folder, target, **BOTH)
    log.ddl("DROP TABLE shop_2.orders", "shop_2")
    log.transaction(insert(ONE, (5, "x")))
    before = at_cut(target, cuts(target)[-1])
    path = cuts(target)[-1].tables["lake.orders//2"].path
    with applier(log.folder, target, **BOTH) as found:
        apply_without_stream(found)
        tend(found)
    rows = channel_at(str(target)).control.rows("definition")
    assert path in {json.loads(row["detail"])["path"] for row in rows}
    assert before in [at_cut(target, cut) for cut in cuts(target)]


def test_a_dropped_shards_rows_stay_on_record_for_each_channel(
    tmp_path: Path, target: Path
) -> None:
    """Their indexes go; the rows say which shards a channel had, and stay."""
    logs = writers(tmp_path)
    options = {"keys": {**KEYS, "column_mapping": True, "vacuum_hours": 0}, "tables": [SHARED]}

    def both() -> None:
        for channel, log in logs.items():
            with applier(log.folder, target, channel=channel, parts=PARTS, **options) as found:
                apply_without_stream(found)
                tend(found)

    for channel, log in logs.items():
        for number in (1, 2):
            table = one(channel, number)
            log.ddl(table.create, table.database)
            log.transaction(insert(table, (number, channel)))
    both()
    logs["eu"].ddl("DROP TABLE shop_eu2.orders", "shop_eu2")
    logs["eu"].transaction(insert(one("eu"), (9, "eu")))
    both()
    both()
    keys = channel_at(str(target), "eu").layout.keys("lake/orders//shared/2")
    assert not os.path.isdir(keys)
    assert os.path.isdir(channel_at(str(target), "eu").layout.keys("lake/orders//shared/1"))
    logs["eu"].ddl(one("eu", 2).create, "shop_eu2")
    logs["eu"].transaction(insert(one("eu", 2), (1, "again")))
    both()
    shown = [*seen(target, "eu").values()][-1]
    assert {shard: len(rows) for shard, rows in shown.items()} == {"eu1": 2, "eu2": 1}
