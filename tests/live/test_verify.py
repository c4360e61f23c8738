"""verify beside a live server: what was changed by hand is named, and nothing else, under load."""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spark_repl.cli.main import main
from spark_repl.control.cuts.cut_reader import find_cut
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.add_actions import live_files
from spark_repl.errors import TargetError
from spark_repl.observe.metrics import metrics
from spark_repl.observe.status.status import status
from spark_repl.service.scheduled_verify import ScheduledVerify
from spark_repl.verify import source_range
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.live.following import Following
from tests.support.live.receiving import toml
from tests.support.live.server import Load, Server
from tests.support.local_delta import LocalDelta, put, run
from tests.support.wait_until import wait_until

from .test_copy import _NULLS, _TYPES, _VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000
JOBS = Path(__file__).parents[2] / "jobs"


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.query("DROP DATABASE IF EXISTS t", "RESET BINARY LOGS AND GTIDS")
    shared_server.query("CREATE DATABASE t")
    return shared_server


def fill(server: Server, name: str, key: str = "PRIMARY KEY") -> None:
    server.query(
        f"CREATE TABLE t.{name} (id INT {key}, s VARCHAR(40), d DOUBLE)",
        "SET SESSION cte_max_recursion_depth = 100000",
        f"INSERT INTO t.{name} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {ROWS}) SELECT i, CONCAT('text ', i), i / 7 FROM n",
    )


def by_hand(following: Following, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Changes a table's data files in place: a damage that no log tells of."""
    layout = Layout.of(following.config.target)
    at = find_cut(Control(layout.control), "latest").tables[name]
    for path in live_files(layout.table(at.path), at.version) or {}:
        whole = Path(layout.table(at.path)) / path
        pq.write_table(change(pq.read_table(whole)), whole)


def text_of(number: int, text: str) -> Callable[[pa.Table], pa.Table]:
    """Another value of ``s`` in the row of an id."""

    def change(rows: pa.Table) -> pa.Table:
        made = pc.if_else(pc.equal(rows["id"], number), text, rows["s"])
        return rows.set_column(1, rows.schema.field(1), made)

    return change


def one_less() -> Callable[[pa.Table], pa.Table]:
    """Without one of the rows whose id is 1."""
    gone = list[int]()

    def change(rows: pa.Table) -> pa.Table:
        found = pc.index(rows["id"], 1).as_py()
        if gone or found < 0:
            return rows
        gone.append(found)
        return pa.concat_tables([rows.slice(0, found), rows.slice(found + 1)])

    return change


def test_verify_names_each_differing_row(
    server: Server, tmp_path: Path, chunk_rows: Callable[[int], None]
) -> None:
    """A changed byte, a row that is gone, one too many; of a table without a key, counts."""
    chunk_rows(500)
    fill(server, "a")
    fill(server, "bag", "")
    server.query("INSERT INTO t.bag SELECT * FROM t.bag WHERE id < 100")
    with Following(server, tmp_path) as following:
        following.catch_up()
        found = following.verify()
        assert found.tables["t.a"] == {"rows": ROWS, "ranges": 6, "differing": 0, "undecided": 0}
        assert found.tables["t.bag"]["rows"] == ROWS + 99
        assert (found.looks, found.differences) == (1, [])
        by_hand(following, "t.a", text_of(77, "texu 77"))
        by_hand(following, "t.a", lambda rows: rows.filter(pc.not_equal(rows["id"], 2999)))
        more = pa.table({"id": [9999], "s": ["more"], "d": [0.5]})
        by_hand(following, "t.a", lambda rows: pa.concat_tables([rows, more.cast(rows.schema)]))
        by_hand(following, "t.bag", one_less())
        found = following.verify()
    assert found.tables["t.a"]["differing"] == 3
    assert found.total("undecided") == 0
    shown = sorted(found.differences, key=lambda one: (one["table"], one["kind"]))
    d = round(1 / 7, 4)
    assert shown == [
        {"table": "t.a", "kind": "different", "row": {"id": 77}, "columns": ["s"]},
        {"table": "t.a", "kind": "extra", "row": {"id": 9999}},
        {"table": "t.a", "kind": "missing", "row": {"id": 2999}},
        {"table": "t.bag", "kind": "count", "row": {"id": 1, "s": "text 1", "d": d},
         "source": 2, "target": 1},
    ]  # fmt: skip


def test_a_key_that_two_channels_have(server: Server, tmp_path: Path) -> None:
    """The filters were declared disjoint, and are not."""
    fill(server, "a")

    def rule(text: str) -> dict[str, Any]:
        return {
            "match": "t.a", "to": "lake.a", "channels": ["default", "us"], "row_filter": text,
            "extra_columns": ["channel"], "disjoint": True,
        }  # fmt: skip

    us = LogWriter(tmp_path / "us")
    table = Table("a", (("id", "int"), ("s", "varchar(40)"), ("d", "double")), (0,), database="t")
    us.ddl(table.create, "t")
    us.transaction(insert(table, (7, "other", 1.0), (ROWS + 1, "other", 1.0)))
    with Following(server, tmp_path, tables=[rule("id > 0")], column_mapping=True) as following:
        following.catch_up()
        assert following.verify().total("differing") == 0
        own = {"channel": "us", "tables": [rule("id > 5")], "keys": following.keys}
        assert run(us.folder, Path(following.config.target.path), **own)
        server.query("DELETE FROM t.a WHERE id = 1")
        following.catch_up()
        found = following.verify()
    assert found.tables["lake.a//default"]["differing"] == 1
    assert found.by_kind == {"lake.a//default": {"claimed": 1}}
    (claimed,) = found.differences
    assert (claimed["row"], claimed["channels"]) == ({"id": 7}, ["us"])


def test_many_rows_that_differ_are_of_one_kind(server: Server, tmp_path: Path) -> None:
    """All rows of one range differ, more than the result names: none of them is called extra."""
    fill(server, "a")
    with Following(server, tmp_path) as following:
        following.catch_up()
        by_hand(following, "t.a", lambda rows: rows.set_column(2, "d", pa.array([0.5] * len(rows))))
        found = following.verify(shown_rows=ROWS - 1)
        assert found.by_kind == {"t.a": {"different": ROWS}}
        assert len(found.differences) == ROWS - 1
        assert all(one["columns"] == ["d"] for one in found.differences)
        by_hand(following, "t.a", lambda rows: rows.slice(0, 0))
        found = following.verify()
    assert found.by_kind == {"t.a": {"missing": ROWS}}
    assert len({one["row"]["id"] for one in found.differences}) == 100


def test_a_sample_is_of_the_same_rows_on_both_sides(server: Server, tmp_path: Path) -> None:
    """Whatever its rows are chosen by; the source sends no others, and a difference among them is
    named."""
    fill(server, "a")
    fill(server, "bag", "")
    server.query("INSERT INTO t.bag SELECT * FROM t.bag WHERE id < 100")
    for name, key in (("text", "VARCHAR(40)"), ("wide", "BIGINT UNSIGNED"), ("deci", "DECIMAL(9)")):
        value = "CONCAT('ä ', id)" if name == "text" else "id * 6000000" if name == "wide" else "id"
        server.query(
            f"CREATE TABLE t.{name} (id {key} PRIMARY KEY, s VARCHAR(40), d DOUBLE)",
            f"INSERT INTO t.{name} SELECT {value}, s, d FROM t.a",
        )
    with Following(server, tmp_path) as following:
        following.catch_up()
        found = following.verify(percent=10)
        assert (found.looks, found.differences, found.not_compared) == (1, [], {})
        rows = {name: one["rows"] for name, one in found.tables.items()}
        assert rows.pop("t.deci") == ROWS, "whose rows nothing tells apart in the same way"
        assert rows.keys() == {"t.a", "t.bag", "t.text", "t.wide"}
        assert all(150 < count < 550 for count in rows.values()), rows
        assert following.verify(percent=10).tables == found.tables
        by_hand(following, "t.a", lambda rows: rows.slice(0, 0))
        again = following.verify(percent=10).tables["t.a"]
        assert again["differing"] == again["rows"] == rows["t.a"], "however often it was looked at"


class Toggling(Load):
    """Beside the others' work one row comes and goes, and another one's value does."""

    def _make_tables(self) -> None:
        super()._make_tables()
        self.server.query("INSERT INTO t.a VALUES (1000000, 0, 'on')")

    @staticmethod
    def _transaction(cursor: Any, rng: Any, number: int) -> None:
        Load._transaction(cursor, rng, number)
        if number == 0:
            cursor.execute("UPDATE t.a SET n = 1 - n WHERE id = 1000000")
            if not cursor.execute("DELETE FROM t.a WHERE id = 1000001"):
                cursor.execute("INSERT INTO t.a VALUES (1000001, 0, 'comes')")


@pytest.mark.slow
def test_verify_raises_no_false_alarm_under_load(
    server: Server, tmp_path: Path, chunk_rows: Callable[[int], None]
) -> None:
    """And a row that differs is named beside what changes all the time; one that an XA branch has
    prepared is in neither."""
    chunk_rows(500)
    fill(server, "quiet")
    xid = "X'61',X'',1"
    with Following(server, tmp_path) as following, Toggling(server, 2):
        server.query(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", f"XA START {xid}",
            "INSERT INTO t.quiet VALUES (100000, 'branch', 1)", f"XA END {xid}",
            f"XA PREPARE {xid}",
        )  # fmt: skip
        following.catch_up()
        for _ in range(3):
            found = following.verify()
            assert found.differences == [], found
            assert found.total("differing") == 0 and not found.not_compared
        by_hand(following, "t.quiet", text_of(1234, "another"))
        found = following.verify()
        server.query(f"XA COMMIT {xid}")
    assert [(one["table"], one["row"]) for one in found.differences] == [("t.quiet", {"id": 1234})]


@pytest.mark.parametrize(
    "keys", [{}, {"time_as": "microseconds", "geometry_as": "binary", "zero_dates": "string"}]
)
def test_verify_finds_no_difference_in_any_type(
    server: Server, tmp_path: Path, keys: dict[str, Any]
) -> None:
    """As the log has it and as a SELECT has it, in the forms that the target keeps."""
    server.query(_TYPES.format("k"), _TYPES.format("m").replace(" PRIMARY KEY", ""))
    for name in "km":
        server.query(f"INSERT INTO t.{name} VALUES {_VALUES.format(1)}, {_NULLS.format(2)}")
    with Following(server, tmp_path, **keys) as following:
        following.catch_up()
        found = following.verify()
    assert found.tables.keys() == {"t.k", "t.m"}
    assert (found.looks, found.differences) == (1, [])


def test_a_stopped_verify_goes_on(
    server: Server, tmp_path: Path, chunk_rows: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It reads none of the ranges again that were read; a second one at the same time is refused,
    and one whose cut does not come says so."""
    chunk_rows(500)
    fill(server, "a")
    read, original, lock = list[str](), source_range._digest, threading.Lock()

    def counted(task: source_range.RangeTask, connection: Any) -> source_range.RangeRows:
        with lock:  # two ranges are read side by side
            if len(read) == 4:
                raise TargetError("enough")
            read.append(task.where)
        return original(task, connection)

    with Following(server, tmp_path) as following:
        following.catch_up()
        monkeypatch.setattr(source_range, "_digest", counted)
        with pytest.raises(TargetError, match="enough"):
            following.verify()
        done = list(read)
        monkeypatch.setattr(
            source_range,
            "_digest",
            lambda task, on: (read.append(task.where), original(task, on))[1],
        )
        found = following.verify()
    assert found.tables["t.a"]["rows"] == ROWS
    assert len(done) == 4 and len(read) == 6 and len(set(read)) == 6
    server.query("INSERT INTO t.a VALUES (100000, 'behind', 1)")
    with pytest.raises(TargetError, match="before a cut holds"):
        following.verify(wait_s=0.5)


def test_verify_reads_no_faster_than_asked(server: Server, tmp_path: Path) -> None:
    """All connections together."""
    fill(server, "a")
    with Following(server, tmp_path) as following:
        following.catch_up()
        began = time.monotonic()
        found = following.verify(connections=2, rows_per_s=ROWS)
    assert found.differences == [] and found.tables["t.a"]["rows"] == ROWS
    assert time.monotonic() - began >= 1


def test_the_command_finds_repairs_and_reports_a_changed_row(
    server: Server, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The whole command: exit codes, what ``status`` shows, and a repair that is equal."""
    fill(server, "a")
    with Following(server, tmp_path) as following:
        following.catch_up()
    file = tmp_path / "my.toml"
    file.write_text(toml(following.config))
    command = ["verify", "--config", str(file), "--json"]
    by_hand(following, "t.a", text_of(77, "texu 77"))
    assert main([*command, "--show", "0"]) == 1
    capsys.readouterr()
    assert main([*command, "--repair"]) == 1
    said = capsys.readouterr()
    assert said.out, said.err
    found = json.loads(said.out)
    assert (found["differing"], found["repaired"]) == (1, ["t.a"])
    assert status(following.config.target.path)["verify"]["differences"] == [
        {"table": "t.a", "kind": "different", "row": {"id": 77}, "columns": ["s"]}
    ]
    with Following(server, tmp_path) as again:
        server.query("INSERT INTO t.a VALUES (5000, 'behind', 1)")
        again.catch_up()
    monkeypatch.setattr(sys, "argv", ["verify.py", str(file)])
    with pytest.raises(SystemExit, match=r"\b0\b"):  # as spark-submit runs it, on Spark's workers
        runpy.run_path(str(JOBS / "verify.py"), run_name="__main__")


@pytest.mark.slow
def test_a_scheduled_verify_reports_its_differences_in_status(
    server: Server, tmp_path: Path
) -> None:
    """In a process of its own, beside the applier; its result is in status, problems, metrics."""
    fill(server, "a")
    with Following(server, tmp_path) as following:
        following.catch_up()
        by_hand(following, "t.a", text_of(77, "texu 77"))
        config = following.config.override({"observe.verify_hours": 1})
        file, last = tmp_path / "my.toml", Path(Layout.of(config.target).verify) / "scheduled"
        file.write_text(toml(config))
        last.parent.mkdir(parents=True)
        last.touch()
        os.utime(last, (0, 0))
        with ScheduledVerify(config, str(file), following.errors.append, lambda note: None):
            wait_until(lambda: last.stat().st_mtime != 0, 240, each_s=0.1)
        found = status(config.target.path)
    assert found["verify"]["differences"][0]["row"] == {"id": 77}
    assert any("1 rows differed" in one["what"] for one in found["problems"])
    assert "spark_repl_verify_differing_rows" in metrics(found)


def test_tables_that_cannot_be_compared(server: Server, tmp_path: Path) -> None:
    """Other columns, and a table that the target does not have: said, and not taken for equal."""
    fill(server, "a")
    with Following(server, tmp_path) as following:
        following.catch_up()
    server.query(
        "SET sql_log_bin = 0", "CREATE TABLE t.unlogged (id INT PRIMARY KEY)",
        "ALTER TABLE t.a ADD COLUMN more INT",
    )  # fmt: skip
    found = following.verify()
    assert found.tables == {}
    assert set(found.not_compared) == {"t.a", "t.unlogged"}
    assert "other columns" in found.not_compared["t.a"]
    assert "no such table" in found.not_compared["t.unlogged"]


def test_a_change_by_hand_above_the_cut(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a source at rest no cut comes that shows it: it is said all the same, until it is
    undone."""
    fill(server, "a")
    with Following(server, tmp_path) as following:
        following.catch_up()
    folder = f"{following.config.target.path}/t/a"
    version = LocalDelta().version(folder)
    add = next(iter((live_files(folder, version) or {}).values()))
    gone = {"path": add["path"], "dataChange": True}
    put(folder, version + 1, [{"remove": gone}], operation="DELETE")
    file = tmp_path / "my.toml"
    file.write_text(toml(following.config))
    assert main(["verify", "--config", str(file)]) == 1
    said = capsys.readouterr()
    assert "differing: 0" in said.out
    assert f"t.a: another writer changed it in version {version + 1}" in said.err
    assert f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF {version}" in said.err
    shown = status(following.config.target.path)
    problems = [problem["what"] for problem in shown["problems"]]
    assert any(f"another writer in version {version + 1}" in problem for problem in problems)
    found = following.verify(repairs=True)
    assert found.repairs == {"t.a": f"another writer changed it in version {version + 1}"}
    put(folder, version + 2, [{"add": add}], operation="RESTORE")
    assert main(["verify", "--config", str(file)]) == 0
    assert status(following.config.target.path)["problems"] == []
