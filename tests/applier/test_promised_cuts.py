"""What ``cut list`` promises is read behind VACUUM, whichever tier of the promise is the longest,
and also when it is made longer later."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_repl.cli.cut_command import kept_cuts
from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.retention import recorded
from spark_repl.control.table import control as control_module
from spark_repl.control.table.cut import Cut
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.retention_properties import RETENTION
from spark_repl.delta.log.vacuum import vacuum
from spark_repl.delta.store.remover import Remover
from spark_repl.write.upkeep.file_retention import keep_files_of
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import HERE, LocalDelta, at_cut, cuts, run
from tests.support.tended import hurry, make_older, tended

A, B = Table("a"), Table("b")
SHORT = {"every_cut_hours": 1, "minute_cut_hours": 1, "cut_retention_hours": 6, "vacuum_hours": 1}


def hours_pass(hours: float, target: Path) -> None:
    """All that lies there, and each cut, is so much older."""
    path = channel_at(str(target)).control.path
    held = DeltaTable(path).to_pyarrow_table()
    at = pc.subtract(held.column("at"), pa.scalar(timedelta(hours=hours)))
    aged = held.set_column(
        held.column_names.index("at"), "at", at.cast(held.schema.field("at").type)
    )
    write_deltalake(path, aged, mode="overwrite")
    make_older(target, hours)


def changed(log: LogWriter, target: Path, keys: Mapping[str, int], *values: str) -> None:
    """Row 1 of t.a has each of the values in a group of its own; t.b has no change."""
    for value in values:
        log.transaction(update(A, ((1, "x"), (1, value))))
        assert run(log.folder, target, keys=keys, parts=HERE)
        hours_pass(2, target)


def begun(log: LogWriter, target: Path, keys: Mapping[str, int]) -> None:
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    assert run(log.folder, target, keys=keys)
    hours_pass(2, target)


def shown(target: Path) -> list[tuple[int, dict[str, list[tuple[object, ...]]]]]:
    """What each cut shows that is there: its position and rows."""
    return [(cut.position, at_cut(target, cut)) for cut in cuts(target)]


def retentions(target: Path, table: str) -> list[str]:
    snapshot = LocalDelta().snapshot(str(target / "t" / table))
    assert snapshot is not None
    return [snapshot.configuration[name] for name in RETENTION]


@pytest.fixture(autouse=True)
def vacuums(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(control_module, "_PRUNE_EVERY", 10**6)  # else each cut is looked at


@pytest.mark.parametrize("longest", ["every_cut_hours", "minute_cut_hours", "cut_retention_hours"])
def test_the_longest_tier_counts(log: LogWriter, target: Path, longest: str) -> None:
    keys = {**SHORT, longest: 24}
    begun(log, target, keys)
    changed(log, target, keys, "p", "q", "r")
    before = shown(target)
    hours_pass(10, target)
    tended(log.folder, target, keys=keys, parts=HERE)
    assert retentions(target, "a") == ["interval 24 hours"] * 2
    assert shown(target) == before and len(before) > 4


def test_up_to_the_end_of_its_promise(log: LogWriter, target: Path) -> None:
    """The files are removed right after the promise ends. Three minutes before that, the cut is
    listed and read, also if the test takes a minute. A minute after that, it is not listed."""
    keys = {**SHORT, "every_cut_hours": 6}
    begun(log, target, keys)
    log.transaction(update(A, ((1, "x"), (1, "p"))))
    assert run(log.folder, target, keys=keys, parts=HERE)
    at, before = cuts(target)[-1].position, shown(target)[-1]
    changed(log, target, keys, "q", "r")
    hours_pass(6 - 4 - 3 / 60, target)

    def listed() -> list[int]:
        log.transaction(insert(B, (log.gno, "more")))
        tended(log.folder, target, keys=keys, parts=HERE)
        control = channel_at(str(target)).control
        return [cut.position for cut, _ in kept_cuts(control, datetime.now(UTC))]

    assert at in listed() and before in shown(target)
    hours_pass(4 / 60, target)
    assert at not in listed()


def test_a_promise_that_is_made_longer_later_is_kept(log: LogWriter, target: Path) -> None:
    """Also by a table that does not change; and it is never made shorter again."""
    begun(log, target, SHORT)
    assert retentions(target, "b") == ["interval 6 hours"] * 2
    longer = {**SHORT, "cut_retention_hours": 48}
    tended(log.folder, target, keys=longer, parts=HERE)  # else upkeep comes when it comes
    for table in "ab":
        assert retentions(target, table) == ["interval 48 hours"] * 2
    changed(log, target, longer, "p", "q")
    tended(log.folder, target, keys=longer, parts=HERE)  # and promised, by the record
    before = shown(target)
    assert len(before) > 1
    hours_pass(10, target)
    tended(log.folder, target, keys=longer, parts=HERE)
    assert shown(target)[-len(before) :] == before and len(before) > 2
    version = LocalDelta().version(str(target / "t" / "b"))
    tended(log.folder, target, keys=SHORT, parts=HERE)
    assert retentions(target, "b") == ["interval 48 hours"] * 2
    assert LocalDelta().version(str(target / "t" / "b")) == version


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE t.a", "ALTER TABLE t.a ADD n INT AUTO_INCREMENT UNIQUE"],
    ids=["dropped", "waiting"],
)
def test_a_longer_promise_of_a_table_that_nothing_is_applied_to(
    log: LogWriter, target: Path, statement: str
) -> None:
    """It was dropped, or waits for its copy, and another writer runs VACUUM."""
    begun(log, target, SHORT)
    changed(log, target, SHORT, "p")
    log.ddl(statement)
    assert run(log.folder, target, keys=SHORT, copies=True)
    assert "t.a" not in cuts(target)[-1].tables
    longer = {**SHORT, "cut_retention_hours": 48}
    tended(log.folder, target, keys=longer, parts=HERE)
    assert retentions(target, "a") == ["interval 48 hours"] * 2
    before = shown(target)
    assert sum("t.a" in rows for _, rows in before) > 1
    hours_pass(10, target)
    tended(log.folder, target, keys=longer, parts=HERE)
    vacuum(str(target / "t" / "a"), Remover(), time.time())
    assert shown(target)[-len(before) :] == before


def run_out(log: LogWriter, target: Path) -> None:
    """By the short promise: files of cuts are gone that are there still."""
    begun(log, target, SHORT)
    changed(log, target, SHORT, "p", "q", "r", "s")
    tended(log.folder, target, keys=SHORT, parts=HERE)
    with pytest.raises(Exception, match="not found"):
        shown(target)


def test_what_was_promised_no_more_is_not_promised_again(log: LogWriter, target: Path) -> None:
    """Its files may be gone: a cut of the shorter promise goes before the longer one is given."""
    run_out(log, target)
    longer = {**SHORT, "cut_retention_hours": 48}
    tended(log.folder, target, keys=longer, parts=HERE)
    kept: list[Cut] = cuts(target)
    assert [rows["t.a"] for _, rows in shown(target)][-1] == [(1, "s")] and len(kept) > 1


def test_a_kill_between_longer_retention_and_what_is_forgotten_for_it(
    log: LogWriter, target: Path
) -> None:
    """The tables keep their files for 48 hours by then, and nothing says that it was 6 before but
    what is on record."""
    run_out(log, target)

    longer = {**SHORT, "cut_retention_hours": 48}
    for table in "ab":
        keep_files_of(LocalDelta(), str(target / "t" / table), 48, "")
    assert recorded(channel_at(str(target)).control).hour == 6
    tended(log.folder, target, keys=longer, parts=HERE)
    assert recorded(channel_at(str(target)).control).hour == 48
    assert [rows["t.a"] for _, rows in shown(target)][-1] == [(1, "s")] and len(cuts(target)) > 1


def test_a_clock_that_is_set_back_makes_no_file_old(log: LogWriter, target: Path) -> None:
    """Files that a later start retires are retired just now when the clock is right again."""
    begun(log, target, SHORT)
    changed(log, target, SHORT, "p")
    hours_pass(-48, target)  # all that is there was written by a clock that is right: ours is slow
    log.transaction(update(A, ((1, "p"), (1, "q"))))
    assert run(log.folder, target, keys=SHORT, parts=HERE)
    actions = read_commit(f"{target}/t/a", LocalDelta().version(f"{target}/t/a")) or []
    removed = [one["remove"]["deletionTimestamp"] for one in actions if "remove" in one]
    now_ms = 1000 * datetime.now(UTC).timestamp()
    assert removed and all(at > now_ms + 40 * 3600_000 for at in removed)
