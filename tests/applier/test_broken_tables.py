"""Tables that others removed or replaced: a start names all of them, and their copies let it go
on, made together or one by one, as each hint says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.control.records.copies import Copy, standing
from spark_repl.control.records.table_paths import given_paths
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.copy.copy_plan import plan_again
from spark_repl.errors import NoTableError, TargetError
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import last_shown, run, stopped
from tests.support.made_copy import finish, read

A, B, C = Table("a"), Table("b"), Table("c")
ROWS = [(1, "x"), (2, "x")]
SHOWN = {"t.a": ROWS, "t.b": ROWS, "t.c": ROWS}


@pytest.fixture
def broken(log: LogWriter, target: Path) -> LogWriter:
    """Two tables of three are gone."""
    log.ddl(C.create)
    log.transaction(*(insert(table, (1, "x")) for table in (A, B, C)))
    assert run(log.folder, target)
    for name in "ab":
        shutil.rmtree(target / "t" / name)
    log.transaction(*(insert(table, (2, "x")) for table in (A, B, C)))
    return log


def copied(log: LogWriter, target: Path, hint: str | None, *, gone: str = "") -> set[str]:
    """Follow a hint to copy tables; returns the tables whose copy stands then."""
    assert hint and "spark-repl snapshot --config F --table" in hint
    names = tuple(re.findall(r"--table ([\w.]+)", hint))
    layout = Layout(str(target))
    control = Control(layout.control, "default")

    def ask(config: Config, control: Control, only: tuple[str, ...], behind: Cut | None) -> Copy:
        if gone in only:
            raise NoTableError("no such table", table=gone)
        assert behind is not None
        used = given_paths(control)
        paths = {name: layout.fresh_path(*name.split("."), used) for name in only}
        start = GtidSet.parse(behind.gtid_executed)
        return Copy(start, dict.fromkeys(only, ()), paths, behind=behind)

    config = Config().override({"target.path": str(target), "relay.path": f"{target}/none"})
    control.claim()
    try:
        plan_again(config, control, names, asks=ask)
    finally:
        control.release()
    stands = standing(control).copy
    assert stands is not None
    for name in stands.bounds:
        read(target, Table(name.partition(".")[2]), ROWS)
    finish(target, f"{log.source}:1-{log.gno - 1}")
    return set(stands.bounds)


def test_all_broken_tables_are_named_and_copied_together(broken: LogWriter, target: Path) -> None:
    error = stopped(broken.folder, target)
    assert isinstance(error, TargetError) and error.table == "t.a, t.b"
    assert "2 tables are broken" in str(error)
    assert copied(broken, target, error.hint) == {"t.a", "t.b"}
    assert run(broken.folder, target)
    assert last_shown(target) == SHOWN


def test_broken_tables_may_be_copied_one_after_the_other(broken: LogWriter, target: Path) -> None:
    """The second copy is not refused until a cut shows the first: no cut comes before it."""
    assert copied(broken, target, "spark-repl snapshot --config F --table t.a") == {"t.a"}
    error = stopped(broken.folder, target)
    assert isinstance(error, TargetError) and error.table == "t.b"
    assert copied(broken, target, error.hint) == {"t.a", "t.b"}
    assert run(broken.folder, target)
    assert last_shown(target) == SHOWN


def test_the_source_has_dropped_the_first_since(broken: LogWriter, target: Path) -> None:
    assert copied(broken, target, "spark-repl snapshot --config F --table t.a") == {"t.a"}
    hint = "spark-repl snapshot --config F --table t.b"
    assert copied(broken, target, hint, gone="t.a") == {"t.b"}
    error = stopped(broken.folder, target)
    assert isinstance(error, TargetError) and error.table == "t.a"


def test_one_that_filters_leave_out_stops_nothing(broken: LogWriter, target: Path) -> None:
    error = stopped(broken.folder, target, filters={"ignore_table": ["t.a"]})
    assert error.table == "t.b"
    assert run(broken.folder, target, filters={"ignore_table": ["t.a", "t.b"]})
    assert last_shown(target) == {"t.c": ROWS}


@pytest.mark.parametrize("gone", [["a"], ["a", "b", "c"]])
def test_tables_that_others_replaced_are_named_together(
    log: LogWriter, target: Path, tmp_path: Path, gone: list[str]
) -> None:
    log.ddl(C.create)
    for other in (target, tmp_path / "other"):
        assert run(log.folder, other)
    for name in gone:
        shutil.rmtree(target / "t" / name)
        shutil.copytree(tmp_path / "other" / "t" / name, target / "t" / name)
    error = stopped(log.folder, target)
    assert error.table == ", ".join(f"t.{name}" for name in gone)
    assert "replaced by another one" in str(error)
