"""mode = "history" of ``[[tables]]``: each version of a row is a row, from and until when."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.decode import spans
from spark_repl.errors import DecodeError, RowError
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.extra_model import FIRST, T, begun
from tests.support.local_delta import cuts, last_shown, run, stopped
from tests.support.made_copy import finish, plan_first, read
from tests.support.version_model import VersionModel, current, moment, versions

Row = tuple[Any, ...]
TEXT = Table("a", (("id", "varchar(9)"), *T.columns[1:]))


def rule(match: str = "t.a", **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": match, "mode": "history", **more}]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def random_changes(model: VersionModel, rand: random.Random, keys: Sequence[Any]) -> list[Change]:
    """A transaction of few keys, some of them many times."""
    made = []
    for number in range(rand.randint(1, 6)):
        key, row = rand.choice(keys), (rand.choice(keys), number % 3, "v" * rand.randrange(9))
        if key in model.there and rand.random() < 0.3:
            made.append(model.delete(key))
        elif key in model.there and (row[0] not in model.there or row[0] == key):
            made.append(model.update(key, row))
        elif row[0] not in model.there:
            made.append(model.insert(row))
    return made


def compared(lake: Path) -> dict[str, list[Row]]:
    return {cut.gtid_executed: versions(lake, cut) for cut in cuts(lake) if "t.a" in cut.tables}


@pytest.mark.parametrize("seed", range(6))
def test_equals_every_version_of_the_log(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever groups, workers, kills and slices are; what is current is what a mirror has."""
    rand = random.Random(seed)
    log, lake, mirror = LogWriter(tmp_path / "log"), tmp_path / "lake", tmp_path / "mirror"
    table, keys = (T, range(4)) if seed < 4 else (TEXT, ["a", "b", "B", "c"])
    log.ddl(table.create)
    model = VersionModel(log, table)
    if seed % 2:  # every transaction comes in windows
        monkeypatch.setattr(spans, "_SLICE_BYTES", 300)
    made: dict[str, Any] = {"vectors": seed != 3, "feed": seed == 2, **rule()}
    for number in range(16):
        model.transaction(*random_changes(model, rand, keys), compressed=rand.random() < 0.3)
        if number == 6:
            run(log.folder, lake, workers=2, **made)
        if number == 9:
            log.rotate()
        if number == 12:
            log.ddl("TRUNCATE t.a")
            model.truncate()
    run(log.folder, lake, crash=rand.randint(1, 30), workers=3, group_max_transactions=3, **made)
    bound, ordered = rand.choice([1, 3, 100]), rand.random() < 0.5
    assert run(
        log.folder, lake, group_max_transactions=bound, workers=3,
        preserve_commit_order=ordered, **made,
    )  # fmt: skip
    assert versions(lake) == model.rows
    assert run(log.folder, mirror)
    assert current(model.rows) == sorted(last_shown(mirror)["t.a"], key=repr)
    known = compared(lake)
    assert len(known.keys() & model.at.keys()) > 1
    for gtids, rows in known.items():
        assert gtids not in model.at or rows == model.at[gtids]


def test_a_version_is_from_one_transaction_until_another(log: LogWriter, tmp_path: Path) -> None:
    model = VersionModel(log)
    model.first(FIRST)
    model.transaction(model.update(1, (1, 2, "x")), model.update(1, (1, 3, "x")))
    model.transaction(model.delete(2), model.update(3, (7, 7, "moved")))
    assert run(log.folder, tmp_path / "lake", **rule())
    first, second, third = (moment(log, gno) for gno in (3, 4, 5))
    assert versions(tmp_path / "lake") == model.rows
    assert model.rows == [
        (1, 1, "x", *first, *second, False), (2, 5, "y", *first, *third, False),
        (3, None, "z", *first, *third, False), (1, 2, "x", *second, *second, False),
        (1, 3, "x", *second, None, None, True), (7, 7, "moved", *third, None, None, True),
    ]  # fmt: skip


@pytest.mark.parametrize("lost", [False, True])
def test_a_crash_at_any_step_leaves_each_version_once(tmp_path: Path, lost: bool) -> None:
    """And gone on with, also by a relay log that was fetched again, of other positions."""
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", T.create)
    source.transaction(insert(T, *FIRST))
    source.transaction(delete(T, FIRST[0]), insert(T, (1, 1, "back")), delete(T, (1, 1, "back")))
    source.transaction(update(T, (FIRST[1], (2, 6, "y")), ((2, 6, "y"), (9, 6, "y"))))
    source.ddl("TRUNCATE t.a")
    source.transaction(insert(T, FIRST[1]))
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, see=compared, **rule())
    assert step > 15
    rows = list(want.values())[-1]
    assert [(*row[:3], row[-1]) for row in rows] == [
        *((*row, False) for row in FIRST), (1, 1, "back", False), (2, 6, "y", False),
        (9, 6, "y", False), (*FIRST[1], True),
    ]  # fmt: skip


def test_an_xa_transaction_counts_at_its_commit(log: LogWriter, tmp_path: Path) -> None:
    xid, lake, model = (b"x", b"", 1), tmp_path / "lake", VersionModel(log)
    model.first(FIRST)
    log.xa_prepare(xid, update(T, (FIRST[0], (1, 2, "xa"))), insert(T, (4, 4, "q")))
    model.transaction(model.delete(2))
    assert run(log.folder, lake, **rule())
    assert versions(lake) == model.rows
    model.update(1, (1, 2, "xa"))
    model.insert((4, 4, "q"))
    log.xa_end("COMMIT", xid)
    assert run(log.folder, lake, **rule())
    assert versions(lake) == model.rows


def test_a_copy_s_rows_are_from_its_gtid_set(log: LogWriter, tmp_path: Path) -> None:
    lake, held = tmp_path / "lake", f"{log.source}:1-4"
    log.transaction(insert(T, (4, 4, "q")), delete(T, FIRST[0]))
    log.transaction(update(T, (FIRST[1], (2, 6, "y"))), delete(T, (4, 4, "q")))
    log.transaction(insert(T, (4, 4, "back")))
    plan_first(lake, f"{log.source}:1-3", "t.a")
    there = [*FIRST[1:], (4, 4, "q")]
    extra = (held, None, None, None, None, None, None, True)
    read(lake, T, [(*row, *extra) for row in there], **rule())
    finish(lake, f"{log.source}:1-4", views=("t.a",), exact={"t.a": GtidSet.parse(held)})
    assert run(log.folder, lake, **rule())
    end, last = moment(log, 5), moment(log, 6)
    assert sorted(versions(lake), key=repr) == [
        (2, 5, "y", held, None, *end, False), (2, 6, "y", *end, None, None, True),
        (3, None, "z", held, None, None, None, True), (4, 4, "back", *last, None, None, True),
        (4, 4, "q", held, None, *end, False),
    ]  # fmt: skip


def test_a_history_goes_with_filters_masks_and_extra_columns(
    log: LogWriter, tmp_path: Path
) -> None:
    log.transaction(update(T, (FIRST[0], (1, 9, "xx")), (FIRST[1], (2, 6, "yy"))))
    log.transaction(update(T, ((2, 6, "yy"), (2, 0, "y"))), delete(T, (1, 9, "xx")))
    given = rule(
        row_filter="n > 2", exclude=["n"], mask={"v": "keep_last:1"},
        extra_columns=["operation", "source_table"],
    )  # fmt: skip
    assert run(log.folder, tmp_path / "lake", **given)
    first, second, third = (moment(log, gno) for gno in (3, 4, 5))
    assert versions(tmp_path / "lake") == [
        (2, "*", "t.a", "INSERT", *first, *second, False),
        (1, "*x", "t.a", "INSERT", *second, *third, False),
        (2, "*y", "t.a", "UPDATE", *second, *third, False),
    ]  # fmt: skip


def test_what_does_not_fit_stops_by_name(tmp_path: Path) -> None:
    one = (1, 0, "new")
    for number, (change, code) in enumerate([
        (insert(T, one), 1062), (delete(T, (9, 9, "?")), 1032),
        (update(T, ((9, 9, "?"), (5, 5, ""))), 1032), (update(T, (FIRST[2], one)), 1062),
        ([insert(T, (8, 8, "")), insert(T, (8, 8, ""))], 1062),
        ([delete(T, FIRST[0]), delete(T, FIRST[0])], 1032),
    ]):  # fmt: skip
        log = begun(tmp_path / f"log{number}")
        log.transaction(update(T, (FIRST[1], (2, 2, "fits"))))
        log.transaction(*(change if isinstance(change, list) else [change]))
        error = stopped(log.folder, tmp_path / f"lake{number}", **rule())
        assert isinstance(error, RowError) and error.gtid == log.gtid(4)
        assert error.number == code and error.table == "t.a"
        assert (2, 2, "fits") in current(versions(tmp_path / f"lake{number}"))


def test_a_history_takes_absent_columns_from_the_target(log: LogWriter, tmp_path: Path) -> None:
    """A version that ends is read from the target, so its image may lack columns; one that begins
    has what its before image has, or a default."""
    log.transaction(insert(T, {0: 4, 2: "part"}), update(T, (FIRST[1], {1: 8})))
    log.transaction(delete(T, {0: 1}))
    assert run(log.folder, tmp_path / "lake", **rule())
    first, second, third = (moment(log, gno) for gno in (3, 4, 5))
    assert versions(tmp_path / "lake") == [
        (1, 1, "x", *first, *third, False), (2, 5, "y", *first, *second, False),
        (3, None, "z", *first, None, None, True), (4, None, "part", *second, None, None, True),
        (2, 8, "y", *second, None, None, True),
    ]  # fmt: skip
    log.transaction(update(T, ({0: 2}, {0: 2, 1: 9})))
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(error, DecodeError) and error.gtid == log.gtid(5)
    assert "column v, of which a history" in str(error)


def test_images_of_several_kinds_in_one_transaction(log: LogWriter, tmp_path: Path) -> None:
    """They are read apart, and are in the log's order all the same."""
    log.transaction(
        update(T, (FIRST[0], (1, 2, "x"))), update(T, ((1, 2, "x"), {1: 3})),
        update(T, ((1, 3, "x"), (1, 4, "x"))), update(T, ({0: 1}, (1, 5, "x"))), delete(T, {0: 1}),
        insert(T, (1, 6, "x")),
    )  # fmt: skip
    assert run(log.folder, tmp_path / "lake", **rule())
    found = [(row[1], row[-1]) for row in versions(tmp_path / "lake") if row[0] == 1]
    assert found == [*((n, False) for n in range(1, 6)), (6, True)]


def test_the_key_index_may_be_lost(log: LogWriter, tmp_path: Path) -> None:
    """One that is made again has the current versions alone, too."""
    model, lake = VersionModel(log), tmp_path / "lake"
    model.first(FIRST)
    for number in range(3):
        model.transaction(model.update(1, (1, number, "v")))
    model.transaction(model.delete(2), model.insert((2, 2, "back")))
    assert run(log.folder, lake, **rule())
    shutil.rmtree(lake / "_repl" / "keys")
    model.transaction(model.update(1, (1, 9, "v")), model.delete(2))
    assert run(log.folder, lake, **rule())
    assert versions(lake) == model.rows
    assert (lake / "_repl" / "keys").is_dir()


def test_the_change_data_feed(log: LogWriter, tmp_path: Path) -> None:
    """Has what a commit did: a version that ended, and those that came."""
    log.transaction(update(T, (FIRST[0], (1, 2, "x"))), delete(T, FIRST[1]))
    assert run(log.folder, tmp_path / "lake", feed=True, group_max_transactions=1, **rule())
    newest = max((tmp_path / "lake" / "t" / "a" / "_change_data").iterdir(), key=os.path.getmtime)
    found = pq.read_table(newest, partitioning=None).to_pylist()
    said = sorted((row["_change_type"], row["id"], row["n"], row["_current"]) for row in found)
    assert said == [
        ("insert", 1, 2, True), ("update_postimage", 1, 1, False),
        ("update_postimage", 2, 5, False), ("update_preimage", 1, 1, True),
        ("update_preimage", 2, 5, True),
    ]  # fmt: skip
