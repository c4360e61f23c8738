"""Which cut a reader is given, and what of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from spark_repl.control.cuts.cut_reader import CutReader, find_cut
from spark_repl.control.records.retention import pin
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion, Waiting
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConfigError, TargetError

UUID = "11111111-2222-3333-4444-555555555555"
CUTS = [
    Cut(number, f"{UUID}:1-{number}", "log", {}, {"t.a": TableVersion("t/a", number, "m", number)})
    for number in (3, 5, 8)
]


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Control:
    found = Control(str(tmp_path_factory.mktemp("control") / "control"))
    found.claim()
    for cut in CUTS:
        found.publish(cut)
    pin(found, found.cuts()[1], "month_end")
    return found


@pytest.mark.parametrize(
    ("at", "position"),
    [
        ("latest", 8),
        (f"{UUID}:1", 3),
        (f"{UUID}:4-5", 5),
        (f"{UUID}:6", 8),
        (f"{UUID}:8", 8),
        ("month_end", 5),
    ],
)
def test_the_first_cut_that_holds_all_of_it(control: Control, at: str, position: int) -> None:
    assert find_cut(control, at).position == position


def test_a_gtid_set_that_no_cut_holds_is_an_error(control: Control) -> None:
    with pytest.raises(TargetError, match="no cut holds all") as found:
        find_cut(control, f"{UUID}:1-9")
    assert f"{UUID}:1-8" in (found.value.hint or "")


def test_a_cut_is_read_as_it_was_published(tmp_path: Path) -> None:
    found = Control(str(tmp_path / "control"))
    found.claim()
    branch = {"gtrid": "6f", "position": 7}
    cut = replace(CUTS[0], source={"file": "bin.1", "position": 9}, prepared=(branch,),
                  counts={"transactions": 4, "waves": 2}, waiting={"t.b": Waiting("why", "1.2")},
                  )  # fmt: skip
    found.publish(cut)
    (read,) = Control(found.path).cuts()
    assert read.at is not None
    assert replace(read, at=None) == cut


def test_a_cut_is_the_json_of_what_it_says() -> None:
    """Tables' fragments are made once each: together they are one object, as ever."""
    names = ["t.a", 't.q"\\', "t.ü☃", "t.b"]
    tables = {name: TableVersion(name, n, f"id {name}", n * 2**40) for n, name in enumerate(names)}
    waiting = {"t.c": Waiting('why "', "1.2")}
    cut = replace(CUTS[0], source={"file": "bin.1"}, tables=tables, counts={"waves": 2})
    for one in (cut, replace(cut, waiting=waiting), replace(cut, tables={})):
        more = {"waiting": {name: vars(why) for name, why in one.waiting.items()}}
        wanted = {
            "log_id": cut.log_id, "source": {"file": "bin.1"},
            "tables": {
                name: {"path": name, "version": n, "metadata_id": f"id {name}", "position": n << 40}
                for n, name in enumerate(one.tables)
            },
            **(more if one.waiting else {}), "counts": {"waves": 2}, "prepared": [],
        }  # fmt: skip
        assert one.to_detail() == json.dumps(wanted)


@pytest.mark.parametrize("at", ["latest", f"{UUID}:1"])
def test_a_target_without_a_cut_is_an_error(tmp_path: Path, at: str) -> None:
    with pytest.raises(TargetError, match="no cut has been published"):
        find_cut(Control(str(tmp_path / "none")), at)


@pytest.mark.parametrize("names", [("a.b_c", "a_b.c"), ("t.a", "t.A")])
def test_two_tables_do_not_have_one_view(names: tuple[str, str]) -> None:
    spark, tables = MagicMock(), dict.fromkeys(("t.x", *names), CUTS[1].tables["t.a"])
    found = CutReader(spark, Layout("/lake"), replace(CUTS[1], tables=tables))
    with pytest.raises(TargetError, match=r"the view of .* would be this table's, too") as caught:
        found.create_views("at_")
    assert caught.value.table == names[1]
    assert not spark.read.format.called, "none is made"


def test_a_table_is_read_as_of_the_cut() -> None:
    spark = MagicMock()
    found = CutReader(spark, Layout("/lake"), CUTS[1])
    with pytest.raises(ConfigError, match=r"has no table 't\.b'"):
        found.table("t.b")
    assert found.create_views("at_") == ["at_t_a"]
    spark.read.format.assert_called_with("delta")
    asked = spark.read.format.return_value.option
    asked.assert_called_with("versionAsOf", 5)
    asked.return_value.load.assert_called_with("/lake/t/a")
    view = asked.return_value.load.return_value.createOrReplaceTempView
    view.assert_called_once_with("`at_t_a`")
