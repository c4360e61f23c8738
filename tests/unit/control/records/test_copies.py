"""What a target stands on: cuts, copies that no cut shows yet, and the paths of tables."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_repl.config import Config
from spark_repl.control.records.copies import (
    CatchUp,
    Copy,
    check_log,
    consistent_paths,
    first_cut,
    last_copy,
    note_shown,
    record_copy,
    standing,
)
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.log_identity import LogIdentity
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import gone_paths, remove_replaced, replaced_paths
from spark_repl.control.records.retention import Retention
from spark_repl.control.records.table_paths import announce, current_paths
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.copy import copy_plan
from spark_repl.crash_points import listening
from spark_repl.errors import HistoryError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver.purge import deciding
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.log import open_log
from tests.support.binlog_writer import LogWriter
from tests.support.dump_stream import receive

_UUID = "11111111-2222-3333-4444-555555555555"


def gtids(last: int) -> GtidSet:
    return GtidSet.parse(f"{_UUID}:1-{last}")


def cut(control: Control, position: int, **tables: str) -> Cut:
    versions = {f"t.{name}": TableVersion(path, 1, "m", position) for name, path in tables.items()}
    control.publish(Cut(position, str(gtids(position)), "log", {}, versions))
    return control.cuts()[-1]


def made(control: Control, name: str, path: str) -> None:
    control.write("table", detail=json.dumps({"name": f"t.{name}", "path": path}))


def test_a_copy_of_one_table_stands_until_a_cut_shows_it(control: Control) -> None:
    made(control, "a", "t/a")
    made(control, "b", "t/b")
    first = cut(control, 5, a="t/a", b="t/b")
    copy = Copy(gtids(5), {"t.a": ()}, {"t.a": "t/a@2"}, behind=first)
    record_copy(control, copy)
    cut(control, 7, a="t/a", b="t/b")
    # While it is made the applier goes on, and the log from where it began on is held.
    stands = standing(control)
    assert (
        stands.begin and stands.needed and (stands.begin.position, stands.needed.position) == (7, 5)
    )
    assert stands.executed == gtids(5)
    assert current_paths(control)["t.a"] == "t/a"
    record_copy(control, replace(copy, until=gtids(9)))
    cut(control, 8, a="t/a", b="t/b")  # by an applier that has not gone back yet
    stands = standing(control)
    assert stands.begin and stands.begin.position == 5
    assert current_paths(control) == {"t.a": "t/a@2", "t.b": "t/b"}
    catch_up = CatchUp(stands.copy)
    assert catch_up.active(gtids(8)) and not catch_up.active(gtids(9))
    assert "t.a" in catch_up.tables(gtids(8)) and "t.b" not in catch_up.tables(gtids(8))
    assert "t.a" not in catch_up.tables(gtids(9))
    assert not consistent_paths(control)
    note_shown(control)
    found = last_copy(control)
    assert found and not found.shown, "no cut shows it yet"
    cut(control, 9, a="t/a@2", b="t/b")
    catch_up.cut_published(control)
    found = last_copy(control)
    assert found and found.shown
    assert standing(control).copy is None and consistent_paths(control) == {"t/a@2"}


@pytest.mark.parametrize("noted", [True, False])
def test_a_copy_whose_table_is_gone_does_not_stand_again(
    control: Control, tmp_path: Path, noted: bool
) -> None:
    """The cuts that showed it are pruned after a while."""
    first = cut(control, 5, a="t/a")
    done = Copy(gtids(5), {"t.a": ()}, {"t.a": "t/a@2"}, behind=first, until=gtids(6))
    record_copy(control, done)
    cut(control, 6, a="t/a@2")
    if noted:
        note_shown(control)
    made(control, "a", "t/a@3")  # dropped, and made again
    cut(control, 8, a="t/a@3")
    control._pruned = -1_000_000
    control.prune(PruneBy(Retention(0, 0, 0)), DurabilityBarrier(control, Layout(str(tmp_path))))
    assert [found.position for found in control.cuts()] == [8]
    stands = standing(control)
    assert (stands.copy is None) == noted
    assert not noted or (stands.begin and stands.begin.position == 8)
    assert not noted or current_paths(control) == {"t.a": "t/a@3"}


def test_a_copy_of_all_tables_replaces_them(control: Control) -> None:
    made(control, "a", "t/a")
    made(control, "gone", "t/gone")
    cut(control, 5, a="t/a", gone="t/gone")
    copy = Copy(gtids(20), {"t.a": ()}, {"t.a": "t/a@2"}, held=gtids(21))
    record_copy(control, copy)
    stands = standing(control)
    assert stands.begin is None and stands.executed == gtids(20)
    record_copy(control, replace(copy, until=gtids(30)))
    assert current_paths(control) == {"t.a": "t/a@2"}
    assert CatchUp(standing(control).copy).copied == gtids(21)
    record_copy(control, replace(copy, error="no such table"))
    assert standing(control).copy is None


@pytest.mark.parametrize("done", [False, True])
def test_a_copy_of_all_tables_needs_no_cut(control: Control, done: bool) -> None:
    """The log is needed behind its start, whatever was applied before it."""
    assert (standing(control).begin, standing(control).executed) == (None, None)
    cut(control, 5, a="t/a")
    assert standing(control).executed == gtids(5)
    until = gtids(30) if done else None
    record_copy(control, Copy(gtids(20), {"t.a": ()}, {"t.a": "t/a@2"}, until=until))
    stands = standing(control)
    assert (stands.begin, stands.needed, stands.executed) == (None, None, gtids(20))


def test_a_copy_of_no_tables_is_shown_by_any_later_cut(control: Control) -> None:
    """An empty source: nothing of it can be in a cut."""
    record_copy(control, Copy(gtids(20), {}, {}, until=gtids(20)))
    assert standing(control).copy is not None
    cut(control, 5, other="t/other")
    assert standing(control).copy is None


def test_a_copy_that_was_given_up_is_not_shown(control: Control) -> None:
    copy = Copy(gtids(20), {"t.a": ()}, {"t.a": "t/a@2"}, until=gtids(30))
    record_copy(control, replace(copy, error="given up"))
    CatchUp(copy).cut_published(control)
    found = last_copy(control)
    assert found is not None and (found.shown, found.error) == (False, "given up")
    record_copy(control, copy)
    CatchUp(copy).cut_published(control)
    found = last_copy(control)
    assert found is not None and found.shown


def test_the_first_cut_of_a_copy_lies_where_the_log_begins(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log")
    log.rotate()
    (log.folder / "bin.000001").unlink()
    relay, tables = open_log(str(log.folder)), {"t.a": TableVersion("t/a", 1, "m", 0)}
    found = first_cut(relay, LogIdentity("log", 40, {}), gtids(5), tables)
    begin = RelayPosition(42, log.path.stat().st_size)
    assert (found.position, found.gtid_executed) == (begin.packed, str(gtids(5)))
    assert (found.log_id, found.tables) == ("log", tables)


def test_a_copy_of_all_tables_must_fit_the_log() -> None:
    copy = Copy(gtids(20), {}, {})
    with pytest.raises(HistoryError, match="not finished"):
        check_log(copy, gtids(20), "relay")
    done = replace(copy, until=gtids(30))
    for before in (19, 20):
        check_log(done, gtids(before), "relay")
    with pytest.raises(HistoryError, match=f"missing between the copy and the log: {_UUID}:21"):
        check_log(done, gtids(21), "relay")


def test_until_its_high_water_mark_a_copy_is_applied_idempotently() -> None:
    exact = {"t.b": gtids(25)}
    copy = Copy(gtids(20), {"t.a": (), "t.b": ()}, {}, held=gtids(21), exact=exact)
    done = CatchUp(replace(copy, until=gtids(30)))
    assert done.tables(gtids(29)) == {"t.a"} and done.held(gtids(29)) == exact
    assert not done.tables(gtids(30)) and not done.held(gtids(30))
    assert done.copied == gtids(21)
    first = Cut(5, "", "log", {}, {})
    assert not CatchUp(replace(copy, until=gtids(30), behind=first)).copied, "the others need it"
    for none in (CatchUp(None), CatchUp(copy)):
        assert not none.active(gtids(1)) and not none.tables(gtids(1)) and not none.copied


def test_tables_without_rows_are_on_record(control: Control) -> None:
    """Nothing comes twice to them: they are not applied as the tables that were read."""
    names, paths = ("t.a", "t.b"), {"t.a": "t/a", "t.b": "t/b"}
    copy = Copy(
        gtids(3), dict.fromkeys(names, ()), paths, held=gtids(3), until=gtids(9),
        exact={"t.a": gtids(3)}, without_rows=("t.a",),
    )  # fmt: skip
    record_copy(control, copy)
    last = last_copy(control)
    assert last is not None and last.without_rows == ("t.a",)
    assert CatchUp(last).tables(gtids(5)) == {"t.b"}
    assert CatchUp(last).held(gtids(5)) == {"t.a": gtids(3)}


def broken(fd: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_folders_of_replaced_tables_go_when_nothing_names_them(
    control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(str(tmp_path))
    for path in ("t/a", "t/a@2", "t/a@3", "t/b"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / "_repl/keys" / path).mkdir(parents=True)
    made(control, "a", "t/a")
    made(control, "b", "t/b")
    first = cut(control, 5, a="t/a", b="t/b")

    def removed(hours_later: float = 0) -> list[str]:
        for noted in (tmp_path / "_repl/replaced").glob("*/*"):
            os.utime(noted, (0, time.time() - 3600 * hours_later))
        return remove_replaced(control, layout, 2, DurabilityBarrier(control, layout))

    record_copy(control, Copy(gtids(5), {}, {"t.a": "t/a@2"}, behind=first, error="it is gone"))
    assert replaced_paths(control) == {"t/a@2"}
    copy = Copy(gtids(5), {}, {"t.a": "t/a@3"}, behind=first)
    record_copy(control, copy)  # at work
    record_copy(control, replace(copy, until=gtids(6)))
    assert replaced_paths(control) == {"t/a@2"}, "the applier goes back to the cut with t/a"
    cut(control, 6, a="t/a@3", b="t/b")
    note_shown(control)
    assert replaced_paths(control) == {"t/a@2"}, "t/a is in a cut that is promised"
    control._pruned = -1_000_000
    assert control.prune(PruneBy(Retention(0, 0, 0)), DurabilityBarrier(control, layout))
    assert replaced_paths(control) == {"t/a", "t/a@2"}
    assert removed() == [] and removed(1.9) == [] and removed(-9) == []
    assert removed(1.9) == [], "a note from ahead, of a clock that was wrong, was made again"
    cut(control, 7, a="t/a@3", b="t/b")
    with pytest.raises(OSError), monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)  # the cuts that don't name it are not on the disk
        removed(2.1)
    assert (tmp_path / "t/a").exists()
    notes = [tmp_path / "_repl" / kind / "t/a" for kind in ("vacuumed", "durable", "replaced")]
    for note in notes[:2]:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    with pytest.raises(_KilledError), listening(_killed):
        removed(2.1)  # ended right behind the removal of the folder
    assert not (tmp_path / "t/a").exists() and all(note.exists() for note in notes)
    assert gone_paths(control, layout) == {"t/a"}
    assert not any(note.exists() for note in notes)
    assert removed(2.1) == ["t/a@2"] and removed(9) == []
    assert {p.name for p in (tmp_path / "t").iterdir()} == {"a@3", "b"}
    assert {p.name for p in (tmp_path / "_repl/keys/t").iterdir()} == {"a@3", "b"}
    assert gone_paths(control, layout) == {"t/a", "t/a@2"}
    assert not any((tmp_path / "_repl/replaced/t").iterdir())


def test_a_table_of_a_person_at_the_path_of_a_copy_stays(
    control: Control, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It came there before the copy's own was made."""
    layout, folder = Layout(str(tmp_path)), tmp_path / "t" / "a@2"
    made(control, "a", "t/a")
    first = cut(control, 5, a="t/a")
    record_copy(control, Copy(gtids(5), {}, {"t.a": "t/a@2"}, behind=first, error="not a copy's"))
    write_deltalake(str(folder), pa.table({"mine": [1]}))
    noted = tmp_path / "_repl/replaced/t/a@2"
    for warnings in (0, 1, 1):  # once in so many hours
        assert remove_replaced(control, layout, 2, DurabilityBarrier(control, layout)) == []
        assert caplog.text.count("was not made by an applier") == warnings
        if not warnings:
            os.utime(noted, (0, time.time() - 3600 * 3))
    assert folder.exists()


class _KilledError(BaseException):
    """Nothing is cleaned up behind it."""


def _killed(point: str) -> None:
    if point == "replaced_removed":
        raise _KilledError


def test_a_copy_begins_behind_the_newest_cut(control: Control, tmp_path: Path) -> None:
    """While the source is asked a cut is published, and the log before it purged."""
    made(control, "a", "t/a")
    cut(control, 5, a="t/a")

    def plan(config: Config, control: Control, only: object, behind: Cut) -> Copy:
        cut(control, 7, a="t/a")
        return Copy(gtids(5), {"t.a": ()}, {"t.a": "t/a@2"}, behind=behind)

    config = Config().override(
        {"relay.path": str(tmp_path / "relay"), "target.path": str(tmp_path)}
    )
    copy = copy_plan.plan_again(config, control, ("t.a",), asks=plan)
    assert copy.behind and (copy.behind.position, copy.start) == (7, gtids(7))
    stands = standing(control)
    assert stands.needed and stands.needed.position == 7


def test_a_purge_and_a_copy_that_begins_wait_for_each_other(tmp_path: Path) -> None:
    log, folder, entered = LogWriter(tmp_path / "log"), tmp_path / "relay", threading.Event()
    log.ddl("CREATE DATABASE t")
    with RelayWriter(folder, 9) as writer:
        receive(writer, [log.path])

    def decide() -> None:
        with deciding(folder):
            entered.set()

    with deciding(folder):
        other = threading.Thread(target=decide)
        other.start()
        assert not entered.wait(0.2)
    assert entered.wait(60)
    other.join()
    files = sorted(log.folder.iterdir())
    with deciding(log.folder):
        assert sorted(log.folder.iterdir()) == files, "nothing is written into a recorded folder"


class Announcing(Control):
    """``meanwhile``: what another thread does behind the next look at the tables announced."""

    meanwhile: Callable[[], None] | None = None

    def rows(self, kind: str) -> list[dict[str, Any]]:
        found = super().rows(kind)
        if kind == "table" and (now := self.meanwhile) is not None:
            self.meanwhile = None
            now()
        return found


def test_a_table_that_is_announced_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """The applier makes tables while upkeep looks for those that nothing names: its row would be
    forgotten, with what statements make of the table then."""
    layout = Layout(str(tmp_path))
    control = Announcing(layout.control)
    control.claim()
    cut(control, 5)
    control.meanwhile = lambda: announce(control, "t.a", "t/a", 6, "made")
    assert gone_paths(control, layout) == set()
    assert current_paths(control) == {"t.a": "t/a"}
    control._pruned = -1_000_000
    control.meanwhile = lambda: announce(control, "t.b", "t/b", 7, "made")
    assert control.prune(
        PruneBy(Retention(0, 0, 0)),
        DurabilityBarrier(control, layout),
        lambda: gone_paths(control, layout),
    )
    assert current_paths(control).keys() == {"t.a", "t.b"}
