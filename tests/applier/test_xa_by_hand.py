"""XA branches that are committed by hand in tables that keep changes: each has a place of its own,
after everything before it, and a history stays readable by GTID sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.binlog.events.xid import Xid
from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.operator_decisions import XA, decide
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import applier, apply_without_stream, at_cut, cuts, run
from tests.support.made_copy import finish, plan, plan_first
from tests.support.made_copy import read as copy_rows

A, BESIDE = Table("a"), Table("beside")
XIDS = [(b"one", b"", 1), (b"two", b"", 1), (b"three", b"", 1)]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """A row that is changed, and three prepared branches: of it, of a new row, and of another."""
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    made.ddl(BESIDE.create)
    made.transaction(insert(A, (1, "x"), (2, "x")))
    made.transaction(update(A, ((2, "x"), (2, "y"))))
    made.xa_prepare(XIDS[0], update(A, ((1, "x"), (1, "one"))), insert(A, (10, "one")))
    made.xa_prepare(XIDS[1], insert(A, (11, "two"), (12, "two")))
    made.xa_prepare(XIDS[2], delete(A, (2, "y")))
    made.transaction(insert(BESIDE, (1, "x")))
    return made


def rule(mode: str, **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": "t.a", "mode": mode}], **more}


def end_by_hand(target: Path, action: str = "COMMIT", count: int = len(XIDS)) -> None:
    """Decide about the first branches that the newest cut has as prepared."""
    control = channel_at(str(target)).control
    for one in cuts(target)[-1].prepared[:count]:
        xid = Xid.of_json(one)
        detail = {**xid.to_json(), "position": one["position"], "action": action}
        decide(control, XA, detail)


def go_on(log: LogWriter) -> None:
    """Rows of two of the branches are changed later."""
    log.transaction(update(A, ((10, "one"), (10, "later"))), delete(A, (11, "two")))
    log.transaction(update(A, ((1, "one"), (1, "later"))), insert(A, (2, "again")))


LAST = [(1, "later"), (2, "again"), (10, "later"), (12, "two")]


def places(target: Path) -> list[tuple[int, int]]:
    rows = read(f"{target}/t/a").to_pylist()
    return [(row["_position"], row["_order"]) for row in rows]


def replayed(target: Path) -> list[tuple[int, str]]:
    """The rows that a changelog ends with, read in its own order."""
    there: dict[int, str] = {}
    rows = read(f"{target}/t/a").to_pylist()
    for row in sorted(rows, key=lambda row: (row["_position"], row["_order"])):
        operation, key = row["_operation"], row["id"]
        if operation in ("DELETE", "UPDATE_PREIMAGE"):
            assert there.pop(key) == row["v"], f"{operation} of {key} comes too early"
        else:
            assert key not in there, f"{operation} of {key} comes too early"
            there[key] = row["v"]
    return sorted(there.items())


@pytest.mark.parametrize("at_once", [False, True])
def test_a_changelog_is_read_in_its_own_order(log: LogWriter, target: Path, at_once: bool) -> None:
    """Whether branches are ended one by one, or all at one start; what follows is in the log
    already then, or comes later."""
    assert run(log.folder, target, **rule("changelog"))
    for _ in range(1 if at_once else len(XIDS)):
        end_by_hand(target, count=len(XIDS) if at_once else 1)
        assert run(log.folder, target, **rule("changelog"))
    go_on(log)
    assert run(log.folder, target, **rule("changelog"))
    assert replayed(target) == LAST
    found = places(target)
    assert len({*found}) == len(found)
    assert len({place for place, _ in found}) == 2 + len(XIDS) + 2, "one for each transaction"


def test_branches_ended_by_hand_land_at_two_places(log: LogWriter, target: Path) -> None:
    """Also one that is ended while the rest of the log waits to be applied."""
    assert run(log.folder, target, **rule("changelog"))
    end_by_hand(target, count=1)
    log.transaction(insert(A, (30, "between")))
    assert run(log.folder, target, **rule("changelog"))
    end_by_hand(target)
    go_on(log)
    assert run(log.folder, target, **rule("changelog"))
    assert replayed(target) == sorted([*LAST, (30, "between")])


def test_a_branch_is_named_by_its_own_transaction(log: LogWriter, target: Path) -> None:
    extra = {"tables": [{"match": "t.a", "extra_columns": ["gtid", "operation"]}]}
    for number, given in enumerate((rule("changelog"), extra)):
        lake = target / str(number)
        assert run(log.folder, lake, **given)
        end_by_hand(lake, count=2)
        assert run(log.folder, lake, **given)
        gtids = {row["id"]: row["_gtid"] for row in read(f"{lake}/t/a").to_pylist()}
        assert (gtids[10], gtids[11]) == (log.gtid(5), log.gtid(6))


def current_at(target: Path, executed: GtidSet) -> list[tuple[int, str]]:
    """What a history had after ``executed``, as ``history_at`` asks for it."""
    found = []
    for row in read(f"{target}/t/a").to_pylist():
        assert row["_valid_from_gtid"], "history_at refuses a table with versions without a GTID"
        begun = GtidSet.parse(row["_valid_from_gtid"]).issubset(executed)
        ended = row["_valid_to_position"] is not None
        assert not ended or row["_valid_to_gtid"]
        if begun and not (ended and GtidSet.parse(row["_valid_to_gtid"]).issubset(executed)):
            found.append((row["id"], row["v"]))
    return sorted(found)


def check_history(target: Path) -> None:
    """Each cut's rows are found by its GTID set, by the place of the log, and by the source's
    clock; no version has an empty interval."""
    shown = {cut.gtid_executed: at_cut(target, cut)["t.a"] for cut in cuts(target)
             if "t.a" in cut.tables}  # fmt: skip
    for executed, rows in shown.items():  # of two cuts of one set the later one
        want = sorted(row[:2] for row in rows if row[-1])
        assert current_at(target, GtidSet.parse(executed)) == want, executed
    for row in read(f"{target}/t/a").to_pylist():
        begun, ended = row["_valid_from_position"], row["_valid_to_position"]
        if begun is not None and ended is not None:
            assert begun < ended, row
            assert row["_valid_from_time"] <= row["_valid_to_time"], row


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("group", [1, 100])
def test_a_history_is_read_by_gtid_sets(
    log: LogWriter, target: Path, group: int, at_once: bool
) -> None:
    given = rule("history", group_max_transactions=group)
    assert run(log.folder, target, **given)
    for _ in range(1 if at_once else len(XIDS)):
        end_by_hand(target, count=len(XIDS) if at_once else 1)
        assert run(log.folder, target, **given)
        check_history(target)
    go_on(log)
    assert run(log.folder, target, **given)
    check_history(target)
    rows = read(f"{target}/t/a").to_pylist()
    assert sorted((row["id"], row["v"]) for row in rows if row["_current"]) == LAST


def test_a_branch_that_is_ended_right_after_a_copy(tmp_path: Path, target: Path) -> None:
    """No transaction of the log is before it."""
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    log.xa_prepare(XIDS[0], insert(A, (10, "one")))
    plan_first(target, f"{log.source}:1-2", "t.a")
    given = rule("history")
    row = (1, "x", f"{log.source}:1-2", *[None] * 6, True)
    copy_rows(target, A, [row], tables=given["tables"])
    finish(target, f"{log.source}:1-2")
    assert run(log.folder, target, **given)
    end_by_hand(target)
    assert run(log.folder, target, **given)
    check_history(target)
    log.transaction(update(A, ((10, "one"), (10, "later"))))
    assert run(log.folder, target, **given)
    check_history(target)


def test_a_kill_between_two_tables_keeps_the_place(
    log: LogWriter, target: Path, killed: Any
) -> None:
    """The branch's rows have the same place in the table that got them after the restart."""
    both = {"tables": [{"match": "t.%", "mode": "changelog"}]}
    log.xa_prepare((b"both", b"", 1), insert(A, (20, "b")), insert(BESIDE, (20, "b")))
    assert run(log.folder, target, **both)
    end_by_hand(target, count=4)
    put = iter(range(100))
    killed(log, target, lambda name: name == "after_put" and next(put) == 3, **both)
    assert run(log.folder, target, **both)
    found = [read(f"{target}/t/{name}").to_pylist() for name in ("a", "beside")]
    of_branch = [[row["_position"] for row in rows if row["id"] == 20] for rows in found]
    assert of_branch[0] == of_branch[1] and len(of_branch[0]) == 1


def test_a_running_applier_ends_no_branch_before_its_place(log: LogWriter, target: Path) -> None:
    """All that is decided is done at the start, before what comes meanwhile."""
    assert run(log.folder, target, **rule("changelog"))
    end_by_hand(target)
    go_on(log)
    with applier(log.folder, target, **rule("changelog")) as found:
        apply_without_stream(found)
    assert replayed(target) == LAST


def test_a_copy_that_catches_up_ends_no_branch_twice(log: LogWriter, target: Path) -> None:
    """No cut says that a branch was ended, so the next start would end it at another place."""
    assert run(log.folder, target, **rule("changelog"))
    end_by_hand(target, count=2)
    plan(target, "t.beside")
    copy_rows(target, BESIDE, [(1, "x")], tables=rule("changelog")["tables"])
    finish(target, f"{log.source}:1-{log.gno + 2}")
    for key in (2, 3):
        assert run(log.folder, target, **rule("changelog"))
        log.transaction(insert(BESIDE, (key, "x")))
    log.transaction(update(A, ((2, "y"), (2, "z"))))
    assert run(log.folder, target, **rule("changelog"))
    assert replayed(target) == [(1, "one"), (2, "z"), (10, "one"), (11, "two"), (12, "two")]
    assert not [one for one in cuts(target)[-1].prepared if one["gtrid"] != XIDS[2][0].hex()]
