"""A catalog equals the cut after each registration, whatever it had before."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest

from spark_repl.catalog.entry import CatalogEntry, EntryName, EntryOwner
from spark_repl.catalog.naming import Naming
from spark_repl.catalog.registration import TableRegistration
from spark_repl.control.table.cut import Cut, TableVersion, Waiting
from spark_repl.control.table.layout import Layout
from spark_repl.errors import CatalogError, Stopped
from tests.support.memory_catalog import MemoryCatalog

OWNER = EntryOwner("/lake", "default")


def cut_of(paths: Mapping[str, str], waiting: tuple[str, ...] = (), version: int = 1) -> Cut:
    """Return a cut with tables at these paths, each in this version."""
    tables = {name: TableVersion(path, version, "", version) for name, path in paths.items()}
    waits = {name: Waiting("renamed", "") for name in waiting}
    return Cut(1, "", "", {}, tables, waiting=waits)


def registration(earlier: tuple[str, ...] = (), **more: object) -> TableRegistration:
    return TableRegistration(Layout("/lake"), Naming(), OWNER, lambda: earlier, **more)  # type: ignore[arg-type]


def foreign(name: str, location: str, **properties: str) -> CatalogEntry:
    schema, _, table = name.partition(".")
    return CatalogEntry(EntryName(schema, table), location, properties=properties)


def filled(*entries: CatalogEntry) -> MemoryCatalog:
    return MemoryCatalog({e.name: e for e in entries}, {e.name.schema: {} for e in entries})


BEFORE = {"shop.a": "shop/a", "shop.b": "shop/b"}


@pytest.mark.parametrize(
    "paths",
    [
        BEFORE,
        {"shop.a": "shop/a", "shop.c": "shop/b"},
        {"shop.a": "shop/b", "shop.b": "shop/a"},
        {"shop.a": "shop/a@2", "shop.b": "shop/b"},
        {"crm.a": "shop/a", "crm.new": "crm/new"},
        {},
    ],
    ids=["same", "renamed", "swapped", "copied", "other schema", "dropped"],
)
@pytest.mark.parametrize("restarted", [True, False])
def test_the_catalog_has_each_table_of_the_cut_at_its_location(
    paths: dict[str, str], restarted: bool
) -> None:
    catalog, task = MemoryCatalog(), registration()
    task.carry_out(catalog, cut_of(BEFORE))
    task = registration(tuple(BEFORE)) if restarted else task
    assert task.carry_out(catalog, cut_of(paths)) == []
    assert catalog.locations == {name: f"/lake/{path}" for name, path in sorted(paths.items())}


def test_a_renamed_table_has_a_name_at_each_moment() -> None:
    catalog, task = MemoryCatalog(), registration()
    task.carry_out(catalog, cut_of(BEFORE))
    catalog.requests.clear()
    task.carry_out(catalog, cut_of({"shop.a": "shop/a", "shop.c": "shop/b"}))
    assert catalog.requests.index("create") < catalog.requests.index("drop")


@pytest.mark.parametrize(
    "owner_of_it",
    [
        {},
        EntryOwner("/other", "default").properties("shop.a"),
        EntryOwner("/lake", "eu").properties("a.b"),
    ],
    ids=["nobody's", "another target's", "another channel's"],
)
def test_a_name_of_another_writer_is_reported_and_stays(owner_of_it: dict[str, str]) -> None:
    entry = foreign("shop.a", "/elsewhere/a", **owner_of_it)
    catalog = filled(entry)
    (notice,) = registration().carry_out(catalog, cut_of(BEFORE))
    assert "shop.a" in notice.what
    assert catalog.tables[entry.name] is entry
    assert "shop.b" in catalog.locations


def test_an_alias_of_the_table_that_a_user_registered_stays() -> None:
    alias = foreign("shop.alias", "/lake/shop/a")
    catalog = filled(alias)
    registration(tuple(BEFORE)).carry_out(catalog, cut_of({}))
    assert catalog.locations == {"shop.alias": "/lake/shop/a"}


def test_a_table_that_a_user_registered_under_its_name_needs_no_change() -> None:
    by_hand = foreign("shop.a", "file:/lake/shop/a/")
    catalog = filled(by_hand)
    assert registration().carry_out(catalog, cut_of(BEFORE)) == []
    assert catalog.tables[by_hand.name] is by_hand


def test_an_entry_that_another_writer_replaced_is_not_dropped() -> None:
    class Raced(MemoryCatalog):
        def create_schema(self, schema: str) -> None:
            super().create_schema(schema)
            entry = foreign("shop.b", "/elsewhere/b")
            self.tables[entry.name] = entry

    catalog = Raced()
    catalog.tables |= filled(foreign("shop.b", "/lake/shop/b", **OWNER.properties("shop.b"))).tables
    registration(tuple(BEFORE)).carry_out(catalog, cut_of({"shop.a": "shop/a"}))
    assert catalog.locations["shop.b"] == "/elsewhere/b"


def test_a_table_that_waits_for_a_copy_keeps_its_entry() -> None:
    catalog, task = MemoryCatalog(), registration()
    task.carry_out(catalog, cut_of(BEFORE))
    for again in (task, registration(tuple(BEFORE))):
        again.carry_out(catalog, cut_of({"shop.a": "shop/a"}, waiting=("shop.b",)))
        assert catalog.locations["shop.b"] == "/lake/shop/b"
        again.carry_out(catalog, cut_of(BEFORE, waiting=("shop.b",)))
    task.carry_out(catalog, cut_of({}))
    assert catalog.locations == {}


def test_a_name_of_another_writer_is_reported_until_it_is_free() -> None:
    catalog, task = filled(foreign("shop.a", "/elsewhere/a")), registration()
    task.carry_out(catalog, cut_of(BEFORE))
    assert task.carry_out(catalog, cut_of({**BEFORE, "shop.c": "shop/c"})) != []
    catalog.tables.pop(EntryName("shop", "a"))
    assert task.carry_out(catalog, cut_of(BEFORE)) == []
    assert catalog.locations["shop.a"] == "/lake/shop/a"


def test_a_cut_with_the_same_names_and_paths_makes_no_request() -> None:
    catalog, task = MemoryCatalog(), registration()
    task.carry_out(catalog, cut_of(BEFORE))
    assert task.wanted(cut_of(BEFORE)) == task.wanted(cut_of(dict(BEFORE)))
    catalog.requests.clear()
    task.carry_out(catalog, cut_of(BEFORE))
    assert catalog.requests == []


@pytest.mark.parametrize("lost", range(1, 5))
def test_lost_answers_leave_nothing_that_the_next_attempt_does_not_repair(lost: int) -> None:
    catalog, task = MemoryCatalog(), registration()
    after = {"shop.a": "shop/b", "shop.c": "shop/c", "crm.d": "crm/d"}
    for paths in (BEFORE, after):
        catalog.lost = lost
        for _ in range(lost):
            with suppress(CatalogError):
                task.carry_out(catalog, cut_of(paths))
        catalog.lost = 0
        task.carry_out(catalog, cut_of(paths))
    assert catalog.locations == {name: f"/lake/{path}" for name, path in sorted(after.items())}


def test_a_stop_ends_between_two_requests() -> None:
    catalog, task = MemoryCatalog(), registration()
    with pytest.raises(Stopped):
        task.carry_out(catalog, cut_of(BEFORE), lambda: len(catalog.tables) == 1)
    assert len(catalog.tables) == 1


def test_all_shards_of_one_delta_table_have_one_entry() -> None:
    catalog = MemoryCatalog()
    paths = {"lake.orders//one": "lake/orders//1", "lake.orders//two": "lake/orders//2"}
    registration().carry_out(catalog, cut_of(paths))
    assert catalog.locations == {"lake.orders": "/lake/lake/orders"}


def test_a_moved_target_takes_the_entries_of_its_former_place_over() -> None:
    former = EntryOwner("/old", "default")
    catalog = filled(foreign("shop.a", "/old/shop/a", **former.properties("shop.a")))
    registration(former=(former,)).carry_out(catalog, cut_of(BEFORE))
    assert catalog.locations == {"shop.a": "/lake/shop/a", "shop.b": "/lake/shop/b"}
    assert all(entry.has_owner(OWNER) for entry in catalog.tables.values())


EU, US = ({"lake.orders//eu": "lake/orders//1"}, {"lake.orders//us": "lake/orders//2"})


@pytest.mark.parametrize("restarted", [True, False])
def test_an_entry_stays_until_the_last_channel_drops_its_table(restarted: bool) -> None:
    catalog, newest = MemoryCatalog(), {"us": cut_of(US)}
    eu = registration(other_channels=newest.items)
    owner = EntryOwner("/lake", "us")
    us = TableRegistration(Layout("/lake"), Naming(channel="us"), owner)
    eu.carry_out(catalog, cut_of(EU))
    us.carry_out(catalog, cut_of(US))
    if restarted:
        eu = registration(("lake.orders",), other_channels=newest.items)
    eu.carry_out(catalog, cut_of({}))
    assert catalog.locations == {"lake.orders": "/lake/lake/orders"}
    assert all(entry.has_owner(owner) for entry in catalog.tables.values())
    us.carry_out(catalog, cut_of({}))
    assert catalog.locations == {}


def test_an_entry_is_dropped_if_another_channel_has_another_table_of_that_name() -> None:
    catalog, newest = MemoryCatalog(), {"us": cut_of({"lake.orders": "lake/orders@2"})}
    eu = registration(other_channels=newest.items)
    eu.carry_out(catalog, cut_of(EU))
    eu.carry_out(catalog, cut_of({}))
    assert catalog.locations == {}


def test_an_entry_is_dropped_if_the_other_channel_drops_its_table_meanwhile() -> None:
    """The other channel has left the entry, which was not its own yet."""
    newest = {"us": cut_of(US)}

    class Meanwhile(MemoryCatalog):
        def replace(self, entry: CatalogEntry) -> None:
            newest["us"] = cut_of({})
            super().replace(entry)

    catalog, eu = Meanwhile(), registration(other_channels=newest.items)
    eu.carry_out(catalog, cut_of(EU))
    eu.carry_out(catalog, cut_of({}))
    assert "replace" in catalog.requests
    assert catalog.locations == {}


def test_an_entry_passes_on_if_the_channel_that_got_it_drops_its_table_meanwhile() -> None:
    """A third channel feeds the table, and takes its entry for granted."""
    asia = {"lake.orders//asia": "lake/orders//3"}
    owners = {name: EntryOwner("/lake", name) for name in ("us", "asia")}
    newest = {"us": cut_of(US), "asia": cut_of(asia)}

    class Meanwhile(MemoryCatalog):
        def replace(self, entry: CatalogEntry) -> None:
            if {*newest} == {*owners}:
                (receiver,) = (name for name, owner in owners.items() if entry.has_owner(owner))
                del newest[receiver]
            super().replace(entry)

    catalog, eu = Meanwhile(), registration(other_channels=newest.items)
    eu.carry_out(catalog, cut_of(EU))
    eu.carry_out(catalog, cut_of({}))
    assert catalog.locations == {"lake.orders": "/lake/lake/orders"}
    (left,) = newest
    assert all(entry.has_owner(owners[left]) for entry in catalog.tables.values())
