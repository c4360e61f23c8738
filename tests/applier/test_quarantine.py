"""Tables in quarantine: the other tables continue, and the kept changes are applied exactly once,
also after a crash at any step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.cli.main import main
from spark_repl.control.cuts.cut_export import manifest
from spark_repl.control.cuts.cut_reader import CutReader
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConfigError, QuarantineError, RowError, StatementError
from spark_repl.observe.metrics import metrics
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import applier, at_cut, cuts, last_shown, rows, run, stopped
from tests.support.made_copy import finish, plan, read

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
KEEP: dict[str, Any] = {"on_error": "quarantine"}
MENDED: dict[str, Any] = {**KEEP, "exec_mode": "idempotent"}
"""as if somebody had mended the rows: what does not fit is passed over"""
STRIDE = int(os.environ.get("SPARK_REPL_STRIDE", "13"))


def command(target: Path, action: str, *more: str, table: str = "t.a") -> int:
    named = [] if action == "list" else ["--table", table]
    return main(["quarantine", action, "--target", str(target), *named, *more])


def poisoned(log: LogWriter, table: Table = A) -> None:
    """Changes of two tables, of which the second transaction can't be applied to one of them."""
    log.transaction(insert(table, (1, "x"), (2, "x")), insert(B, (1, "x")))
    log.transaction(delete(table, (77, "no such")), insert(table, (77, "y")), insert(B, (2, "x")))
    log.transaction(update(table, ((1, "x"), (9, "moved"))), insert(B, (3, "x")))
    log.transaction(insert(B, (4, "x")))
    log.transaction(insert(table, (1, "again")), delete(table, (2, "x")), compressed=True)


WHOLE = [(1, "again"), (9, "moved"), (77, "y")]


def assert_cuts(target: Path) -> None:
    """Transactions are whole in every cut, but for tables that it marks: these stand still."""
    for cut in cuts(target):
        shown, number = at_cut(target, cut), int(cut.gtid_executed.split("-")[-1].split(":")[-1])
        if number < 4:
            continue
        assert len(shown["t.b"]) == min(number, 7) - 3
        a = {4: [(1, "x"), (2, "x")], 5: [(1, "x"), (2, "x"), (77, "y")],
             6: [(2, "x"), (9, "moved"), (77, "y")]}.get(min(number, 8))  # fmt: skip
        a = a or ({7: [(2, "x"), (9, "moved"), (77, "y")]}.get(number) or WHOLE)
        assert shown["t.a"] == ([(1, "x"), (2, "x")] if "t.a" in cut.quarantined else a)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("bound", [1, 100])
def test_other_tables_go_on_beside_a_quarantine(
    log: LogWriter, target: Path, bound: int, ordered: bool
) -> None:
    how = {**KEEP, "group_max_transactions": bound, "preserve_commit_order": ordered}
    poisoned(log)
    assert run(log.folder, target, **how)
    assert rows(target, A) == [(1, "x"), (2, "x")] and len(rows(target, B)) == 4
    mark = cuts(target)[-1].quarantined["t.a"]
    assert (mark.since, mark.transactions) == (log.gtid(4), 3)
    assert "Can't find record in 'a'" in mark.reason
    assert run(log.folder, target, **how)  # nothing new: nothing changes
    assert cuts(target)[-1].quarantined["t.a"] == mark
    assert command(target, "replay") == 0
    assert run(log.folder, target, **{**how, "exec_mode": "idempotent"})
    assert rows(target, A) == WHOLE
    assert not cuts(target)[-1].quarantined and not status(str(target))["quarantined"]
    assert not list((target / "_repl" / "quarantine").iterdir())
    assert_cuts(target)
    log.transaction(insert(A, (5, "later")))
    assert run(log.folder, target, **how)
    assert rows(target, A) == [(1, "again"), (5, "later"), *WHOLE[1:]]


def cut_off_at(step: int, folder: Path, how: dict[str, Any]) -> bool:
    """Runs that are cut off at a step: as the table goes into quarantine, while its changes are
    kept, and as they are replayed; whether there was a step to cut each off."""
    log, target = LogWriter(folder / "log"), folder / "lake"
    for statement in ("CREATE DATABASE t", A.create, B.create):
        log.ddl(statement)
    poisoned(log)
    whole = run(log.folder, target, crash=step, **how)
    assert run(log.folder, target, **how)
    assert_cuts(target)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 3
    log.transaction(insert(A, (5, "kept")), insert(B, (5, "x")))
    whole &= run(log.folder, target, crash=step, **how)
    assert run(log.folder, target, **how)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 4
    assert command(target, "replay") == 0
    mended = {**how, "exec_mode": "idempotent"}
    whole &= run(log.folder, target, crash=step, **mended)
    assert run(log.folder, target, **mended)
    assert rows(target, A) == [(1, "again"), (5, "kept"), (9, "moved"), (77, "y")]
    assert len(rows(target, B)) == 5 and not cuts(target)[-1].quarantined
    assert not [f for f in (target / "_repl" / "quarantine").rglob("*") if f.is_file()]
    return not whole


@pytest.mark.parametrize("ordered", [True, False])
def test_a_crash_at_any_step_keeps_each_transaction_once(tmp_path: Path, ordered: bool) -> None:
    step = 1
    how = {**KEEP, "group_max_transactions": 2, "preserve_commit_order": ordered}
    while cut_off_at(step, tmp_path / f"run{step}", how):
        step += STRIDE
    assert step > 10


def test_a_replay_in_vain_leaves_the_quarantine_with_its_reason(
    log: LogWriter, target: Path
) -> None:
    """It stays in quarantine with its reason, and is not retried until the user asks for it."""
    poisoned(log)
    assert run(log.folder, target, **KEEP)
    assert command(target, "replay") == 0
    log.transaction(insert(B, (8, "x")))
    assert run(log.folder, target, **KEEP)
    still = status(str(target))["quarantined"]["t.a"]
    assert still["asked"] == "" and "Can't find record" in still["failed"]
    assert cuts(target)[-1].quarantined["t.a"].transactions == 3
    assert rows(target, A) == [(1, "x"), (2, "x")] and len(rows(target, B)) == 5


def test_quarantine_drop_forgets_what_was_kept(log: LogWriter, target: Path) -> None:
    """What was kept is forgotten, and does not come again when the log is read once more."""
    poisoned(log)
    assert run(log.folder, target, **KEEP)
    assert command(target, "drop") == 0
    log.transaction(insert(A, (5, "later")))
    assert run(log.folder, target, **KEEP)
    assert rows(target, A) == [(1, "x"), (2, "x"), (5, "later")]
    assert not cuts(target)[-1].quarantined
    log.transaction(insert(A, (1, "lacks the DELETE")))  # found, though the log made the table
    assert run(log.folder, target, **KEEP)
    assert cuts(target)[-1].quarantined["t.a"].reason.startswith("Duplicate entry")


def test_a_table_without_key_is_replayed(log: LogWriter, target: Path) -> None:
    log.ddl(BAG.create)
    log.transaction(insert(BAG, (1, "x"), (1, "x")))
    log.transaction(delete(BAG, (2, "no such")), insert(BAG, (3, "y")))
    log.transaction(delete(BAG, (1, "x")), insert(B, (1, "x")))
    assert run(log.folder, target, **KEEP)
    assert cuts(target)[-1].quarantined.keys() == {"t.bag"} and rows(target, B) == [(1, "x")]
    assert command(target, "replay", table="t.bag") == 0
    assert run(log.folder, target, **MENDED)
    assert rows(target, BAG) == [(1, "x"), (3, "y")]


def test_changes_that_leave_no_row_another(log: LogWriter, target: Path) -> None:
    """The position moves on all the same, so that they never come again."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(delete(A, (2, "no such")))
    log.transaction(insert(A, (3, "y")))
    log.transaction(delete(A, (3, "y")))
    assert run(log.folder, target, **KEEP)
    assert command(target, "replay") == 0
    assert run(log.folder, target, **MENDED)
    assert rows(target, A) == [(1, "x")] and not status(str(target))["quarantined"]


XID = b"one", b"", 1


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_branch_is_kept_when_it_is_committed(log: LogWriter, target: Path, by_hand: bool) -> None:
    """A branch counts where it is committed, also by hand, behind the cut; its bytes are kept."""
    log.transaction(delete(A, (7, "no such")))
    log.xa_prepare(XID, insert(A, (1, "x")), insert(B, (1, "x")))
    if not by_hand:
        log.xa_end("COMMIT", XID)
    assert run(log.folder, target, **KEEP)
    if by_hand:
        xid = f"{XID[0].hex()},,1"
        assert main(["xa", "commit", "--target", str(target), "--xid", xid]) == 0
        assert run(log.folder, target, **KEEP)
    assert rows(target, B) == [(1, "x")] and not rows(target, A)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 2
    assert run(log.folder, target, **KEEP)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 2
    assert command(target, "replay") == 0
    assert run(log.folder, target, **MENDED)
    assert rows(target, A) == [(1, "x")]


def test_a_statement_on_the_table_stops_and_its_removal_ends_the_quarantine(
    log: LogWriter, target: Path
) -> None:
    """What changes the table stops by name, one that removes it ends the quarantine."""
    poisoned(log)
    log.ddl("ANALYZE TABLE t.a")
    log.ddl("ALTER TABLE t.a ADD COLUMN n INT")
    error = stopped(log.folder, target, **KEEP)
    assert isinstance(error, StatementError) and error.table == "t.a"
    assert "quarantine replay" in str(error.hint)
    assert command(target, "replay") == 0
    assert run(log.folder, target, **MENDED)
    wider = Table("a", (*A.columns, ("n", "int")))
    assert rows(target, wider) == [(*row, None) for row in WHOLE]
    log.transaction(delete(wider, (55, "no such", 1)))
    log.ddl("DROP TABLE t.a")
    log.ddl(A.create)
    log.transaction(insert(A, (1, "new")))
    assert run(log.folder, target, **KEEP)
    assert run(log.folder, target, **KEEP)
    last = cuts(target)[-1]
    assert at_cut(target, last)["t.a"] == [(1, "new")] and not last.quarantined
    assert not status(str(target))["quarantined"]


@pytest.mark.parametrize(
    "policy, rule, goes",
    [
        ("apply", "", True), ("additive_only", "", True), ("ignore_drop", "", False),
        ("apply", "ignore_drop", False), ("apply", "stop", False), ("ignore_drop", "apply", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("statement", ["DROP TABLE t.a", "DROP DATABASE t"])
def test_a_drop_ends_it_as_the_tables_policy_says(
    log: LogWriter, target: Path, statement: str, policy: str, rule: str, goes: bool
) -> None:
    """The table's own rule goes before that of all: what DROP leaves there stays in quarantine."""
    poisoned(log)
    log.ddl(statement)
    rules = [{"match": "t.a", "on_ddl": rule}] if rule else []
    how: dict[str, Any] = {**KEEP, "ddl": {"policy": policy}, "tables": rules}
    if goes:
        assert run(log.folder, target, **how)
        assert run(log.folder, target, **how)
        assert "t.a" not in cuts(target)[-1].tables and not status(str(target))["quarantined"]
    else:
        error = stopped(log.folder, target, **how)
        assert isinstance(error, StatementError) and error.table == "t.a"
        assert "in quarantine since" in error.message
        assert rows(target, A) == [(1, "x"), (2, "x")]


def test_a_new_copy_ends_a_quarantine(log: LogWriter, target: Path) -> None:
    poisoned(log)
    how = {**KEEP, "copies": True}
    assert run(log.folder, target, **how)
    plan(target, "t.a")
    log.transaction(insert(A, (5, "while it is read")), insert(B, (5, "x")))
    read(target, A, [*WHOLE, (5, "while it is read")])
    assert run(log.folder, target, **how)
    finish(target, f"{log.source}:1-9")
    log.transaction(insert(A, (6, "behind it")))
    assert run(log.folder, target, **how)
    last = cuts(target)[-1]
    assert not last.quarantined and not status(str(target))["quarantined"]
    assert sorted(at_cut(target, last)["t.a"]) == sorted(
        [*WHOLE, (5, "while it is read"), (6, "behind it")]
    )


def test_a_copy_of_another_table_given_up(log: LogWriter, target: Path) -> None:
    """The applier goes back for it, to a cut before others, and forth again: nothing is kept twice,
    nothing is lost."""
    poisoned(log)
    assert run(log.folder, target, **KEEP)
    plan(target, "t.b")
    for key in range(5, 9):
        log.transaction(insert(A, (key + 10, "kept")), insert(B, (key, "x")))
    assert run(log.folder, target, **KEEP)
    before = cuts(target)[-1].quarantined["t.a"]
    assert before.transactions == 7
    read(target, B, [(key, "x") for key in range(1, 9)])
    finish(target, f"{log.source}:1-12")
    assert command(target, "replay") == 0
    assert run(log.folder, target, **KEEP)  # in vain, or later
    assert cuts(target)[-1].quarantined["t.a"].transactions == 7
    assert command(target, "replay") == 0
    assert run(log.folder, target, **MENDED)
    assert rows(target, A) == sorted([*WHOLE, *((key + 10, "kept") for key in range(5, 9))])


C = Table("c")
BEHIND_THE_COPY = {
    "created": [C.create],
    "created again": [C.create, "DROP TABLE t.c", C.create],
    "renamed": ["RENAME TABLE t.a TO t.c"],
    "renamed twice": ["RENAME TABLE t.a TO t.d", "RENAME TABLE t.d TO t.c"],
    "renamed and altered": ["RENAME TABLE t.a TO t.c", "ALTER TABLE t.c COMMENT 'c'"],
}


@pytest.mark.parametrize("applied", [False, True], ids=["", "kept before the copy is taken in"])
@pytest.mark.parametrize("statements", [*BEHIND_THE_COPY.values()], ids=[*BEHIND_THE_COPY])
def test_a_table_that_a_statement_made_while_another_is_copied(
    log: LogWriter, target: Path, statements: list[str], applied: bool
) -> None:
    """The applier goes back to the cut before the copy: the table isn't in it, or has another name.
    It doesn't go back for ever."""
    log.transaction(insert(B, (1, "x")))
    assert run(log.folder, target, **KEEP)
    plan(target, "t.b")
    for statement in statements:
        log.ddl(statement)
    log.transaction(insert(C, (1, "x")), insert(B, (2, "x")))
    log.transaction(delete(C, (77, "no such")), insert(C, (2, "kept")))
    log.transaction(insert(C, (3, "kept")))
    if applied:
        assert run(log.folder, target, **KEEP)
    read(target, B, [(1, "x"), (2, "x")])
    finish(target, f"{log.source}:1-{log.gno - 1}")
    for _ in range(2):
        assert run(log.folder, target, **KEEP)
        last = cuts(target)[-1]
        assert last.gtid_executed == f"{log.source}:1-{log.gno - 1}"
        assert {name: one.transactions for name, one in last.quarantined.items()} == {"t.c": 2}
        shown = at_cut(target, last)
        assert shown["t.c"] == [(1, "x")] and shown["t.b"] == [(1, "x"), (2, "x")]
    assert command(target, "replay", table="t.c") == 0
    assert run(log.folder, target, **MENDED)
    assert at_cut(target, cuts(target)[-1])["t.c"] == [(1, "x"), (2, "kept"), (3, "kept")]


def test_a_change_that_comes_again_stops_the_applier(log: LogWriter, target: Path) -> None:
    """Whatever keeps its table from standing still, the applier goes back for it once."""
    poisoned(log)
    with applier(log.folder, target, **KEEP) as replica:
        with pytest.raises(RowError) as raised:
            replica.coordinator.apply(replica.index.slice(0, replica.index.end))
        error = raised.value
        replica._pass_over(error)
        with pytest.raises(RowError) as again:
            replica._pass_over(error)
        assert again.value is error


def test_the_quarantine_goes_on_by_gtid_in_another_log(
    log: LogWriter, target: Path, tmp_path: Path
) -> None:
    """It goes on by GTID: the same transactions lie elsewhere, and are not kept twice."""
    again = LogWriter(tmp_path / "again", created=1_800_000_000)
    for statement in ("CREATE DATABASE t", A.create, B.create):
        again.ddl(f"/* again */ {statement}")
    poisoned(log)
    poisoned(again)
    again.transaction(insert(A, (5, "kept")), insert(B, (5, "x")))
    assert run(log.folder, target, **KEEP)
    assert run(again.folder, target, **KEEP)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 4
    assert command(target, "replay") == 0
    assert run(again.folder, target, **MENDED)
    assert rows(target, A) == [(1, "again"), (5, "kept"), *WHOLE[1:]]


def test_a_quarantine_is_bounded_in_transactions_and_bytes(log: LogWriter, target: Path) -> None:
    poisoned(log)
    few = stopped(log.folder, target, **KEEP, quarantine_max_transactions=2)
    assert isinstance(few, QuarantineError) and few.table == "t.a"
    assert "apply.quarantine_max_transactions is 2" in few.message
    small = stopped(log.folder, target, **KEEP, quarantine_max_bytes=100)
    assert "apply.quarantine_max_bytes is 100" in small.message
    assert run(log.folder, target, **KEEP)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 3


def test_tables_in_quarantine_are_replayed_one_by_one(log: LogWriter, target: Path) -> None:
    poisoned(log)
    log.transaction(delete(B, (99, "no such")))
    log.transaction(insert(B, (5, "x")))
    assert run(log.folder, target, **KEEP)
    assert cuts(target)[-1].quarantined.keys() == {"t.a", "t.b"}
    assert command(target, "replay", table="t.b") == 0
    assert run(log.folder, target, **MENDED)
    assert cuts(target)[-1].quarantined.keys() == {"t.a"} and len(rows(target, B)) == 5


def test_who_does_not_ask_for_it_stops(log: LogWriter, target: Path) -> None:
    """Also where a table is in quarantine from before: that goes on."""
    poisoned(log)
    assert stopped(log.folder, target).number == 1032
    assert run(log.folder, target, **KEEP)
    log.transaction(insert(A, (5, "kept")), insert(B, (5, "x")))
    assert run(log.folder, target)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 4
    log.transaction(delete(B, (99, "no such")))
    assert stopped(log.folder, target).table == "t.b"


def test_readers_and_commands_show_a_quarantine(log: LogWriter, target: Path, capsys: Any) -> None:
    poisoned(log)
    assert run(log.folder, target, **KEEP)
    layout, cut = Layout(str(target)), cuts(target)[-1]
    with pytest.raises(ConfigError, match=r"t\.a is in quarantine at the cut since .*:5: Can't"):
        CutReader(MagicMock(), layout, cut).table("t.a")
    CutReader(MagicMock(), layout, cut, quarantined=True).table("t.a")
    assert manifest(layout, cut)["tables"].keys() == {"t.b"}
    assert manifest(layout, cut, quarantined=True)["tables"].keys() == {"t.a", "t.b"}
    looked = status(str(target))
    assert looked["quarantined"]["t.a"]["transactions"] == 3
    assert any("t.a is in quarantine since" in one["what"] for one in looked["problems"])
    assert 'spark_repl_tables_quarantined{channel="default"} 1.0' in metrics(looked)
    assert main(["cut", "show", "--target", str(target)]) == 0
    assert "in quarantine: t.a since" in capsys.readouterr().out
    assert command(target, "list") == 0
    assert "t.a" in (said := capsys.readouterr().out) and log.gtid(4) in said
    assert "t.a: Try: correct its rows, stop the applier, spark-repl quarantine replay" in said
    assert command(target, "show") == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["operation"] for one in shown] == ["DELETE", "INSERT", "UPDATE", "INSERT", "DELETE"]
    assert shown[2]["after"] == {"id": 9, "v": "moved"} and shown[2]["gtid"] == log.gtid(5)
    assert command(target, "show", table="t.b") == 2
    assert "in quarantine: t.a" in capsys.readouterr().err


def test_what_to_do_is_what_the_error_says_and_what_was_decided(
    log: LogWriter, target: Path, capsys: Any
) -> None:
    """Not rows but a value is wrong: the error knows better than the cure of all."""
    text = Table("k", (("id", "int"), ("v", "varchar(40) CHARACTER SET cp932")))
    log.ddl(text.create)
    log.transaction(insert(text, (1, b"\x81")), insert(B, (1, "x")))
    assert run(log.folder, target, **KEEP)
    still = status(str(target))
    hint = still["quarantined"]["t.k"]["hint"]
    assert hint.startswith('set target.text_errors = "replace"') and hint.partition("; or ")[
        2
    ].startswith("correct its rows, stop")
    assert hint in [one["hint"] for one in still["problems"]]
    for decided, done in (("replay", "replayed"), ("drop", "forgotten")):
        assert command(target, decided, table="t.k") == 0
        assert command(target, "list") == 0
        said = f"t.k: Try: what is kept of it is {done} when the applier starts next"
        assert said in capsys.readouterr().out


def test_the_bytes_are_checked(log: LogWriter, target: Path) -> None:
    poisoned(log)
    assert run(log.folder, target, **KEEP)
    (kept,) = (target / "_repl" / "quarantine").rglob("*.events")
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_bytes(kept.read_bytes()[10:])
    assert "a file of the quarantine is damaged" in str(stopped(log.folder, target, **KEEP))


@pytest.mark.parametrize("ends", ["DROP TABLE t.a", "DROP DATABASE t2"])
def test_what_is_kept_of_a_table_that_is_gone_does_not_count(
    log: LogWriter, target: Path, ends: str
) -> None:
    """Against the limits, from the statement on that takes the table."""
    gone = Table("a", database="t2") if "t2" in ends else A
    log.ddl("CREATE DATABASE t2")
    for table in (Table("a", database="t2"), Table("c")):
        log.ddl(table.create)
    log.transaction(delete(B, (66, "no such")))
    log.transaction(delete(gone, (77, "no such")))
    for key in range(3):
        log.transaction(insert(gone, (key, "x")))
    log.ddl(ends)
    log.ddl("RENAME TABLE t.c TO t.other")
    log.transaction(insert(B, (1, "x")), insert(Table("other"), (1, "x")))
    options = {**KEEP, "group_max_transactions": 1}
    assert run(log.folder, target, **options, quarantine_max_transactions=5)
    assert last_shown(target)["t.other"] == [(1, "x")]
    for key in range(2, 5):
        log.transaction(insert(B, (key, "x")))
    assert run(log.folder, target, **options, quarantine_max_transactions=5)
    assert cuts(target)[-1].quarantined["t.b"].transactions == 5
    log.transaction(insert(B, (5, "x")))
    error = stopped(log.folder, target, **options, quarantine_max_transactions=5)
    assert isinstance(error, QuarantineError)
