"""Nothing waits for a catalog, and a catalog that was away equals the newest cut afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from spark_repl.catalog.entry import CatalogEntry
from spark_repl.catalog.registrar import Registrar
from spark_repl.catalog.session_catalog import NO_PROPERTIES
from spark_repl.control.table.cut import Cut
from spark_repl.observe.reports.applier_status import Notice
from tests.support.memory_catalog import MemoryCatalog
from tests.support.wait_until import wait_until
from tests.unit.catalog.test_registration import BEFORE, cut_of, registration


class Notes(dict[str, Notice]):
    """The notices of a status."""

    def note(self, name: str, notice: Notice | None) -> None:
        if notice is None:
            self.pop(name, None)
        else:
            self[name] = notice


@contextmanager
def registering(
    catalog: MemoryCatalog,
    notes: Notes,
    wait: Callable[[threading.Event, float], object] = lambda event, seconds: None,
) -> Iterator[Registrar]:
    registrar = Registrar(lambda is_stopping: catalog, [registration()], notes.note, wait)
    registrar.start()
    try:
        yield registrar
    finally:
        registrar.close(at_once=True)


def test_the_newest_cut_is_registered() -> None:
    catalog, notes = MemoryCatalog(), Notes()
    with registering(catalog, notes) as registrar:
        registrar.cut_published(cut_of({"shop.x": "shop/x"}))
        registrar.cut_published(cut_of(BEFORE))
        assert registrar.wait_idle(60)
        assert list(catalog.locations) == [*BEFORE]
    assert notes == {}


def test_a_cut_that_changes_no_name_costs_no_request() -> None:
    catalog = MemoryCatalog()
    with registering(catalog, Notes()) as registrar:
        registrar.cut_published(cut_of(BEFORE))
        assert registrar.wait_idle(60)
        catalog.requests.clear()
        registrar.cut_published(cut_of(BEFORE, version=2))
        assert registrar.wait_idle(60)
        assert catalog.requests == []


def test_no_group_waits_while_many_tables_are_registered() -> None:
    creating, resume = threading.Event(), threading.Event()

    class Slow(MemoryCatalog):
        def create(self, entry: CatalogEntry) -> None:
            creating.set()
            assert resume.wait(10)
            super().create(entry)

    catalog, many = Slow(), {f"shop.t{number}": f"shop/t{number}" for number in range(1000)}
    with registering(catalog, Notes()) as registrar:
        registrar.cut_published(cut_of(many))
        assert creating.wait(10)
        for version in range(2, 12):
            registrar.cut_published(cut_of({**many, "shop.new": "shop/new"}, version=version))
        assert catalog.tables == {}
        resume.set()
        assert registrar.wait_idle(30)
        assert len(catalog.tables) == 1001
    assert catalog.requests.count("create") == 1001


def test_a_catalog_that_is_away_is_reported_and_repaired() -> None:
    catalog, notes = MemoryCatalog(away=True), Notes()
    waits = list[float]()

    def wait(event: threading.Event, seconds: float) -> None:
        waits.append(seconds)
        catalog.away = len(waits) < 7

    with registering(catalog, notes, wait) as registrar:
        registrar.cut_published(cut_of(BEFORE))
        assert registrar.wait_idle(60)
        assert waits == [1, 2, 4, 8, 16, 30, 30]
        assert list(catalog.locations) == [*BEFORE]
        assert notes == {}


def test_the_status_says_that_the_catalog_is_away() -> None:
    catalog, notes = MemoryCatalog(away=True), Notes()
    waiting, resume = threading.Event(), threading.Event()

    def wait(event: threading.Event, seconds: float) -> None:
        waiting.set()
        resume.wait(60)

    with registering(catalog, notes, wait) as registrar:
        registrar.cut_published(cut_of(BEFORE))
        assert waiting.wait(60)
        assert "away" in notes["catalog"].what
        assert "catalog sync" in notes["catalog"].hint
        resume.set()


def test_a_fault_of_a_task_ends_no_thread() -> None:
    class Faulty(MemoryCatalog):
        def schemas(self) -> list[str]:
            raise AssertionError

        def create_schema(self, schema: str, properties: Mapping[str, str] = NO_PROPERTIES) -> None:
            super().create_schema(schema, properties)
            if self.requests.count("create_schema") < 3:
                raise ValueError("a fault")

    catalog, notes = Faulty(), Notes()
    with registering(catalog, notes) as registrar:
        registrar.cut_published(cut_of(BEFORE))
        assert registrar.wait_idle(60)
        assert list(catalog.locations) == [*BEFORE]


class Seldom:
    """A task that is due once in 60 seconds."""

    every_s = 60.0

    def __init__(self) -> None:
        self.cuts: list[Cut] = []

    def wanted(self, cut: Cut) -> Cut:
        return cut

    def carry_out(
        self, catalog: object, cut: Cut, is_stopping: Callable[[], bool] = bool
    ) -> list[Notice]:
        self.cuts.append(cut)
        return []


def test_a_task_with_an_interval_is_carried_out_in_its_turn_and_at_the_end() -> None:
    cuts, now, task = [cut_of({f"shop.{name}": name}) for name in "abcd"], [0.0], Seldom()
    registrar = Registrar(
        lambda is_stopping: MemoryCatalog(), [task], Notes().note, clock=lambda: now[0]
    )
    registrar.start()
    for cut, now[0] in zip(cuts, (0.0, 59.0, 60.0, 61.0), strict=True):
        registrar.cut_published(cut)
        assert registrar.wait_idle(60)
    assert task.cuts == [cuts[0], cuts[2]]
    registrar.close()
    assert task.cuts == [cuts[0], cuts[2], cuts[3]]


def test_a_task_with_an_interval_needs_no_later_cut() -> None:
    cuts, task = [cut_of({f"shop.{name}": name}) for name in "ab"], Seldom()
    task.every_s = 0.05
    registrar = Registrar(lambda is_stopping: MemoryCatalog(), [task], Notes().note)
    registrar.start()
    for cut in cuts:
        registrar.cut_published(cut)
        assert registrar.wait_idle(60)
    wait_until(lambda: task.cuts == cuts)
    registrar.close(at_once=True)


class Interrupted(Seldom):
    """A task that takes until the catalog has the table of a newer cut."""

    def __init__(self, catalog: MemoryCatalog, registrar: list[Registrar]) -> None:
        super().__init__()
        self._catalog, self._registrar = catalog, registrar

    def carry_out(
        self, catalog: object, cut: Cut, is_stopping: Callable[[], bool] = bool
    ) -> list[Notice]:
        self._registrar[0].cut_published(cut_of({**BEFORE, "shop.newer": "shop/newer"}))
        assert not is_stopping()
        assert "shop.newer" in self._catalog.locations
        return super().carry_out(catalog, cut)


def test_a_new_table_does_not_wait_for_a_long_task() -> None:
    catalog, notes, registrars = MemoryCatalog(), Notes(), list[Registrar]()
    task = Interrupted(catalog, registrars)
    tasks = [registration(), task]
    registrars.append(Registrar(lambda is_stopping: catalog, tasks, notes.note))
    registrars[0].start(cut_of(BEFORE))
    try:
        assert registrars[0].wait_idle(60)
        assert notes == {}
    finally:
        registrars[0].close(at_once=True)


def test_without_tasks_there_is_no_thread() -> None:
    threads = {*threading.enumerate()}
    registrar = Registrar(lambda is_stopping: MemoryCatalog(), [], Notes().note)
    registrar.start(cut_of(BEFORE))
    registrar.cut_published(cut_of(BEFORE))
    assert {*threading.enumerate()} <= threads
    registrar.close()


def test_the_end_waits_for_a_catalog_that_answers() -> None:
    catalog = MemoryCatalog()
    registrar = Registrar(lambda is_stopping: catalog, [registration()], Notes().note)
    registrar.start()
    registrar.cut_published(cut_of(BEFORE))
    registrar.close()
    assert list(catalog.locations) == [*BEFORE]


def test_the_end_does_not_wait_for_a_catalog_that_is_away() -> None:
    catalog, notes = MemoryCatalog(away=True), Notes()
    registrar = Registrar(lambda is_stopping: catalog, [registration()], notes.note)
    registrar.start()
    registrar.cut_published(cut_of(BEFORE))
    wait_until(lambda: "catalog" in notes)
    registrar.close()
    assert catalog.locations == {}


def test_a_cut_that_was_handed_over_before_the_start_counts() -> None:
    """A start publishes a copy, which is newer than the cut at which it resumes."""
    catalog, notes = MemoryCatalog(), Notes()
    registrar = Registrar(lambda is_stopping: catalog, [registration()], notes.note)
    registrar.cut_published(cut_of(BEFORE))
    registrar.start(cut_of({"shop.x": "shop/x"}))
    try:
        assert registrar.wait_idle(60)
        assert list(catalog.locations) == [*BEFORE]
    finally:
        registrar.close(at_once=True)
