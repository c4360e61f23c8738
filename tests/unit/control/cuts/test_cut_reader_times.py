"""Cuts by time, and waiting for the cut that holds what a reader has written itself."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from spark_repl import wait_for
from spark_repl.control.cuts.cut_reader import find_cut
from spark_repl.control.records.retention import pin
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConfigError, TargetError

UUID = "11111111-2222-3333-4444-555555555555"
SECOND = timedelta(seconds=1)


def numbered(number: int) -> Cut:
    return Cut(number, f"{UUID}:1-{number}", "log", {}, {})


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def control(target: str) -> Control:
    made = Control(Layout(target).control)
    made.claim()
    for number in (3, 5, 8):
        made.publish(numbered(number))
        time.sleep(0.01)  # two cuts have two times of publication
    return made


def at(control: Control, position: int) -> datetime:
    found = next(cut.at for cut in control.cuts() if cut.position == position)
    assert found is not None
    return found


@pytest.mark.parametrize("position", [3, 5, 8])
def test_the_last_one_that_was_published_by_then(control: Control, position: int) -> None:
    exactly = at(control, position)
    assert find_cut(control, exactly.isoformat()).position == position
    just_before_the_next = at(control, {3: 5, 5: 8}.get(position, 8)) - timedelta(microseconds=1)
    if position < 8:
        assert find_cut(control, just_before_the_next.isoformat()).position == position


def test_times_in_any_zone_and_without_one(control: Control) -> None:
    there = at(control, 5).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert find_cut(control, there.isoformat()).position == 5
    plain = at(control, 5).astimezone(UTC).replace(tzinfo=None)
    assert find_cut(control, plain.isoformat(sep=" ")).position == 5
    assert find_cut(control, f"{plain.isoformat()}Z").position == 5
    tomorrow = (at(control, 8) + timedelta(days=1)).date()
    assert find_cut(control, str(tomorrow)).position == 8


def test_nothing_from_so_long_ago_is_kept(control: Control) -> None:
    with pytest.raises(TargetError, match="no cut that was published by") as found:
        find_cut(control, (at(control, 3) - SECOND).isoformat())
    assert at(control, 3).isoformat() in (found.value.hint or "")


@pytest.mark.parametrize("text", ["2026-13-01", "2026-11-24T25:00", "2026-11-24 noon"])
def test_what_begins_like_a_time_and_is_none(control: Control, text: str) -> None:
    with pytest.raises(ConfigError, match="is no time"):
        find_cut(control, text)


def test_a_set_whose_uuid_begins_with_digits_is_no_time(control: Control) -> None:
    with pytest.raises(TargetError, match="no cut holds all"):
        find_cut(control, "20261124-1111-2222-3333-444444444444:1")


@pytest.mark.parametrize("name", ["month_end", "yesterday", "dec.31-b"])
def test_a_name_that_no_cut_has(control: Control, name: str) -> None:
    pin(control, control.cuts()[0], "month")
    with pytest.raises(TargetError, match=f"no cut is pinned as {name}") as raised:
        find_cut(control, name)
    assert raised.value.hint == "pinned are: month"


def test_no_pin_is_called_what_is_found_otherwise(control: Control) -> None:
    with pytest.raises(ConfigError, match="is no name of a cut"):
        pin(control, control.cuts()[0], "latest")


def test_a_cut_that_is_there_is_not_waited_for(control: Control, target: str) -> None:
    assert wait_for(target, f"{UUID}:2-7", timeout_s=0).position == 8
    assert wait_for(target, "", timeout_s=0).position == 8


def test_a_cut_that_comes_meanwhile(control: Control, target: str) -> None:
    def publish() -> None:
        time.sleep(0.3)  # the reader has begun to wait
        control.publish(numbered(9))
        control.publish(numbered(11))

    publishing = threading.Thread(target=publish)
    publishing.start()
    assert wait_for(target, f"{UUID}:10", timeout_s=60).position == 11
    publishing.join()


def test_a_wait_in_vain_names_the_missing_gtids(control: Control, target: str) -> None:
    with pytest.raises(TargetError, match=f"no cut holds {UUID}:9-10 after 0.1 s") as found:
        wait_for(target, f"{UUID}:1-10", timeout_s=0.1)
    assert "status" in (found.value.hint or "")
    control.release()
    with pytest.raises(TargetError, match="no applier works on the target"):
        wait_for(target, f"{UUID}:1-10", timeout_s=0)


def test_a_wait_before_the_first_cut_is_an_error(target: str) -> None:
    with pytest.raises(TargetError, match="nothing has been applied"):
        wait_for(target, f"{UUID}:1", timeout_s=0)
    Control(Layout(target).control).claim()
    with pytest.raises(TargetError, match=f"no cut holds {UUID}:1 after"):
        wait_for(target, f"{UUID}:1", timeout_s=0)


@pytest.mark.parametrize(
    ("gtids", "seconds"), [("nonsense", 1.0), (f"{UUID}:1", -1.0), (f"{UUID}:1", float("nan"))]
)
def test_malformed_waits_are_refused(
    control: Control, target: str, gtids: str, seconds: float
) -> None:
    with pytest.raises(ConfigError):
        wait_for(target, gtids, seconds)


@pytest.mark.parametrize(
    "time", ["14:00", "9:05", "14:00:30", "14:00:30.25", "14:00Z", "14:00+01:00"]
)
def test_a_time_without_a_date_is_no_gtid_set(control: Control, time: str) -> None:
    with pytest.raises(ConfigError, match=f"'{re.escape(time)}' has no date") as caught:
        find_cut(control, time)
    assert caught.value.hint is not None
    example = caught.value.hint.removeprefix("such as ")
    assert example.endswith(time.zfill(len(time) + (time[1] == ":")))
    with pytest.raises(TargetError, match="no cut"):
        find_cut(control, "2000-01-01T" + example.partition("T")[2])
