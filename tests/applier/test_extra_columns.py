"""extra_columns of ``[[tables]]``: what a row's last change was stands beside it, and rows that the
source deletes stay, whatever groups, workers, images, statements and crashes there are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.errors import (
    ConfigError,
    DecodeError,
    RowError,
    SchemaError,
    SettingError,
)
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.extra_model import (
    EXTRA,
    FIRST,
    OneByOne,
    T,
    begun,
    carried_on,
    refuse_each_other,
    rule,
    told,
)
from tests.support.local_delta import at_cut, cuts, last_shown, run, stopped
from tests.support.made_copy import finish, plan_first, read
from tests.support.read_rows import Read, repaired


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def shown(target: Path, *names: str) -> list[tuple[Any, ...]]:
    """The table's key, and the extra columns that are named."""
    picked = [3 + EXTRA.index(name) for name in names]
    return [(row[0], *(row[number] for number in picked)) for row in last_shown(target)["t.a"]]


def test_what_rows_tell_of_their_last_change(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(update(T, (FIRST[0], (1, 3, "x"))), delete(T, FIRST[1]))
    log.transaction(update(T, (FIRST[2], (9, 1, "z"))), insert(T, (4, 4, "q")))
    assert run(log.folder, tmp_path / "lake", **rule())
    assert last_shown(tmp_path / "lake")["t.a"] == [
        (1, 3, "x", *told(log, 4, "UPDATE")),
        (2, 5, "y", *told(log, 4, "DELETE")),
        (3, None, "z", *told(log, 5, "UPDATE")[:-1], True),
        (4, 4, "q", *told(log, 5, "INSERT")),
        (9, 1, "z", *told(log, 5, "UPDATE")),
    ]
    log.transaction(insert(T, (2, 7, "again"), (3, 0, "new")), delete(T, (4, 4, "q")))
    assert run(log.folder, tmp_path / "lake", **rule())
    assert shown(tmp_path / "lake", "operation", "deleted") == [
        (1, "UPDATE", False), (2, "INSERT", False), (3, "INSERT", False), (4, "DELETE", True),
        (9, "UPDATE", False),
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["mirror", "append"])
def test_the_column_source_table_has_the_sources_name(
    log: LogWriter, tmp_path: Path, mode: str
) -> None:
    """The source's own name is told."""
    log.transaction(delete(T, FIRST[0]), insert(T, (4, 4, "q")))
    columns = ["source_table", "operation", *(["deleted"] * (mode == "mirror"))]
    keys = {"match": "t.a", "to": "lake.b", "extra_columns": columns, "mode": mode}
    assert run(log.folder, tmp_path / "lake", tables=[keys])
    rows = last_shown(tmp_path / "lake")["lake.b"]
    assert {row[3] for row in rows} == {"t.a"}
    first = "INSERT" if mode == "append" else "DELETE"
    assert [(row[0], row[4]) for row in rows] == [
        (1, first), (2, "INSERT"), (3, "INSERT"), (4, "INSERT"),
    ]  # fmt: skip


def test_extra_columns_have_one_order_whatever_the_rules(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(delete(T, FIRST[0]))
    assert run(log.folder, tmp_path / "lake", **rule("operation", "gtid"))
    want = [(*row, log.gtid(2), "INSERT") for row in FIRST[1:]]
    assert last_shown(tmp_path / "lake")["t.a"] == want
    assert run(log.folder, tmp_path / "lake", **rule("gtid", "operation"))


@pytest.mark.parametrize("mode", ["strict", "idempotent"])
@pytest.mark.parametrize("seed", range(10))
def test_equals_one_change_at_a_time(tmp_path: Path, seed: int, mode: str) -> None:
    rand = random.Random(f"{seed} {mode}")
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(T.create)
    model = OneByOne(log)
    images = rand.choice([[False], [True], [False, True]])
    for number in range(rand.randint(5, 25)):
        made = []
        for _ in range(rand.randint(1, 4)):
            there, new = model.there(), (rand.randrange(6), number, f"v{number}")
            key, kind, partial = rand.randrange(6), rand.random(), rand.choice(images)
            if mode == "strict":
                if kind < 0.4 or not there:
                    if new[0] in there:
                        continue
                    kind = 0.0
                key = rand.choice(there) if kind >= 0.4 else key
                if kind > 0.65 and new[0] in there:
                    new = (key, *new[1:])
            if kind < 0.4:
                made.append(model.insert(new))
            elif kind < 0.65:
                made.append(model.delete(key, partial=partial))
            else:
                made.append(model.update(key, new, partial=partial))
        model.transaction(*made)
    bound, vectors = rand.choice([1, 2, 100]), rand.random() < 0.7
    given = {"exec_mode": mode, "group_max_transactions": bound, "workers": 3, **rule()}
    assert run(log.folder, lake, vectors=vectors, **given)
    seen = {cut.gtid_executed: at_cut(lake, cut) for cut in cuts(lake)}
    assert {gtids: rows["t.a"] for gtids, rows in seen.items() if gtids in model.at} == {
        gtids: rows for gtids, rows in model.at.items() if gtids in seen
    }
    assert [*seen.values()][-1]["t.a"] == [*model.at.values()][-1]


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (update(T, ((2, 5, "y"), (2, 6, "y"))), 1032),
        (delete(T, (2, 5, "y")), 1032),
        (update(T, ({0: 2}, {1: 6})), 1032),
        (insert(T, (1, 1, "x")), 1062),
        (update(T, ((1, 1, "x"), (3, 1, "x"))), 1062),
    ],
    ids=["update", "delete", "partial", "insert", "moved"],
)
def test_a_row_kept_as_deleted_counts_as_absent(
    log: LogWriter, tmp_path: Path, change: Any, number: int
) -> None:
    log.transaction(delete(T, FIRST[1]))
    assert run(log.folder, tmp_path / "lake", **rule())
    log.transaction(change)
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(error, RowError) and error.number == number


def test_a_crash_at_any_step_leaves_extra_columns_equal(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", T.create)
    source.transaction(insert(T, *FIRST))
    source.transaction(delete(T, FIRST[0]), update(T, (FIRST[1], (7, 1, "y"))))
    source.ddl("ALTER TABLE t.a ADD w INT DEFAULT 3 FIRST")
    wide = Table("a", (("w", "int"), *T.columns), (1,))
    source.transaction(insert(wide, (3, 1, 9, "back")), delete(wide, (3, 3, None, "z")))
    source.ddl("TRUNCATE t.a")
    source.transaction(insert(wide, (1, 7, 9, "new")))
    want, step = cut_off_anywhere(source, tmp_path, lost=False, **rule())
    assert step > 15
    found = [(row[1], *row[-2:]) for row in [*want.values()][-1]["t.a"]]
    assert sorted(found) == [
        (1, "TRUNCATE", True), (2, "UPDATE", True), (3, "DELETE", True), (7, "INSERT", False),
    ]  # fmt: skip


def test_extra_columns_are_equal_after_a_lost_relay_log(tmp_path: Path) -> None:
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", T.create)
    source.transaction(insert(T, *FIRST))
    source.transaction(delete(T, FIRST[0]), update(T, (FIRST[1], (7, 1, "y"))))
    source.transaction(insert(T, (1, 1, "back")))
    cut_off_anywhere(source, tmp_path, lost=True, **rule())


@pytest.mark.parametrize("made", [True, False], ids=["by CREATE", "by its first TABLE_MAP"])
@pytest.mark.parametrize(
    ("table", "says"),
    [
        (Table("a", (*T.columns, ("_operation", "int"))), "has a column _operation, too"),
        (Table("a", T.columns, ()), "the table has no key"),
    ],
)
def test_tables_that_it_has_no_room_for(
    tmp_path: Path, table: Table, says: str, made: bool
) -> None:
    log = LogWriter(tmp_path / "log")
    if made:
        log.ddl(table.create)
    log.transaction(insert(table, (*FIRST[0], 1)[: len(table.columns)]))
    error = stopped(log.folder, tmp_path / "lake", **rule())
    assert isinstance(error, SettingError) and says in str(error) and error.table == "t.a"


@pytest.mark.parametrize("then", [{}, rule("gtid"), rule(*EXTRA, match="t.%", exclude=["v"])])
def test_other_columns_than_the_table_was_made_with(
    log: LogWriter, tmp_path: Path, then: dict[str, Any]
) -> None:
    refuse_each_other(log, tmp_path, rule(), then)


def test_extra_columns_go_with_masks_and_exclusions(log: LogWriter, tmp_path: Path) -> None:
    given = rule("deleted", "operation", exclude=["n"], mask={"v": "keep_last:1"})
    log.transaction(delete(T, FIRST[1]), update(T, ({0: 1}, {2: "uv"})))
    log.ddl("ALTER TABLE t.a ADD w INT")
    wide = Table("a", (*T.columns, ("w", "int")))
    log.transaction(update(wide, ((3, None, "z", None), (3, 1, "zz", 5))))
    assert run(log.folder, tmp_path / "lake", **given)
    assert last_shown(tmp_path / "lake")["t.a"] == [
        (1, "*v", None, "UPDATE", False), (2, "*", None, "DELETE", True),
        (3, "*z", 5, "UPDATE", False),
    ]  # fmt: skip


def test_rows_that_stop_to_pass_are_deleted(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(update(T, (FIRST[1], (2, 0, "y")), (FIRST[0], (1, 9, "x"))))
    log.transaction(update(T, ((2, 0, "y"), (2, 8, "y")), ((1, 9, "x"), (5, 0, "x"))))
    assert run(log.folder, tmp_path / "lake", **rule(row_filter="n > 2"))
    assert last_shown(tmp_path / "lake")["t.a"] == [
        (1, 9, "x", *told(log, 5, "DELETE")),
        (2, 8, "y", *told(log, 5, "INSERT")),
    ]


def test_a_rewritten_databases_rows_have_extra_columns(log: LogWriter, tmp_path: Path) -> None:
    assert run(log.folder, tmp_path / "lake", filters={"rewrite_db": ["t->u"]}, **rule(match="u.a"))
    want = [(*row, *told(log, 3, "INSERT")) for row in FIRST]
    assert last_shown(tmp_path / "lake") == {"u.a": want}


def test_an_xa_transactions_extra_columns_name_its_commit(log: LogWriter, tmp_path: Path) -> None:
    xid, lake = (b"x", b"", 1), tmp_path / "lake"
    log.xa_prepare(xid, insert(T, (4, 4, "q")), delete(T, FIRST[0]))
    assert run(log.folder, lake, **rule())
    log.transaction(insert(T, (5, 5, "r")))
    log.xa_end("COMMIT", xid)
    assert run(log.folder, lake, **rule())
    assert shown(lake, "gtid", "operation") == [
        (1, log.gtid(5), "DELETE"), (2, log.gtid(2), "INSERT"), (3, log.gtid(2), "INSERT"),
        (4, log.gtid(5), "INSERT"), (5, log.gtid(4), "INSERT"),
    ]  # fmt: skip


def test_without_gtids_the_column_gtid_is_null(tmp_path: Path) -> None:
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.anonymous = True
    log.ddl(T.create)
    log.transaction(insert(T, *FIRST))
    log.ddl("TRUNCATE t.a")
    assert run(log.folder, lake, **rule())
    assert shown(lake, "gtid", "operation") == [(n, None, "TRUNCATE") for n in (1, 2, 3)]


@pytest.mark.parametrize("mine", ["t.a", "t.c"], ids=["the parent", "the child"])
def test_cascades_into_a_table_with_extra_columns_stop(tmp_path: Path, mine: str) -> None:
    log = carried_on(tmp_path / "log")
    error = stopped(log.folder, tmp_path / "lake", ddl={"cascades": "emulate"}, **rule(match=mine))
    assert isinstance(error, DecodeError) and error.table == mine


def test_logged_columns_that_no_statement_has_made(log: LogWriter, tmp_path: Path) -> None:
    log.transaction(insert(Table("a", (*T.columns, ("w", "int"))), (4, 4, "q", 1)))
    error = stopped(log.folder, tmp_path / "lake", **rule("gtid"))
    assert isinstance(error, SchemaError) and "some of which are added" in str(error)


def test_extra_columns_refuse_a_quarantine() -> None:
    with pytest.raises(ConfigError, match=r"tables\[1\].extra_columns: apply.on_error"):
        Config.from_mapping({"apply": {"on_error": "quarantine"}, **rule("gtid")})


def test_a_copy_that_catches_up_gets_extra_columns(log: LogWriter, tmp_path: Path) -> None:
    """Rows that were read at other moments: what the log then says of them is right."""
    lake, held = tmp_path / "lake", f"{log.source}:1-3"
    plan_first(lake, held, "t.a")
    log.transaction(
        update(T, (FIRST[0], (11, 1, "x"))), delete(T, FIRST[1]), insert(T, (4, 4, "q"))
    )
    log.transaction(delete(T, (4, 4, "q")), insert(T, (5, 5, "r")))
    said = ("t.a", held, None, "COPY", False)
    read(lake, T, [(*row, *said) for row in (FIRST[0], FIRST[2], (5, 5, "r"))], **rule())
    finish(lake, f"{log.source}:1-5")
    assert run(log.folder, lake, **rule())
    assert last_shown(lake)["t.a"] == [
        (1, 1, "x", *told(log, 4, "UPDATE")[:-1], True),
        (3, None, "z", *said),
        (4, 4, "q", *told(log, 5, "DELETE")),
        (5, 5, "r", *told(log, 5, "INSERT")),
        (11, 1, "x", *told(log, 4, "UPDATE")),
    ]


def test_a_repair_writes_extra_columns(log: LogWriter, tmp_path: Path) -> None:
    """What comes and what goes, by a repair; a deleted row is not there, so it comes again."""
    lake = tmp_path / "lake"
    log.transaction(delete(T, FIRST[2]))
    said = ("t.a", "all", None)
    come = [(1, 9, "right", *said, "COPY", False), (3, 3, "back", *said, "COPY", False)]
    gone = [(2, None, None, *said, "DELETE", True), (7, None, None, *said, "DELETE", True)]
    assert run(log.folder, lake, **rule())
    made = repaired(log, lake, Read(come, gone, T), **rule())
    assert made is not None and made.refused is None
    assert last_shown(lake)["t.a"] == [come[0], (2, 5, "y", *said, "DELETE", True), come[1]]
    log.transaction(insert(T, FIRST[1]), update(T, ((3, 3, "back"), (3, 4, "back"))))
    assert run(log.folder, lake, **rule())
    assert [(row[0], row[-2]) for row in last_shown(lake)["t.a"]] == [
        (1, "COPY"), (2, "INSERT"), (3, "UPDATE"),
    ]  # fmt: skip
