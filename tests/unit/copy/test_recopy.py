"""What is copied next: requests, then tables that wait, none of which holds another back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.control.records.copies import Copy, Standing, record_copy, standing
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion, Waiting
from spark_repl.copy import recopy
from spark_repl.copy.recopy import Queue, Wanted
from spark_repl.errors import NoTableError
from spark_repl.gtid import GtidSet
from tests.support.binlog_writer import SOURCE

WHY = Waiting("nobody knows", f"{SOURCE}:3")


def publish(control: Control, last: int, *waiting: str) -> Cut:
    executed = f"{SOURCE}:1-{last}"
    control.publish(Cut(last, executed, "log", {}, {}, waiting=dict.fromkeys(waiting, WHY)))
    return control.cuts()[-1]


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    (tmp_path / "requests").mkdir()
    return Queue(tmp_path / "requests")


def test_a_table_that_fails_waits_longer_each_time(
    control: Control, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(recopy.time, "monotonic", lambda: now[0])
    publish(control, 5, "t.a", "t.b")

    def following() -> tuple[str, ...]:
        found = queue.next(control, standing(control))
        return found.tables if found else ()

    assert following() == ("t.a",)
    for pause in (2, 4, 8):
        queue.tried(("t.a",))
        now[0] += pause - 0.1
        assert following() == ("t.b",), "meanwhile the other one"
        now[0] += 0.1
        queue.tried(("t.b",))
        assert following() == ("t.a",)
    for _ in range(20):
        queue.tried(("t.a",))
    now[0] += 600
    assert following() == ("t.b",) or following() == ("t.a",)
    publish(control, 6, "t.b")
    assert following() == ("t.b",)
    publish(control, 7, "t.a", "t.b")
    assert following() == ("t.a",), "it waits for another reason now"


def test_requests_come_first_and_are_answered_once(control: Control, queue: Queue) -> None:
    cut = publish(control, 5, "t.a")
    for name, text in (("1", '{"tables": ["t.b"]}'), ("2", "nothing"), ("3", '{"tables": []}')):
        (queue.folder / f"{name}.json").write_text(text)
    (queue.folder / "4.json").write_text(json.dumps({"tables": ["t.c"]}))
    first = queue.folder / "1.json"
    assert queue.next(control, standing(control)) == Wanted(("t.b",), "1.json", first)
    done = Copy(GtidSet(), {"t.b": ()}, {"t.b": "t/b@2"}, behind=cut, asked="1.json", error="gone")
    record_copy(control, done)
    found = queue.next(control, standing(control))
    assert found == Wanted(("t.c",), "4.json", queue.folder / "4.json")
    assert [path.name for path in queue.requests()] == ["4.json"]


@pytest.mark.parametrize("again", [True, False])
def test_the_next_copy_begins_behind_what_made_one_useless(
    control: Control, queue: Queue, again: bool
) -> None:
    cut = publish(control, 5, "t.a")
    until = GtidSet.parse(f"{SOURCE}:1-9")
    copy = Copy(GtidSet(), {"t.a": ()}, {"t.a": "t/a@2"}, behind=cut, until=until)
    copy = replace(copy, again="ALTER TABLE", asked="1.json") if again else copy
    record_copy(control, copy if again else replace(copy, error="ALTER TABLE"))
    assert queue.next(control, standing(control)) is None
    publish(control, 8, "t.a")
    assert queue.next(control, standing(control)) is None
    publish(control, 9, "t.a")
    want = Wanted(("t.a",), "1.json") if again else Wanted(("t.a",), waits=True)
    assert queue.next(control, standing(control)) == want


def test_a_missing_table_is_looked_for_until_the_cut_has_passed_what_took_it(
    queue: Queue, control: Control
) -> None:
    def missing(last: int) -> NoTableError:
        return NoTableError("no table", table="t.a").as_of(f"{SOURCE}:1-{last}")

    def standing_at(last: int) -> Standing:
        there = {"t.a": TableVersion("t/a", 1, "d", last)}
        control.publish(Cut(last, f"{SOURCE}:1-{last}", "log", {}, there))
        return standing(control)

    assert queue.ask_again(missing(5), standing_at(3))
    assert queue.ask_again(missing(9), standing_at(4)), "the source goes on meanwhile"
    queue.planned()
    assert queue.ask_again(missing(7), standing_at(5)), "it was back meanwhile"
    assert not queue.ask_again(missing(9), standing_at(7)), "and still missing"
    assert queue.ask_again(missing(9), standing_at(8)), "another request"
