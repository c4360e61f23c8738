"""Rows of single keys that were read from the source again, brought into their table between two
groups: exactly those, at a cut where they are right, whatever a crash leaves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.decode.stage_worker import stage
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.store.delta_rs_read import read as delta_rows
from spark_repl.errors import (
    ConcurrentChangeError,
    FencedError,
    RowsFailed,
    RowsOutdated,
    TargetError,
)
from spark_repl.gtid import GtidSet
from spark_repl.write.rows.row_repair import RowsToRepair
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import STRIDE
from tests.support.local_delta import (
    HERE,
    LocalDelta,
    applier,
    apply_without_stream,
    cuts,
    rows,
    run,
)
from tests.support.read_rows import Read, repaired

A, B = Table("a"), Table("b")
XID = (b"branch", b"", 1)
WRONG = [(1, "wrong"), (2, "too many"), (4, "right"), (5, "right")]
MENDED = [(1, "right"), (3, "missing"), (4, "right"), (5, "right")]


def damaged(log: LogWriter) -> None:
    """Change t.a as another writer would: the source's rows of it are MENDED."""
    log.transaction(insert(A, *WRONG), insert(B, (1, "x")))
    log.transaction(insert(B, (2, "x")))


def refused(made: RowsToRepair | None) -> str:
    assert made is not None and made.refused is not None
    return str(made.refused)


def test_a_repair_brings_only_the_read_rows(log: LogWriter, target: Path) -> None:
    """In one commit, with the position that the table has; then the log goes on strictly."""
    damaged(log)
    assert run(log.folder, target, group_max_transactions=1)
    before = cuts(target)[-1]
    assert before.tables["t.a"].position < before.position
    made = repaired(log, target, Read())
    assert made is not None and made.refused is None
    assert rows(target, A) == MENDED
    after = cuts(target)[-1]
    assert (after.position, after.gtid_executed) == (before.position, before.gtid_executed)
    assert after.tables["t.b"] == before.tables["t.b"]
    assert after.tables["t.a"].position == before.tables["t.a"].position
    assert after.tables["t.a"].version == made.outcome.result() == before.tables["t.a"].version + 1
    actions = read_commit(f"{target}/t/a", made.outcome.result() or 0) or []
    added = {a["add"]["path"]: json.loads(a["add"]["stats"]) for a in actions if "add" in a}
    assert [a["txn"]["appId"] for a in actions if "txn" in a] == ["spark_repl:default:repair"]
    removed = {a["remove"]["path"] for a in actions if "remove" in a}
    assert removed and removed <= added.keys(), "marked, and there"
    assert [added[path]["numRecords"] for path in added.keys() - removed] == [2]
    log.transaction(update(A, ((1, "right"), (1, "y"))), delete(A, (3, "missing")))
    log.transaction(insert(A, (2, "comes")))
    assert run(log.folder, target)
    assert rows(target, A) == [(1, "y"), (2, "comes"), (4, "right"), (5, "right")]


def test_a_repair_goes_on_while_other_rows_change(log: LogWriter, target: Path) -> None:
    """Under load the table's last transaction is the cut's: its position is the cut's own."""
    damaged(log)

    def load() -> None:
        for number in range(6, 12):
            log.transaction(insert(A, (number, "new")), update(A, ((5, "right"), (5, "right"))))
        log.xa_prepare(XID, insert(A, (1, "not yet")))

    made = repaired(log, target, Read(), meanwhile=load, group_max_transactions=2)
    assert made is not None and made.refused is None
    assert rows(target, A) == MENDED + [(number, "new") for number in range(6, 12)]
    log.xa_end("ROLLBACK", XID)
    log.transaction(delete(A, (1, "right")))
    assert run(log.folder, target)
    assert (1, "right") not in rows(target, A)


@pytest.mark.parametrize("key", [1, 2, 3])
def test_a_row_that_was_changed_meanwhile(log: LogWriter, target: Path, key: int) -> None:
    """For each kind of change. It is not known which version is newer, so the row is read again."""
    damaged(log)
    change = {1: update(A, ((1, "wrong"), (1, "newer"))), 2: delete(A, (2, "too many")),
              3: insert(A, (3, "newer"))}[key]  # fmt: skip
    made = repaired(
        log, target, Read(), meanwhile=lambda: log.transaction(change, compressed=key == 2)
    )
    assert "a row was changed" in refused(made) and isinstance(made and made.refused, RowsOutdated)
    assert dict(rows(target, A)).get(key) == {1: "newer", 3: "newer"}.get(key)


def test_a_row_that_came_and_went_while_it_was_read_is_refused(
    log: LogWriter, target: Path
) -> None:
    """It is nowhere before and behind, and was on the source when it was read; also by a minimal
    image, and where a key moves away."""
    damaged(log)

    def come_and_go() -> None:
        log.transaction(insert(A, (3, "missing")))
        log.transaction(update(A, ({0: 3}, {0: 33})))
        log.transaction(delete(A, (33, "missing")))

    assert "a row was changed" in refused(repaired(log, target, Read(), meanwhile=come_and_go))
    assert rows(target, A) == WRONG
    made = repaired(log, target, Read())
    assert made and made.refused is None and rows(target, A) == MENDED


def test_changes_that_name_no_row_refuse_a_repair(log: LogWriter, target: Path) -> None:
    """A statement, the end of an XA branch whose rows are elsewhere, another definition."""
    damaged(log)
    made = repaired(log, target, Read(), meanwhile=lambda: log.ddl("CREATE TABLE t.c (i INT)"))
    assert "is a statement" in refused(made)
    log.xa_prepare(XID, insert(A, (77, "branch")))
    made = repaired(log, target, Read(), meanwhile=lambda: log.xa_end("COMMIT", XID))
    assert "ends an XA branch" in refused(made) and (77, "branch") in rows(target, A)
    log.ddl("ALTER TABLE t.a ADD COLUMN n INT")
    old = classified(A)
    made = repaired(
        log, target, Read(come=(), gone=((2, None, None),), changed={"definition": old})
    )
    assert "other columns" in refused(made)


def classified(table: Table) -> Any:
    from spark_repl.sql.classify import classify

    return classify(table.create, table.database).definition


def test_a_repair_read_ahead_of_the_applier_is_refused(log: LogWriter, target: Path) -> None:
    damaged(log)
    later = GtidSet.parse(log.gtid(99))
    assert "do not hold" in refused(repaired(log, target, Read(changed={"until": later})))
    assert rows(target, A) == WRONG


def test_a_log_that_is_gone(log: LogWriter, target: Path) -> None:
    """The log has lost the transactions that were applied meanwhile, so the applier can't check
    them."""
    damaged(log)
    assert run(log.folder, target)
    first = cuts(target)[0]
    log.rotate()
    log.transaction(insert(B, (9, "x")))
    assert run(log.folder, target)
    assert refused(repaired(log, target, Read(changed={"behind": first}))).startswith(log.gtid(1))
    (log.folder / "bin.000001").unlink()
    made = repaired(log, target, Read(changed={"behind": first}))
    assert "does not hold what was applied" in refused(made)


def test_a_repair_is_refused_while_foreign_keys_may_act(log: LogWriter, target: Path) -> None:
    """They change rows and no log says so: such a table is repaired while nothing changes."""
    child = Table("child", (("id", "int"), ("a_id", "int")))
    log.ddl("CREATE TABLE t.child (id INT PRIMARY KEY, a_id INT,"
            " FOREIGN KEY (a_id) REFERENCES t.b (id) ON DELETE CASCADE)")  # fmt: skip
    log.transaction(insert(B, (1, "x")), insert(child, (1, 1)))
    read = Read(((1, 7),), (), child)
    made = repaired(log, target, read, meanwhile=lambda: log.transaction(insert(A, (9, "x"))))
    assert "foreign key's action" in refused(made)
    made = repaired(log, target, read)
    assert made and made.refused is None and rows(target, child) == [(1, 7)]


@pytest.mark.parametrize("options", [{"vectors": False}, {"feed": True}], ids=str)
def test_a_repair_works_without_vectors_and_with_a_change_feed(
    log: LogWriter, target: Path, options: dict[str, Any]
) -> None:
    """Without deletion vectors, with a change feed."""
    damaged(log)
    made = repaired(log, target, Read(), **options)
    assert made and made.refused is None and made.outcome.result() and rows(target, A) == MENDED
    actions = read_commit(f"{target}/t/a", made.outcome.result() or 0) or []
    marked = [a for a in actions if "deletionVector" in a.get("add", {})]
    assert bool(marked) == options.get("vectors", True)
    if "feed" in options:
        changes = [a["cdc"] for a in actions if "cdc" in a]
        found = pa.concat_tables(pq.read_table(f"{target}/t/a/{one['path']}") for one in changes)
        kinds = sorted(zip(found["id"].to_pylist(), found["_change_type"].to_pylist(), strict=True))
        assert kinds == [
            (1, "update_postimage"),
            (1, "update_preimage"),
            (2, "delete"),
            (3, "insert"),
        ]


def test_a_repair_compares_the_logs_rows_in_their_masked_form(
    log: LogWriter, target: Path, mask_key: str
) -> None:
    """The log's rows are looked through in the form that the target has them in."""
    rule = {"match": "t.a", "mask": {"v": "sha256"}}
    given: Any = {"tables": [rule], "keys": {"mask_key_env": "MASK_KEY"}}
    damaged(log)
    change = insert(A, (8, "others"))
    read = Read(((1, "masked already"),), ((2, None),))
    made = repaired(log, target, read, meanwhile=lambda: log.transaction(change), **given)
    assert made and made.refused is None
    assert dict(rows(target, A))[1] == "masked already" and len(dict(rows(target, A))[8]) == 64
    change = delete(A, (1, "wrong"))
    made = repaired(log, target, read, meanwhile=lambda: log.transaction(change), **given)
    assert "a row was changed" in refused(made)


def test_a_row_that_no_partition_can_have_leaves_no_file(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No partition can have it; and of what is written in vain no file is left."""
    damaged(log)
    given: Any = {"partition_by": ["t.a(v)"]}
    read = Read(((1, "__HIVE_DEFAULT_PARTITION__"),), ())
    assert "has no place" in refused(repaired(log, target, read, **given))
    with monkeypatch.context() as patched:
        there = set((target / "t/a").rglob("*.parquet"))
        vain = MagicMock(side_effect=TargetError("in vain"))
        patched.setattr("spark_repl.write.rows.row_repair.row_actions", vain)
        assert "in vain" in refused(repaired(log, target, Read(), **given))
        assert vain.called and set((target / "t/a").rglob("*.parquet")) == there
    made = repaired(log, target, Read(((1, "right"),), ()), **given)
    assert made and made.refused is None and dict(rows(target, A))[1] == "right"


def test_a_repair_builds_a_lost_key_index(log: LogWriter, target: Path) -> None:
    """It may be lost at any time, and is made again."""
    damaged(log)
    assert run(log.folder, target)
    shutil.rmtree(target / "_repl" / "keys")
    made = repaired(log, target, Read())
    assert made and made.refused is None and rows(target, A) == MENDED


def test_a_table_in_quarantine_is_not_repaired(log: LogWriter, target: Path) -> None:
    damaged(log)
    assert run(log.folder, target)
    log.transaction(delete(A, (77, "no such")))
    keep = {"on_error": "quarantine"}
    assert "in quarantine" in refused(repaired(log, target, Read(), **keep))
    assert rows(target, A) == WRONG


def test_tables_that_are_ahead(log: LogWriter, target: Path, killed: Callable[..., None]) -> None:
    """As a crash leaves them: no cut is where they are."""
    damaged(log)
    assert run(log.folder, target)
    log.transaction(insert(A, (7, "ahead")), insert(B, (7, "x")))
    killed(log, target, lambda name: name == "before_cut")
    with applier(log.folder, target) as found:
        made = Read().of(found, target.parent / "read")
        found.take_rows(made)
        found._go_back()
        assert "ahead of the last cut" in refused(made)
        apply_without_stream(found)
    assert rows(target, A) == sorted([*WRONG, (7, "ahead")])


def test_an_error_of_repaired_rows_does_not_stop_the_applier(log: LogWriter, target: Path) -> None:
    """The applier continues without them. The process that opened the target retries a temporary
    error."""
    damaged(log)

    def raising(error: Exception) -> RowsToRepair | None:
        class Raising(LocalDelta):
            def commit(self, planned: Any, actions: Any, stamp: Stamp) -> int:
                if stamp.app.endswith(":repair"):
                    raise error
                return super().commit(planned, actions, stamp)

        return repaired(log, target, Read(), parts=replace(HERE, delta_log=Raising))

    for error in (TargetError("a key has more than one row"), ValueError("a bug")):
        assert str(error) in refused(raising(error))
    for passes in (ConcurrentChangeError("OPTIMIZE"), FencedError("another")):
        with pytest.raises(type(passes)):
            raising(passes)
    log.transaction(insert(B, (8, "x")))
    assert run(log.folder, target) and rows(target, A) == WRONG


def test_a_repair_may_be_repeated(log: LogWriter, target: Path) -> None:
    """It is repeated as after a crash right after the commit. Rows that neither side has cause no
    commit."""
    damaged(log)
    for _ in range(2):
        made = repaired(log, target, Read())
        assert made and made.refused is None and rows(target, A) == MENDED
    made = repaired(log, target, Read((), ((99, None),)))
    assert (
        made
        and made.refused is None
        and made.outcome.result() is None
        and rows(target, A) == MENDED
    )


def cut_off_at(step: int, folder: Path, options: dict[str, Any]) -> bool:
    """A repair that is cut off at a step, and done again; whether there was a step."""
    folder.mkdir()
    log, target = LogWriter(folder / "log"), folder / "lake"
    for statement in ("CREATE DATABASE t", A.create, B.create):
        log.ddl(statement)
    damaged(log)
    assert run(log.folder, target, **options)

    def load() -> None:
        log.transaction(insert(A, (6, "new")), insert(B, (3, "x")))

    crashed = repaired(log, target, Read(), crash=step, meanwhile=load, **options) is None
    for cut in cuts(target)[3:]:
        shown = rows(target, A, cut.tables["t.a"].version)
        assert [one for one in shown if one[0] != 6] in ([], WRONG, MENDED)
    log.transaction(update(A, ((4, "right"), (4, "later"))), insert(B, (4, "x")))
    assert run(log.folder, target, **options), "the next start needs no rows"
    made = repaired(log, target, Read(), **options)
    assert made and made.refused is None
    want = [(1, "right"), (3, "missing"), (4, "later"), (5, "right"), (6, "new")]
    assert rows(target, A) == want and len(rows(target, B)) == 4
    last = cuts(target)[-1]
    assert rows(target, A, last.tables["t.a"].version) == want
    log.transaction(delete(A, (1, "right")), insert(A, (2, "again")))
    assert run(log.folder, target, **options)
    return crashed


@pytest.mark.parametrize("ordered", [True, False])
def test_a_crash_at_any_step_repairs_once(tmp_path: Path, ordered: bool) -> None:
    step, options = 1, {"preserve_commit_order": ordered}
    while cut_off_at(step, tmp_path / f"run{step}", options):
        step += max(1, STRIDE // 6)
    assert step > 4


def test_a_commit_whose_answer_was_lost(
    log: LogWriter, target: Path, faults: Callable[..., list[str]]
) -> None:
    """Storage fails before the commit, and is there again: nothing is left of the first attempt."""
    damaged(log)
    assert run(log.folder, target)
    tried = faults(("t/a",), 1)
    with pytest.raises(OSError, match="Input/output"):
        repaired(log, target, Read())
    assert tried == ["t/a"] and rows(target, A) == WRONG
    made = repaired(log, target, Read())
    assert made and made.refused is None and rows(target, A) == MENDED


E = Table("e", (("id", "int"), ("v", "varchar(40)"), ("n", "int")))
SHAPES: dict[str, dict[str, Any]] = {
    "one": {"extra_columns": ["operation"]},
    "some": {"extra_columns": ["gtid", "commit_time"]},
    "all": {"extra_columns": ["source_table", "gtid", "commit_time", "operation", "deleted"]},
    "deleted": {"extra_columns": ["deleted"]},
    "filtered": {"row_filter": "id < 100"},
    "fewer": {"exclude": ["n"]},
    "masked": {"mask": {"v": "truncate:3"}},
    "both": {"row_filter": "n < 9", "extra_columns": ["gtid", "deleted"], "exclude": ["n"]},
}
OF_COPY = {"source_table": "t.e", "gtid": "x:1", "commit_time": None, "operation": "COPY"}


def as_kept(shape: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of the source as the target's table has it when it is read."""
    rule = SHAPES[shape]
    values = [row[0], row[1][:3] if "mask" in rule else row[1]]
    values += [] if rule.get("exclude") else [row[2]]
    extra = rule.get("extra_columns", [])
    return (*values, *(OF_COPY.get(name, False) for name in extra))


@pytest.mark.parametrize("shape", SHAPES)
def test_under_load_whatever_the_table_has_beside_the_sources_columns(
    log: LogWriter, target: Path, shape: str
) -> None:
    """Transactions about other rows of the table are looked through, and none of them is a reason
    not to take the rows, or to copy the table."""
    log.ddl(E.create)
    log.transaction(insert(E, (1, "wrong", 1), (2, "too many", 1), (5, "five", 1), (6, "six", 1)))
    log.transaction(delete(E, (6, "six", 1)))
    options = {"tables": [{"match": "t.e", **SHAPES[shape]}]}
    assert run(log.folder, target, **options)

    def load() -> None:
        log.transaction(insert(E, (7, "seven", 1)), update(E, ((5, "five", 1), (5, "fift", 1))))
        log.transaction(delete(E, (7, "seven", 1)))

    gone = tuple(None if n else 2 for n in range(len(as_kept(shape, (2, "", 1)))))
    extra: list[str] = SHAPES[shape].get("extra_columns", [])
    if "deleted" in extra:
        gone = (*gone[:-1], True)
    read = Read([as_kept(shape, (1, "right", 1)), as_kept(shape, (3, "missing", 1))], [gone], E)
    made = repaired(log, target, read, meanwhile=load, **options)
    assert made is not None and made.refused is None
    found = delta_rows(f"{target}/t/e").to_pylist()
    there = {row["id"]: row["v"] for row in found if not row.get("_deleted")}
    want = {1: "right", 3: "missing", 5: "fift"}
    assert there == {key: as_kept(shape, (key, v, 1))[1] for key, v in want.items()}
    if "deleted" in extra:
        assert {2, 6, 7} == {row["id"] for row in found if row["_deleted"]}


@pytest.mark.parametrize("shape", ["some", "all", "filtered"])
def test_a_row_that_was_changed_meanwhile_whatever_the_table_has(
    log: LogWriter, target: Path, shape: str
) -> None:
    log.ddl(E.create)
    log.transaction(insert(E, (1, "wrong", 1)))
    options = {"tables": [{"match": "t.e", **SHAPES[shape]}]}
    change = update(E, ((1, "wrong", 1), (1, "newer", 1)))
    read = Read([as_kept(shape, (1, "right", 1))], (), E)
    made = repaired(log, target, read, meanwhile=lambda: log.transaction(change), **options)
    assert "a row was changed" in refused(made) and isinstance(made and made.refused, RowsOutdated)


def test_an_error_of_a_repair_is_no_reason_for_a_copy(log: LogWriter, target: Path) -> None:
    """The applier goes on without the rows."""
    damaged(log)
    broken = replace(HERE, stage=lambda task: 1 / 0 if task.commits else stage(task))
    made = repaired(
        log, target, Read(), meanwhile=lambda: log.transaction(insert(A, (9, "new"))), parts=broken
    )
    assert made is not None and isinstance(made.refused, RowsFailed)
    assert "division by zero" in str(made.refused)
    assert (9, "new") in rows(target, A)
