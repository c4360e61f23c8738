"""Threads beside the stream: what may pass is tried again, any other end is seen by the owner."""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.apply.start.replica import Replica
from spark_repl.config import Config
from spark_repl.control.records.copies import Copy, last_copy, record_copy
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy import recopy
from spark_repl.copy.recopy import Recopier, ask, ask_and_wait, check_answers
from spark_repl.copy.repair_request import RepairRequest
from spark_repl.delta.log.log_state import newest_version
from spark_repl.errors import LogError, NoTableError, SourceError, SparkReplError, TargetError
from spark_repl.gtid import GtidSet
from spark_repl.relay.file_list import replace_file
from spark_repl.runtime.companion import Companion
from spark_repl.runtime.retry import temporary
from spark_repl.service import applied_purge
from spark_repl.service.applied_purge import watch
from spark_repl.service.supervisor import Supervisor, wait_for_log
from spark_repl.service.table_repairs import repair_table
from tests.support.binlog_writer import SOURCE, LogWriter, Table, insert
from tests.support.local_delta import applier, at_once
from tests.support.wait_until import wait_until

A = Table("a")


def ended(turn: Callable[[], bool], attempts: int = 3) -> list[SparkReplError]:
    heard: list[SparkReplError] = []
    companion = Companion("watch", turn, heard.append, pause_s=0.0, attempts=attempts, wait=at_once)
    with companion:
        companion.join(60)
        assert not companion._thread.is_alive()
    return heard


def test_a_turn_that_waits_ends_with_it() -> None:
    begun, ends = threading.Event(), list[bool]()

    def turn() -> bool:
        begun.set()
        companion.stop.wait(60)
        ends.append(companion.stop.is_set())
        return True

    companion = Companion("watch", turn, lambda error: None, pause_s=60, attempts=0)
    with companion:
        assert begun.wait(60) and not companion.stop.is_set()
        companion.stop.set()
        companion.join(60)
    assert ends == [True] and not companion._thread.is_alive()


def test_a_temporary_error_of_a_companion_is_retried() -> None:
    turns = [0]

    def turn() -> bool:
        turns[0] += 1
        if turns[0] % 4:
            raise OSError(errno.EIO, "Input/output error")
        return turns[0] < 20

    assert not ended(turn)
    assert turns == [20]
    (error,) = ended(turn, attempts=2)
    assert isinstance(error, TargetError)
    assert "the watch tried again 2 time(s) in vain" in error.message


@pytest.mark.parametrize("error", [KeyError("x"), OSError(errno.EISDIR, "a"), MemoryError()])
def test_any_other_end_of_a_companion_is_raised(error: BaseException) -> None:
    def turn() -> bool:
        raise error

    (heard,) = ended(turn)
    assert heard.__cause__ is error
    assert "the watch has ended" in heard.message and type(error).__name__ in heard.message
    assert heard.hint


def test_an_error_with_a_name_keeps_it() -> None:
    error = LogError("damaged", file="relay.000001")

    def turn() -> bool:
        raise error

    assert ended(turn) == [error]


# What reading the control table says.


@pytest.fixture
def control(tmp_path: Path) -> Control:
    found = Control(Layout(str(tmp_path / "lake")).control)
    found.claim()
    found.write("x")
    found.write("y")
    return found


def test_a_log_that_can_not_be_read_is_named(control: Control) -> None:
    entry = Path(control.path) / "_delta_log" / f"{2:020d}.json"
    entry.write_text("no JSON")
    with pytest.raises(TargetError, match="version 2 of the table's log is damaged") as caught:
        Control(control.path).rows("x")
    assert caught.value.file == str(entry)
    assert (
        caught.value.hint
        == "nothing but the applier writes there: put that folder back from a backup"
    )


def test_too_many_open_files_bear_their_number(control: Control) -> None:
    """Of a reader, as of a writer: delta-rs gives an OSError without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    other, held = Control(control.path), list[int]()
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    try:
        with pytest.raises(OSError, match="Too many open files") as caught:
            other.rows("x")
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert caught.value.errno == errno.EMFILE and temporary(caught.value)
    assert len(other.rows("x")) == 1


# The threads of `run`.


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Replica]:
    log = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", A.create):
        log.ddl(statement)
    log.transaction(insert(A, (1, "a")))
    with applier(log.folder, tmp_path / "lake", transaction_retries=3) as found:
        found.coordinator.apply(found.index.slice(0, found.index.end))
        yield found


def raised(found: Replica) -> BaseException:
    """What ends ``apply``, which some thread beside it has stopped."""
    wait_until(lambda: found._beside is not None)
    with pytest.raises(SparkReplError) as caught:
        found.apply(follow=True)
    return caught.value


@contextmanager
def broken(found: Replica) -> Iterator[None]:
    """The control table can't be read, and not because of something that passes: not by who has
    read what there was before, either."""
    folder = Path(found.tracking.control.path) / "_delta_log"
    damage = Path(found.config.target.path) / "damage"
    damage.write_bytes(b"no JSON")
    newest = newest_version(str(folder.parent))
    for version in range(newest + 1, newest + 9):  # upkeep may commit meanwhile
        entry = folder / f"{version:020d}.json"
        with suppress(FileExistsError):
            entry.hardlink_to(damage)  # whole at once: an empty commit would be no damage
            break
    yield
    entry.unlink()


def no_copy(*_: object, **__: object) -> Any:
    raise AssertionError("nothing is to be copied")


@contextmanager
def recopying(
    running: Replica, plan: Callable[..., Copy] = no_copy, copy: Callable[..., Any] = no_copy
) -> Iterator[Recopier]:
    """Beside the applier, while the block lasts."""
    with Recopier(running.spark, running.config, running, plan=plan, copy=copy) as found:
        yield found
        assert found._thread.is_alive() or running._beside is not None, "gone, and nobody heard"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recopy, "_POLL_S", 0.01)


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"tables": 3}'])
def test_a_request_that_is_none(running: Replica, text: str) -> None:
    with recopying(running) as recopier:
        recopier._queue.folder.mkdir(parents=True, exist_ok=True)
        (recopier._queue.folder / "0.json").write_text(text)
        wait_until(lambda: not recopier._queue.requests())
        assert recopier._thread.is_alive()


def test_a_copy_that_fails_is_told_and_the_applier_goes_on(running: Replica) -> None:
    """Whatever it is: without this the thread was gone, and who asked waited for ever."""
    behind = running.tracking.control.cuts()[-1]

    def planned(
        config: Config, control: Control, tables: tuple[str, ...], asked: str, **_: object
    ) -> Copy:
        copy = Copy(GtidSet(), dict.fromkeys(tables, ()), {}, behind=behind, asked=asked)
        record_copy(control, copy)
        return copy

    def copied(*_: object, **__: object) -> None:
        raise KeyError("add")

    with recopying(running, planned, copied) as recopier:
        with pytest.raises(TargetError, match="given up: KeyError: 'add'"):
            ask_and_wait(running.config, ("t.a",))
        assert recopier._thread.is_alive() and running._beside is None
    assert not running.opened.pipeline.xa.store._keep_all


def test_a_request_that_was_answered_before_a_kill_is_not_carried_out_again(
    running: Replica,
) -> None:
    name = ask(running.config, ("t.a",))
    record_copy(running.tracking.control, Copy(GtidSet(), {"t.a": ()}, {}, error="no", asked=name))
    planned = list[Any]()
    with recopying(running, lambda *args, **_: planned.append(args)) as recopier:
        wait_until(lambda: not recopier._queue.requests())
    assert planned == []


def test_an_applier_that_carries_out_no_requests_says_so(running: Replica) -> None:
    """``apply`` carries out no requests: the user gets an error with a hint, and the request does
    not stay."""
    with pytest.raises(TargetError, match="copies and repairs nothing") as caught:
        ask_and_wait(running.config, ("t.a",))
    assert "spark-repl run" in str(caught.value.hint)
    request = RepairRequest("t.a", ("id = 1",), ("id int32",), pa.table({"digest": [1]}))
    with pytest.raises(TargetError, match="copies and repairs nothing"):
        repair_table(running.config, request, no_copy)
    assert list(Path(Layout.of(running.config.target).requests).iterdir()) == []


def test_what_a_killed_run_has_read_for_a_request_goes_with_it(running: Replica) -> None:
    left = Path(Layout.of(running.config.target).requests, "1.read", "1.arrow")
    left.parent.mkdir(parents=True)
    left.touch()
    with pytest.raises(TargetError, match="copies and repairs nothing"):
        check_answers(running.config, running.tracking.control.epoch, "1.repair")
    assert not left.parent.exists()


def test_one_of_a_version_before_is_waited_for(running: Replica) -> None:
    """It does not say whether it carries out requests; neither does another owner's status."""
    status = Path(Layout.of(running.config.target).status)
    epoch, said = running.tracking.control.epoch, json.loads(status.read_text())
    assert said["answers"] is False
    check_answers(running.config, epoch + 1, "x")
    del said["answers"]
    status.write_text(json.dumps(said))
    check_answers(running.config, epoch, "x")


def test_who_asks_hears_of_his_own_request(running: Replica) -> None:
    """Not of another's copy of the same tables, whatever two hosts' clocks say."""
    other = Copy(GtidSet(), {"t.a": ()}, {}, error="another's", asked="other")

    def planned(
        config: Config, control: Control, tables: tuple[str, ...], asked: str, **_: object
    ) -> Copy:
        record_copy(control, other)
        time.sleep(0.1)  # whoever waits for the request looks at the other copy
        raise TargetError("mine")

    with recopying(running, planned), pytest.raises(TargetError, match="given up: mine"):
        ask_and_wait(running.config, ("t.a",))


def test_new_copies_that_can_not_be_made_stop_the_applier(running: Replica) -> None:
    folder = Path(Layout.of(running.config.target).requests)
    folder.mkdir(exist_ok=True)
    with recopying(running), broken(running):
        # Whole at once: an empty file would be no request, and removed.
        replace_file(folder / "1.json", b'{"tables": ["t.a"]}')
        error = raised(running)
    assert isinstance(error, TargetError)
    assert "of the table's log is damaged" in error.message


def test_a_watch_that_can_not_see_stops_the_applier(
    running: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied_purge, "_PURGE_EVERY_S", 0.0)
    with broken(running), watch(Supervisor(running.config, "none.toml"), running):
        assert "of the table's log is damaged" in str(raised(running))


def test_a_watch_continues_after_temporary_errors(
    running: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied_purge, "_PURGE_EVERY_S", 0.0)
    faults = [OSError(errno.EIO, "Input/output error")] * 3

    def purged(config: Config, control: Control, make_durable: Any) -> Any:
        if faults:
            raise faults.pop()
        return applied_purge.purge_applied(config, control, make_durable)

    receiver = Supervisor(running.config, "none.toml")
    with watch(receiver, running, purge=purged, wait=at_once):
        wait_until(lambda: not faults)
        receiver.error = SourceError("refused")
        wait_until(running._stop.is_set)
    assert running._beside is None


def test_a_receiver_that_can_not_be_started_is_named(
    running: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this `run` waited for its log for ever."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    config = running.config.override({"relay.path": str(tmp_path / "relay")})
    raises = pytest.raises(SparkReplError, match="FileNotFoundError")
    with Supervisor(config, "none.toml") as receiver, raises as caught:
        wait_for_log(config, receiver, threading.Event(), print)
    assert "thread that keeps the receiver" in caught.value.message


def missing(executed: str, table: str = "t.a") -> NoTableError:
    return NoTableError(f"the source has no table {table}", table=table).as_of(executed)


def test_a_table_that_was_renamed_meanwhile_is_asked_for_again(running: Replica) -> None:
    """Once the applier has passed the statement: it may be back, or gone from the cut too."""
    turns, ahead = list[int](), f"{SOURCE}:1-99"

    def planned(
        config: Config, control: Control, tables: tuple[str, ...], asked: str, **_: object
    ) -> Copy:
        turns.append(len(turns))
        if len(turns) < 3:
            raise missing(ahead)
        copy = Copy(GtidSet(), dict.fromkeys(tables, ()), {}, asked=asked, error="planned")
        record_copy(control, copy)
        return copy

    with recopying(running, planned):
        asked = ask(running.config, ("t.a",))
        wait_until(lambda: (copy := last_copy(running.tracking.control)) and copy.asked == asked)
    copy = last_copy(running.tracking.control)
    assert len(turns) == 3 and copy is not None and copy.error == "planned"


@pytest.mark.parametrize("executed, table", [("", "t.a"), (f"{SOURCE}:1-99", "t.never")])
def test_a_table_that_the_source_does_not_have_is_told_at_once(
    running: Replica, executed: str, table: str
) -> None:
    """The cut holds all that the source had, or has never had such a table either."""

    def planned(*_: object, **__: object) -> Copy:
        raise missing(executed, table)

    with recopying(running, planned):
        asked = ask(running.config, (table,))
        wait_until(lambda: (copy := last_copy(running.tracking.control)) and copy.asked == asked)
    assert (copy := last_copy(running.tracking.control))
    assert copy.error.startswith(f"the source has no table {table}")
