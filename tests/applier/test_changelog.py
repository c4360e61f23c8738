"""mode = "changelog" of ``[[tables]]``: each row image of the log is a row, once and in order."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.decode import spans
from spark_repl.errors import ConfigError, DecodeError, StatementError
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.cut_off import Twice, cut_off_anywhere
from tests.support.extra_model import FIRST, T, begun, told
from tests.support.local_delta import at_cut, cuts, run, stopped
from tests.support.made_copy import finish, plan_first, read

BAG = Table("bag", T.columns, ())
Row = tuple[Any, ...]


def rule(match: str = "t.a", **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": match, "mode": "changelog", **more}]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def in_order(target: Path, cut: Any = None) -> list[Row]:
    """(table, columns, GTID, commit time, operation) of all rows of a cut, by their own order."""
    shown = at_cut(target, cut or cuts(target)[-1])
    rows = [(row[-2:], (name, *row[:-2])) for name, rows in shown.items() for row in rows]
    order = [place for place, _ in rows if None not in place]
    assert len(set(order)) == len(order)  # no two images are at one place
    return [row for _, row in sorted(rows, key=lambda row: (row[0][0] is not None, row[0]))]


def said(log: LogWriter, gno: int, operation: str) -> Row:
    return told(log, gno, operation)[1:4]


def values(rows: list[Row]) -> list[Row]:
    """(columns, operation) of rows."""
    return [(*row[1:-3], row[-1]) for row in rows]


class OneByOne:
    """The images of a log, as they are written."""

    def __init__(self, log: LogWriter) -> None:
        self.log, self.rows = log, list[Row]()
        self.at: dict[str, list[Row]] = {}

    def _add(self, table: Table, row: Row, operation: str) -> None:
        self.rows.append((f"t.{table.name}", *row, *said(self.log, self.log.gno, operation)))

    def insert(self, table: Table, *rows: Row) -> Change:
        for row in rows:
            self._add(table, row, "INSERT")
        return insert(table, *rows)

    def delete(self, table: Table, *rows: Row) -> Change:
        for row in rows:
            self._add(table, row, "DELETE")
        return delete(table, *rows)

    def update(self, table: Table, *pairs: tuple[Row, Row]) -> Change:
        for before, after in pairs:
            self._add(table, before, "UPDATE_PREIMAGE")
            self._add(table, after, "UPDATE_POSTIMAGE")
        return update(table, *pairs)

    def truncate(self, table: Table) -> None:
        """A transaction of its own: a row of which no column of the table says anything."""
        self._add(table, (None,) * len(table.columns), "TRUNCATE")
        self.log.ddl(f"TRUNCATE t.{table.name}")
        self._seen()

    def transaction(self, *changes: Change, compressed: bool = False) -> None:
        self.log.transaction(*changes, compressed=compressed)
        self._seen()

    def _seen(self) -> None:
        self.at[f"{self.log.source}:1-{self.log.gno - 1}"] = list(self.rows)


def random_changes(model: OneByOne, rand: random.Random, there: dict[int, Row]) -> list[Change]:
    """A transaction of few keys, some of them many times, and of a table without any."""
    made = []
    for number in range(rand.randint(1, 5)):
        key, row = rand.randrange(4), (rand.randrange(4), number % 3, "v" * rand.randrange(9))
        if key in there and rand.random() < 0.4:
            made.append(model.delete(T, there.pop(key)))
        elif key in there and (row[0] not in there or row[0] == key):
            made.append(model.update(T, (there.pop(key), row)))
            there[row[0]] = row
        elif row[0] not in there:
            there[row[0]] = row
            made.append(model.insert(T, row))
        made.append(model.insert(BAG, (1, 1, "same"), (1, 1, "same"), row))
        made.append(model.update(BAG, ((1, 1, "same"), (1, 2, "other")), (row, row)))
        made.append(model.delete(BAG, (1, 1, "same"), (1, 2, "other"), row))
    return made


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_log_s_images(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever groups, workers, retries of INSERTs that do not fit, and slices are; TRUNCATE is a
    row between them."""
    rand = random.Random(seed)
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(T.create)
    log.ddl(BAG.create)
    model, there = OneByOne(log), dict[int, Row]()
    options: dict[str, Any] = {"exec_mode": rand.choice(["strict", "idempotent"]), **rule("t.%")}
    if seed % 2:  # every transaction comes in windows
        monkeypatch.setattr(spans, "_SLICE_BYTES", 300)
    for number in range(20):
        model.transaction(*random_changes(model, rand, there), compressed=rand.random() < 0.3)
        if rand.random() < 0.2:
            model.truncate(T)
            there.clear()
        if rand.random() < 0.1:
            model.truncate(BAG)
        if number == 9:
            run(log.folder, lake, workers=2, **options)
        if number == 13:
            log.rotate()
    bound = rand.choice([1, 3, 100])
    ordered = rand.random() < 0.5
    assert run(
        log.folder, lake, group_max_transactions=bound, workers=3,
        preserve_commit_order=ordered, **options,
    )  # fmt: skip
    assert in_order(lake) == model.rows
    known = {cut.gtid_executed: cut for cut in cuts(lake)}
    assert len(known.keys() & model.at.keys()) > 1
    for gtids, rows in model.at.items():
        assert gtids not in known or in_order(lake, known[gtids]) == rows


@pytest.mark.parametrize("mode", ["strict", "idempotent"])
def test_what_the_log_says_of_rows_that_are_not_there(
    log: LogWriter, tmp_path: Path, mode: str
) -> None:
    """The target's rows tell nothing of what fits: the log is taken at its word."""
    model = OneByOne(log)
    model.transaction(model.update(T, ((9, 9, "?"), (1, 9, "?"))), model.delete(T, (8, 8, "?")))
    model.transaction(model.insert(T, FIRST[0]))
    assert run(log.folder, tmp_path / "lake", exec_mode=mode, **rule())
    assert in_order(tmp_path / "lake")[3:] == model.rows


def shown(target: Path) -> dict[str, list[Row]]:
    return {cut.gtid_executed: in_order(target, cut) for cut in cuts(target)}


@pytest.mark.parametrize("lost", [False, True])
def test_a_crash_at_any_step_leaves_each_image_once_in_order(tmp_path: Path, lost: bool) -> None:
    """And gone on with, also by a relay log that was fetched again, of other positions: each image
    once, in order."""
    source = Twice(tmp_path)
    source.ddl("CREATE DATABASE t", T.create)
    source.transaction(insert(T, *FIRST))
    source.transaction(delete(T, FIRST[0]), insert(T, (1, 1, "back")), delete(T, (1, 1, "back")))
    source.ddl("TRUNCATE t.a")
    source.transaction(insert(T, *FIRST[1:]))
    source.ddl("ALTER TABLE t.a ADD w INT DEFAULT 3 FIRST")
    wide = Table("a", (("w", "int"), *T.columns), (1,))
    source.transaction(update(wide, ((3, 2, 5, "y"), (4, 2, 5, "y")), ((3, *FIRST[2]), FIRST4)))
    source.ddl("ALTER TABLE t.a DROP n")
    slim = Table("a", (("w", "int"), T.columns[0], T.columns[2]), (1,))
    source.transaction(delete(slim, (4, 2, "y")))
    want, step = cut_off_anywhere(source, tmp_path, lost=lost, see=shown, **rule())
    assert step > 15
    rows = values(in_order(tmp_path / "reference"))
    assert rows == [
        *((3, row[0], row[2], "INSERT") for row in FIRST),
        (3, 1, "x", "DELETE"), (3, 1, "back", "INSERT"), (3, 1, "back", "DELETE"),
        (3, None, None, "TRUNCATE"), (3, 2, "y", "INSERT"), (3, 3, "z", "INSERT"),
        (3, 2, "y", "UPDATE_PREIMAGE"), (4, 2, "y", "UPDATE_POSTIMAGE"),
        (3, 3, "z", "UPDATE_PREIMAGE"), (3, 7, "z", "UPDATE_POSTIMAGE"), (4, 2, "y", "DELETE"),
    ]  # fmt: skip
    assert len(want) > 5


FIRST4 = (3, 7, None, "z")


def test_an_xa_transaction_counts_at_its_commit(log: LogWriter, tmp_path: Path) -> None:
    xid, lake, model = (b"x", b"", 1), tmp_path / "lake", OneByOne(log)
    log.xa_prepare(xid, delete(T, FIRST[0]), insert(T, (4, 4, "q"), (1, 0, "back")))
    model.transaction(model.delete(T, FIRST[1]))
    assert run(log.folder, lake, **rule())
    log.xa_end("COMMIT", xid)
    assert run(log.folder, lake, **rule())
    at = [said(log, 6, word) for word in ("DELETE", "INSERT", "INSERT")]
    rows = (FIRST[0], (4, 4, "q"), (1, 0, "back"))
    want = [("t.a", *row, *told) for row, told in zip(rows, at, strict=True)]
    assert in_order(lake)[3:] == [*model.rows, *want]


def test_a_changelog_refuses_images_whose_columns_it_lacks(log: LogWriter, tmp_path: Path) -> None:
    """An INSERT leaves out columns that have a default. The values that other images lack are
    unknown."""
    log.transaction(insert(T, {0: 3, 2: "part"}))
    for number, change in enumerate(
        (update(T, ({0: 1}, {0: 1, 1: 2})), update(T, ({0: 1}, {0: 9})), delete(T, {0: 1}))
    ):
        other = LogWriter(tmp_path / f"log{number}")
        other.ddl(T.create)
        other.transaction(insert(T, *FIRST), insert(T, {0: 4, 2: "part"}))
        other.transaction(change)
        error = stopped(other.folder, tmp_path / f"lake{number}", **rule())
        assert isinstance(error, DecodeError) and error.gtid == other.gtid(2)
        assert "of which a changelog" in str(error)
        assert values(in_order(tmp_path / f"lake{number}"))[3:] == [(4, None, "part", "INSERT")]


def test_an_image_that_the_log_has_whole(log: LogWriter, tmp_path: Path) -> None:
    """An after image has what its before image has, where it lacks it itself."""
    log.transaction(update(T, (FIRST[0], {1: 8})), update(T, (FIRST[1], {0: 7})))
    assert run(log.folder, tmp_path / "lake", **rule())
    assert values(in_order(tmp_path / "lake"))[3:] == [
        (1, 1, "x", "UPDATE_PREIMAGE"), (1, 8, "x", "UPDATE_POSTIMAGE"),
        (2, 5, "y", "UPDATE_PREIMAGE"), (7, 5, "y", "UPDATE_POSTIMAGE"),
    ]  # fmt: skip


def test_a_changelog_goes_with_filters_masks_and_extra_columns(
    log: LogWriter, tmp_path: Path
) -> None:
    pairs = (FIRST[0], (1, 9, "xx")), (FIRST[1], (2, 6, "yy")), (FIRST[2], (3, 1, "zz"))
    log.transaction(update(T, *pairs))
    log.transaction(update(T, ((2, 6, "yy"), (2, 0, "y"))), delete(T, (1, 9, "xx"), (3, 1, "zz")))
    given = rule(
        row_filter="n > 2", exclude=["n"], mask={"v": "keep_last:1"},
        extra_columns=["gtid", "source_table"],
    )  # fmt: skip
    assert run(log.folder, tmp_path / "lake", **given)
    found = [(*row[1:3], row[3], row[-1]) for row in in_order(tmp_path / "lake")]
    assert found == [
        (2, "*", "t.a", "INSERT"), (1, "*x", "t.a", "INSERT"), (2, "*", "t.a", "UPDATE_PREIMAGE"),
        (2, "*y", "t.a", "UPDATE_POSTIMAGE"), (2, "*y", "t.a", "DELETE"),
        (1, "*x", "t.a", "DELETE"),
    ]  # fmt: skip


def test_a_copy_that_was_read_as_of_one_moment(log: LogWriter, tmp_path: Path) -> None:
    lake, held = tmp_path / "lake", f"{log.source}:1-4"
    log.transaction(insert(T, (4, 4, "q")), delete(T, FIRST[0]))
    log.transaction(insert(T, (1, 2, "back")))
    there = [*FIRST[1:], (4, 4, "q")]
    plan_first(lake, f"{log.source}:1-3", "t.a")
    read(lake, T, [(*row, held, None, "COPY", None, None) for row in there], **rule())
    finish(lake, f"{log.source}:1-5", views=("t.a",), exact={"t.a": GtidSet.parse(held)})
    assert run(log.folder, lake, **rule())
    found = in_order(lake)
    assert sorted(found[:3], key=repr) == [("t.a", *row, held, None, "COPY") for row in there]
    assert found[3:] == [("t.a", 1, 2, "back", *said(log, 5, "INSERT"))]


def test_statements_change_columns_and_name_and_drop_the_table(
    log: LogWriter, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    log.ddl("ALTER TABLE t.a DROP PRIMARY KEY, ADD w BIGINT DEFAULT 7, MODIFY v VARCHAR(80)")
    log.ddl("ALTER TABLE t.a ADD PRIMARY KEY (n, id), RENAME COLUMN v TO u, RENAME TO t.a2")
    wide = Table("a2", (*T.columns[:2], ("u", "varchar(80)"), ("w", "int")), (1, 0))
    log.ddl("ALTER TABLE t.a2 MODIFY w INT")
    log.transaction(update(wide, ((1, 1, "x", 7), (1, 2, "x", 1))), delete(wide, (1, 2, "x", 1)))
    assert run(log.folder, lake, **rule("t.a%"))
    assert values(in_order(lake)) == [
        *((*row, 7, "INSERT") for row in FIRST),
        (1, 1, "x", 7, "UPDATE_PREIMAGE"), (1, 2, "x", 1, "UPDATE_POSTIMAGE"),
        (1, 2, "x", 1, "DELETE"),
    ]  # fmt: skip
    log.ddl("DROP TABLE t.a2")
    assert run(log.folder, lake, **rule("t.a%"))
    assert in_order(lake) == []


@pytest.mark.parametrize(
    "text",
    [f"ALTER TABLE t.a {what}" for what in
     ("DROP PARTITION p", "TRUNCATE PARTITION p", "DISCARD TABLESPACE")],
)  # fmt: skip
def test_rows_that_go_and_the_log_has_no_image_of(tmp_path: Path, text: str) -> None:
    log = LogWriter(tmp_path / "log")
    log.ddl(
        f"{T.create} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (3),"
        " PARTITION q VALUES LESS THAN (9))"
    )
    log.transaction(insert(T, *FIRST))
    log.ddl(text)
    error = stopped(log.folder, tmp_path / "lake", copies=True, **rule())
    assert isinstance(error, StatementError) and error.table == "t.a"
    assert values(in_order(tmp_path / "lake")) == [(*row, "INSERT") for row in FIRST]


def test_a_truncate_is_a_row(log: LogWriter, tmp_path: Path) -> None:
    """The table's own columns say nothing in it, NOT NULL or not; several are as many rows."""
    model, lake = OneByOne(log), tmp_path / "lake"
    model.truncate(T)
    model.transaction(model.insert(T, FIRST[1], FIRST[0]))
    model.truncate(T)
    model.truncate(T)
    log.ddl("CREATE OR REPLACE VIEW t.seen AS SELECT 1")  # no table's
    assert run(log.folder, lake, **rule(extra_columns=["source_table"]))
    assert [(*row[:4], *row[5:]) for row in in_order(lake)[3:]] == model.rows
    assert {row[4] for row in in_order(lake)} == {"t.a"}


def test_a_truncates_row_stays_null_after_an_alter(log: LogWriter, tmp_path: Path) -> None:
    """A row that says nothing goes on saying nothing, also in a column that becomes NOT NULL."""
    lake = tmp_path / "lake"
    for text in (
        "TRUNCATE t.a", "ALTER TABLE t.a MODIFY n BIGINT NOT NULL, MODIFY v VARCHAR(4)",
        "ALTER TABLE t.a DROP PRIMARY KEY, MODIFY id VARCHAR(20) NOT NULL, ADD w INT DEFAULT 7",
        "TRUNCATE t.a", "ALTER TABLE t.a ADD PRIMARY KEY (id, w)",
    ):  # fmt: skip
        log.ddl(text)
    assert run(log.folder, lake, **rule())
    assert values(in_order(lake)) == [
        *((str(row[0]), *row[1:], 7, "INSERT") for row in FIRST),
        (None, None, None, 7, "TRUNCATE"), (None, None, None, None, "TRUNCATE"),
    ]  # fmt: skip


def not_null_as_earlier(target: Path) -> None:
    """Makes the key's column of the target's one table NOT NULL, in Delta and in its definition."""
    [commit] = target.glob("t/*/_delta_log/00000000000000000000.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    [metadata] = [line["metaData"] for line in lines if "metaData" in line]
    schema = json.loads(metadata["schemaString"])
    said = json.loads(metadata["configuration"]["spark_repl.definition"])
    for one in (schema["fields"][0], said["columns"][0]):
        assert one["name"] == "id"
        one["nullable"], one["logged"] = False, None
    metadata["schemaString"] = json.dumps(schema)
    metadata["configuration"]["spark_repl.definition"] = json.dumps(said)
    commit.write_text("\n".join(map(json.dumps, lines)))


def test_a_truncate_where_columns_are_not_null(log: LogWriter, tmp_path: Path) -> None:
    """In a target that an earlier version made, whose columns are NOT NULL as the source's are."""
    lake, model = tmp_path / "lake", OneByOne(log)
    assert run(log.folder, lake, **rule())
    not_null_as_earlier(lake)
    model.truncate(T)
    model.transaction(model.insert(T, FIRST[0]))
    log.ddl("ALTER TABLE t.a ADD w INT DEFAULT 7")
    assert run(log.folder, lake, **rule())
    found = [(*row[:4], *row[5:]) for row in in_order(lake)]
    assert found[3:] == model.rows


def test_a_truncate_that_is_to_be_passed_over(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("TRUNCATE t.a")
    log.transaction(insert(T, FIRST[0]))
    assert run(log.folder, tmp_path / "lake", **rule(on_ddl="ignore_drop"))
    want = [(*row, "INSERT") for row in (*FIRST, FIRST[0])]
    assert values(in_order(tmp_path / "lake")) == want


def test_changelog_refuses_settings_without_meaning() -> None:
    with pytest.raises(ConfigError, match=r'deleted, which mode = "changelog" never sets'):
        Config.from_mapping(rule(extra_columns=["deleted"]))
    with pytest.raises(ConfigError, match=r"tables\[1\].mode: apply.on_error"):
        Config.from_mapping({"apply": {"on_error": "quarantine"}, **rule()})
    with pytest.raises(ConfigError, match=r"position"):
        Config.from_mapping(rule(extra_columns=["position"]))
