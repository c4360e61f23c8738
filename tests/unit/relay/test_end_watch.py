"""How a reader at the hot end learns that something was published, and what it does meanwhile."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.position import RelayPosition
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay import end_watch
from spark_repl.relay.end_watch import EndWatch
from spark_repl.relay.published_end import NAME, End, EndWriter
from spark_repl.runtime.spark_release import ReadMaxBytes
from tests.support.binlog_writer import LogWriter, insert
from tests.support.dump_stream import receive
from tests.support.relay_reader import T, ask, read, reader_of, take_away
from tests.support.wait_until import wait_until

_LONG_S = 120.0


def publish(folder: Path, offset: int) -> None:
    writer = EndWriter(folder)
    writer.publish(End("0" * 32, RelayPosition(1, offset), 1))
    writer.close()


def later(do: Callable[[], object], seconds: float = 0.05) -> threading.Timer:
    timer = threading.Timer(seconds, do)
    timer.start()
    return timer


class Watch(EndWatch):
    """``looks``: when the record of the end was looked at."""

    def __init__(self, folder: Path, stopped_by: Path | None = None) -> None:
        self.looks = list[float]()
        super().__init__(folder, stopped_by)

    def _moved(self) -> bool:
        self.looks.append(time.monotonic())
        return super()._moved()


@pytest.mark.parametrize("begun", [True, False])
def test_woken_by_a_publication_and_not_by_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """Also the first one of a log that was not there."""
    if begun:
        monkeypatch.setattr(end_watch, "_LOOK_S", _LONG_S)
        publish(tmp_path, 1)
    with Watch(tmp_path) as watch:
        assert watch.wait(0) is begun
        assert not watch.wait(0)
        watch.looks.clear()

        def publish_after_the_first_look() -> None:
            wait_until(lambda: watch.looks)
            publish(tmp_path, 2)

        timer = later(publish_after_the_first_look)
        began = time.monotonic()
        assert watch.wait(_LONG_S)
        assert time.monotonic() - began < _LONG_S / 2
        assert not begun or len(watch.looks) == 2
        timer.join()


def test_what_is_published_between_two_waits_is_not_missed(tmp_path: Path) -> None:
    # Scenario 93: a signal that nobody waited for.
    publish(tmp_path, 1)
    with EndWatch(tmp_path) as watch:
        assert watch.wait(0)
        publish(tmp_path, 2)
        assert watch.wait(0) and not watch.wait(0)


def test_a_new_log_is_seen_where_the_record_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_watch, "_LOOK_S", 0.01)
    publish(tmp_path, 1)
    with EndWatch(tmp_path) as watch:
        assert watch.wait(0)
        (tmp_path / NAME).unlink()
        assert not watch.wait(0.05)
        monkeypatch.setattr(end_watch, "_LOOK_S", _LONG_S)
        publish(tmp_path, 9)
        assert watch.wait(_LONG_S)
        timer = later(lambda: publish(tmp_path, 10))
        began = time.monotonic()
        assert watch.wait(_LONG_S) and time.monotonic() - began < _LONG_S / 2
        timer.join()


@pytest.mark.parametrize(("local", "most"), [(True, 4), (False, 60)])
def test_an_idle_reader_does_not_look_more_often_than_it_has_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool, most: int
) -> None:
    """Each second; where another machine may write every 4 ms, so a median of 2 ms."""
    if not local:
        monkeypatch.setattr(end_watch, "_LOCAL", ())
    publish(tmp_path, 1)
    with Watch(tmp_path) as watch:
        assert watch.wait(0)
        watch.looks.clear()
        assert not watch.wait(0.2)
    assert 2 <= len(watch.looks) <= most
    assert end_watch._BLIND_LOOK_S <= 0.005 and end_watch._REST_S <= 0.005


@pytest.mark.parametrize("local", [True, False])
def test_who_waits_is_stopped_by_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """Nor does one wait that begins while it is there; what is published is seen nevertheless."""
    monkeypatch.setattr(end_watch, "_LOOK_S", _LONG_S)
    if not local:
        monkeypatch.setattr(end_watch, "_LOCAL", ())
    stop = tmp_path / "state" / "stopping"
    stop.parent.mkdir()
    publish(tmp_path, 1)
    with EndWatch(tmp_path, stop) as watch:
        assert watch.wait(0)
        timer, began = later(stop.touch), time.monotonic()
        assert not watch.wait(_LONG_S) and not watch.wait(_LONG_S)
        assert time.monotonic() - began < _LONG_S / 2
        timer.join()
        publish(tmp_path, 2)
        assert watch.wait(_LONG_S)
        copy = pickle.loads(pickle.dumps(watch))
        assert copy.wait(0) and not copy.wait(_LONG_S)


def test_many_publications_are_seen_together(tmp_path: Path) -> None:
    """No two wake-ups within the rest, however quickly the receiver publishes."""
    ending = threading.Event()

    def busy() -> None:
        offset = 0
        while not ending.is_set():
            publish(tmp_path, offset := offset + 1)

    thread = threading.Thread(target=busy)
    thread.start()
    with EndWatch(tmp_path) as watch:
        until, woken = time.monotonic() + 0.2, 0
        while time.monotonic() < until:
            woken += watch.wait(_LONG_S)
    ending.set()
    thread.join()
    assert 1 <= woken <= 0.2 / end_watch._REST_S + 2


def test_a_stream_waits_as_long_as_its_option_says(
    relay: Path, source: LogWriter, tmp_path: Path
) -> None:
    """The option decides how long it waits; it does not wait for a log that no receiver writes."""
    reader = reader_of(relay, tmp_path, waitMs=str(int(_LONG_S * 1000)))
    end = ask(reader, reader.initialOffset())
    source.transaction(insert(T, (100, "new")))

    def write() -> None:
        with RelayWriter(relay, 4711) as writer:
            receive(writer, sorted(source.folder.iterdir()))

    timer, began = later(write), time.monotonic()
    found = ask(reader, end)
    while found == end:  # an end was published, of nothing new: the receiver's start
        found = ask(reader, end)
    assert found["position"] > end["position"] and time.monotonic() - began < _LONG_S / 2
    timer.join()
    reader.prepareForTriggerAvailableNow()
    assert ask(reader, found) == found
    recorded = reader_of(source.folder, tmp_path / "own", waitMs=str(int(_LONG_S * 1000)))
    last = ask(recorded, recorded.initialOffset())
    assert ask(recorded, last) == last
    assert time.monotonic() - began < _LONG_S
    take_away(relay)


def test_a_stream_takes_the_published_end(relay: Path, source: LogWriter, tmp_path: Path) -> None:
    """Without a look at what is before it, unless its limit is nearer; and waits for the next."""
    looks, reader = reader_of(relay, tmp_path), reader_of(relay, tmp_path, end="published")
    first = reader.initialOffset()
    end = ask(reader, first)
    assert end == ask(looks, first) == reader.reportLatestOffset() and reader._known is None
    assert read(reader, first, end) == read(looks, first, end) and ask(reader, end) == end
    with RelayWriter(relay, 4711) as writer:
        source.transaction(insert(T, (100, "new")))
        receive(writer, sorted(source.folder.iterdir()))
    came = read(reader, end, later := ask(reader, end))
    assert len(came) == 1 and came == read(looks, end, ask(looks, end))
    assert reader.latestOffset(first, ReadMaxBytes(10**6))["position"] == later["position"]
    assert reader.latestOffset(first, ReadMaxBytes(1)) == looks.latestOffset(first, ReadMaxBytes(1))
    reader.prepareForTriggerAvailableNow()
    assert ask(reader, first)["position"] <= later["position"]
    recorded = reader_of(source.folder, tmp_path / "own", end="published")
    begin = recorded.initialOffset()
    assert read(recorded, begin, ask(recorded, begin))[-1:] == came


def test_a_reader_with_a_watch_is_pickled(relay: Path, tmp_path: Path) -> None:
    """Spark sends the reader to its executors."""
    reader = reader_of(relay, tmp_path)
    first = reader.initialOffset()
    reader._watch.wait(0)
    copy = pickle.loads(pickle.dumps(reader))
    assert copy._watch._fd == -1 and copy._lease._fd == -1
    end = ask(reader, first)
    assert len([part for one in copy.partitions(first, end) for part in copy.read(one)]) == 1


def test_a_touch_wakes_a_watch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is as it was: it looks, and sleeps again."""
    monkeypatch.setattr(end_watch, "_LOOK_S", _LONG_S)
    publish(tmp_path, 1)
    stop = tmp_path / "state" / "stopping"
    stop.parent.mkdir()
    with Watch(tmp_path, stop) as watch:
        assert watch.wait(0)
        watch.looks.clear()

        def touch_and_stop() -> None:
            wait_until(lambda: watch.looks)
            os.utime(tmp_path / NAME)
            wait_until(lambda: len(watch.looks) > 1)
            stop.touch()

        timer, began = later(touch_and_stop, 0), time.monotonic()
        assert not watch.wait(_LONG_S)
        timer.join()
        assert 1 < len(watch.looks) < 7 and time.monotonic() - began < _LONG_S / 2


def test_no_child_inherits_what_it_watches_by(tmp_path: Path) -> None:
    """A receiver's, or Java's, life does not keep it open."""

    def watches() -> list[int]:
        fds = [int(fd) for fd in os.listdir("/proc/self/fd")]
        shown = {
            fd: os.readlink(f"/proc/self/fd/{fd}")
            for fd in fds
            if os.path.islink(f"/proc/self/fd/{fd}")
        }
        return [fd for fd, name in shown.items() if "inotify" in name]

    before = watches()
    publish(tmp_path, 1)
    with EndWatch(tmp_path) as watch:
        watch.wait(0)
        (fd,) = set(watches()) - set(before)
        assert not os.get_inheritable(fd) and not os.get_blocking(fd)
    assert {*watches()} <= {*before}
