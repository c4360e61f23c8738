"""A published cut is complete before it is announced, whatever the catalog had or lost before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_repl.catalog.cut_views import CutViews
from spark_repl.catalog.entry import CatalogEntry, EntryName
from spark_repl.catalog.naming import Naming
from spark_repl.control.records.channels import Channel
from spark_repl.control.records.retention import pin, unpin
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, InQuarantine, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.errors import CatalogError, Stopped, TargetError
from tests.support.memory_catalog import MemoryCatalog

UUID = "11111111-2222-3333-4444-555555555555"
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": "id", "type": "long", "nullable": False, "metadata": {}}],
    }
)
LATER = timedelta(days=365)
"""after the promise of each cut"""


def schema_of(folder: str, version: int) -> str:
    return SCHEMA


class Source:
    """A channel whose cuts the test publishes."""

    def __init__(self, folder: Path) -> None:
        layout = Layout(str(folder))
        self.control = Control(layout.control)
        self.control.claim()
        self.at = Channel("default", layout, self.control)
        self.count = 0

    def publish(self, **versions: int) -> Cut:
        """Publish a cut with tables of ``shop`` at these versions."""
        self.count += 1
        tables = {f"shop.{name}": TableVersion(f"shop/{name}", version, "", 1)
                  for name, version in versions.items()}  # fmt: skip
        return self.publish_tables(tables)

    def publish_tables(self, tables: dict[str, TableVersion], **more: Any) -> Cut:
        self.control.publish(
            Cut(self.count, f"{UUID}:1-{self.count}", "log", {"commit_time": 1}, tables, **more)
        )
        return self.control.cuts()[-1]

    def views(self, after: timedelta = timedelta(0)) -> CutViews:
        """Return the views of a process that has just started, at a time after now."""
        now = lambda: datetime.now(UTC) + after  # noqa: E731
        return CutViews(self.at, Naming(), schema_of=schema_of, now=now)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def shown(catalog: MemoryCatalog) -> dict[str, str]:
    """Return the version and the cut of each view, and the schemas of the lists of cuts."""
    result = {}
    for name, entry in sorted(catalog.tables.items()):
        assert entry.view is not None
        text = entry.view.text
        if name.table == "_cuts":
            result[str(name)] = ", ".join(announced(text))
        else:
            number = text.partition("L AS `_cut`")[0].rpartition(" ")[2]
            result[str(name)] = f"{text.rpartition(' ')[2]} of {number}"
    return result


def announced(text: str) -> list[str]:
    return text.partition("VALUES ")[2].partition(")) AS p")[0].split("'")[1::2]


TWO = {
    "shop_cut._cuts": "shop_cut_1, shop_cut_2",
    "shop_cut.a": "2 of 2",
    "shop_cut.b": "1 of 2",
    "shop_cut_1.a": "1 of 1",
    "shop_cut_2.a": "2 of 2",
    "shop_cut_2.b": "1 of 2",
}


def test_each_published_cut_has_a_schema_and_shop_cut_shows_the_newest(source: Source) -> None:
    catalog, views = MemoryCatalog(), source.views()
    assert views.carry_out(catalog, source.publish(a=1)) == []
    assert views.carry_out(catalog, source.publish(a=2, b=1)) == []
    assert shown(catalog) == TWO


def test_a_table_that_is_dropped_leaves_only_its_view_of_the_newest_cut(source: Source) -> None:
    catalog, views = MemoryCatalog(), source.views()
    for versions in ({"a": 1, "b": 1}, {"a": 1}):
        views.carry_out(catalog, source.publish(**versions))
    assert shown(catalog).keys() == {
        "shop_cut._cuts", "shop_cut.a", "shop_cut_1.a", "shop_cut_1.b", "shop_cut_2.a",
    }  # fmt: skip


@pytest.mark.parametrize("restarted", [True, False])
def test_a_published_cut_is_changed_by_nothing(source: Source, restarted: bool) -> None:
    catalog, views, cut = MemoryCatalog(), source.views(), source.publish(a=1)
    views.carry_out(catalog, cut)
    catalog.requests.clear()
    (source.views() if restarted else views).carry_out(catalog, cut)
    assert {*catalog.requests} <= {"schemas", "entries", "schema_properties"}


class FailingCatalog(MemoryCatalog):
    """Fails at the request of a number, before its work or after. It checks after each request that
    what is announced is complete."""

    number = -1
    after = False

    def _request(self, name: str) -> None:
        super()._request(name)
        self.check()
        if len(self.requests) == self.number and not self.after:
            raise CatalogError("the request is lost")

    def _answer(self) -> None:
        self.check()
        if len(self.requests) == self.number and self.after:
            raise CatalogError("the answer is lost")

    def check(self) -> None:
        tables = {"shop_cut_1": {"a"}, "shop_cut_2": {"a", "b"}}
        entry = self.tables.get(EntryName("shop_cut", "_cuts"))
        for schema in announced(entry.view.text) if entry and entry.view else []:
            assert {name.table for name in self.tables if name.schema == schema} == tables[schema]


@pytest.mark.parametrize("after", [True, False], ids=["answer", "request"])
def test_a_failure_at_any_request_is_repaired(source: Source, after: bool) -> None:
    cut = source.publish(a=1)
    first = MemoryCatalog()
    source.views().carry_out(first, cut)
    cut = source.publish(a=2, b=1)
    failures = 0
    for number in range(1, 60):
        catalog = FailingCatalog(dict(first.tables), {k: dict(v) for k, v in first.created.items()})
        catalog.number, catalog.after = number, after
        with suppress(CatalogError):
            source.views().carry_out(catalog, cut)
            failures -= 1
        failures += 1
        catalog.number = -1
        assert source.views().carry_out(catalog, cut) == []
        assert shown(catalog) == TWO
    assert 3 < failures < 58, "each request failed once"


def test_a_kill_while_an_old_cut_is_removed_is_repaired(source: Source) -> None:
    before = MemoryCatalog()
    for versions in ({"a": 1}, {"a": 2, "b": 1}):
        cut = source.publish(**versions)
        source.views().carry_out(before, cut)
    for number in range(1, 60):
        catalog = FailingCatalog(
            dict(before.tables), {k: dict(v) for k, v in before.created.items()}
        )
        catalog.number = number
        with suppress(CatalogError):
            source.views(LATER).carry_out(catalog, cut)
        catalog.number = -1
        source.views(LATER).carry_out(catalog, cut)
        gone = {"shop_cut_1.a": "1 of 1", "shop_cut._cuts": "shop_cut_1, shop_cut_2"}
        assert shown(catalog) == {
            **{name: text for name, text in TWO.items() if name not in gone},
            "shop_cut._cuts": "shop_cut_2",
        }
        assert "shop_cut_1" not in catalog.created


def entry(name: str) -> CatalogEntry:
    schema, _, table = name.partition(".")
    return CatalogEntry(EntryName(schema, table), "/elsewhere")


def test_names_of_another_writer_are_not_taken(source: Source) -> None:
    views = {name: entry(name) for name in ("shop_cut.a", "shop_cut.other")}
    catalog = MemoryCatalog(
        {e.name: e for e in views.values()},
        {"default": {}, "shop_cut": {}, "shop_cut_1": {"owner": "x"}},
    )
    (notice,) = source.views().carry_out(catalog, source.publish(a=1, b=2))
    assert notice.what.endswith("under names of cuts: shop_cut_1, shop_cut.a")
    assert catalog.tables[EntryName("shop_cut", "a")] == views["shop_cut.a"]
    assert {*map(str, catalog.tables)} == {"shop_cut.a", "shop_cut.b", "shop_cut.other"}
    assert catalog.created["shop_cut_1"] == {"owner": "x"}


def test_a_schema_stays_as_long_as_another_writer_has_something_in_it(source: Source) -> None:
    catalog = MemoryCatalog()
    source.views().carry_out(catalog, source.publish(a=1))
    catalog.tables[EntryName("shop_cut_1", "x")] = entry("shop_cut_1.x")
    source.views(LATER).carry_out(catalog, source.publish(a=2))
    assert [str(name) for name in catalog.tables if name.schema == "shop_cut_1"] == ["shop_cut_1.x"]


def test_another_target_that_was_at_the_path_has_other_cuts(tmp_path: Path, source: Source) -> None:
    catalog = MemoryCatalog()
    source.views().carry_out(catalog, source.publish(a=1, old=1))
    for file in (tmp_path / "_repl" / "control").rglob("*"):
        if file.is_file():
            file.unlink()
    new = Source(tmp_path)
    assert new.views().carry_out(catalog, new.publish(a=7)) == []
    assert shown(catalog) == {
        "shop_cut._cuts": "shop_cut_1", "shop_cut.a": "7 of 1", "shop_cut_1.a": "7 of 1",
    }  # fmt: skip


def test_a_moved_target_takes_over_the_views_of_its_former_place(
    tmp_path: Path, source: Source
) -> None:
    catalog, former = MemoryCatalog(), CutViews(source.at, Naming(), schema_of=schema_of)
    cut = source.publish(a=1)
    former.carry_out(catalog, cut)
    shutil.copytree(tmp_path / "_repl", tmp_path / "moved" / "_repl")
    layout = Layout(str(tmp_path / "moved"))
    at = Channel("default", layout, Control(layout.control))
    stranger = CutViews(at, Naming(), schema_of=schema_of)
    assert len(stranger.carry_out(catalog, cut)) == 1
    moved = CutViews(at, Naming(), former=[str(tmp_path)], schema_of=schema_of)
    assert moved.carry_out(catalog, cut) == []
    texts = {str(name): entry.view.text for name, entry in catalog.tables.items() if entry.view}
    assert {*texts} == {"shop_cut._cuts", "shop_cut.a", "shop_cut_1.a"}
    assert all(f"`{tmp_path}/moved/" in text for text in texts.values())


def test_a_table_in_quarantine_has_no_view(source: Source) -> None:
    tables = {f"shop.{name}": TableVersion(f"shop/{name}", 1, "", 1) for name in "ab"}
    quarantined = {"shop.b": InQuarantine("why", "x", 1, 9)}
    catalog = MemoryCatalog()
    source.views().carry_out(catalog, source.publish_tables(tables, quarantined=quarantined))
    assert shown(catalog).keys() == {"shop_cut._cuts", "shop_cut.a", "shop_cut_1.a"}


@pytest.fixture
def named(source: Source) -> Iterator[tuple[MemoryCatalog, Cut]]:
    """A catalog with two cuts, of which the first one is published as Month-End."""
    catalog = MemoryCatalog()
    first = source.publish(a=1)
    pin(source.control, first, "Month-End")
    assert source.views().publish(catalog, first, "Month-End") == ["shop_cut_month_end"]
    cut = source.publish(a=2)
    source.views().carry_out(catalog, cut)
    yield catalog, cut


def test_a_cut_published_by_name_stays_as_long_as_its_pin(
    source: Source, named: tuple[MemoryCatalog, Cut]
) -> None:
    catalog, cut = named
    source.views(LATER).carry_out(catalog, cut)
    assert shown(catalog)["shop_cut_month_end.a"] == "1 of 1"
    assert shown(catalog)["shop_cut._cuts"] == "shop_cut_month_end, shop_cut_2"
    unpin(source.control, "Month-End")
    source.views(LATER).carry_out(catalog, cut)
    assert shown(catalog)["shop_cut._cuts"] == "shop_cut_2"
    assert "shop_cut_month_end" not in catalog.created


def test_an_unfinished_one_with_a_pin_is_left_to_its_command(
    source: Source, named: tuple[MemoryCatalog, Cut]
) -> None:
    catalog, cut = named
    del catalog.created["shop_cut_month_end"]["spark_repl.complete"]
    del catalog.tables[EntryName("shop_cut_month_end", "a")]
    source.views().carry_out(catalog, cut)
    assert shown(catalog)["shop_cut._cuts"] == "shop_cut_2"
    source.views().publish(catalog, source.control.cuts()[0], "Month-End")
    assert shown(catalog)["shop_cut._cuts"] == "shop_cut_month_end, shop_cut_2"


def test_unpublish_removes_only_the_cut_of_that_name(
    source: Source, named: tuple[MemoryCatalog, Cut]
) -> None:
    catalog, _ = named
    assert source.views().published_as(catalog, "other") == []
    assert source.views().published_as(catalog, "Month-End") == ["shop_cut_month_end"]
    source.views().unpublish(catalog, "Month-End")
    assert shown(catalog).keys() == {"shop_cut._cuts", "shop_cut.a", "shop_cut_2.a"}


def test_two_pins_have_no_schema_in_common(
    source: Source, named: tuple[MemoryCatalog, Cut]
) -> None:
    catalog, cut = named
    pin(source.control, cut, "month_end")
    with pytest.raises(TargetError, match="has another schema or view: shop_cut_month_end"):
        source.views().publish(catalog, cut, "month_end")
    assert shown(catalog)["shop_cut_month_end.a"] == "1 of 1"


def test_the_end_of_the_process_stops_the_work(source: Source) -> None:
    catalog = MemoryCatalog()
    with pytest.raises(Stopped):
        source.views().carry_out(catalog, source.publish(a=1), lambda: True)
    assert shown(catalog) == {}
