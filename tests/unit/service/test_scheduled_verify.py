"""A scheduled verify: when one is due, also behind a restart, and that none that fails stops more
than itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl import Config
from spark_repl.observe.reports.applier_status import Notice
from spark_repl.observe.reports.verify_status import write_verify_status
from spark_repl.service import command_process
from spark_repl.service.scheduled_verify import ScheduledVerify
from tests.support.wait_until import wait_until

_FOUND = {"differing": 2, "undecided": 0, "rows": 9, "tables": 1, "not_compared": {}}


class Started:
    """What was started in the place of a verify: a process that does nothing, with code 0 or 1;
    with -1 there is none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands, self.code = list[list[str]](), 0
        original = subprocess.Popen

        def begin(command: list[str], **more: Any) -> Any:
            if self.code < 0:
                raise OSError("no more processes")
            self.commands.append(command)
            return original([sys.executable, "-c", f"raise SystemExit({self.code})"], **more)

        monkeypatch.setattr(command_process.subprocess, "Popen", begin)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


NOTES = list[Notice | None]()


def made(target: Path, hours: int = 2) -> ScheduledVerify:
    """Whose last note is in NOTES."""
    config = Config().override({"target.path": str(target), "observe.verify_hours": hours})
    NOTES.clear()
    return ScheduledVerify(config, "my.toml", lambda error: None, NOTES.append)


def turned(one: ScheduledVerify) -> None:
    """Until what was started has ended, and that was seen."""

    def has_ended() -> bool:
        one.turn()
        return one._process is None

    wait_until(has_ended)


def age(target: Path, hours: float) -> None:
    at = time.time() - hours * 3600
    os.utime(target / "_repl" / "verify" / "scheduled", (at, at))


def test_one_is_due_when_the_hours_are_over(
    started: Started, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    turned(made(tmp_path))
    turned(made(tmp_path))
    assert not started.commands, "the first one comes when the hours are over"
    age(tmp_path, 2.1)
    result = str(tmp_path / "_repl" / "verify" / "last.json")
    one, started.code = made(tmp_path), 1  # the run was started again meanwhile
    one.turn()
    write_verify_status(result, {**_FOUND, "at": "2026-11-24T14:00:00+00:00"})
    turned(one)
    (command,) = started.commands
    assert command[-4:] == ["--supervised", str(os.getpid()), "--rows-per-second", "50000"]
    assert "verify: 2 rows differ" in caplog.text
    turned(made(tmp_path))
    age(tmp_path, 1.9)
    turned(one)
    assert len(started.commands) == 1
    assert json.loads(Path(result).read_text())["differing"] == 2


def test_one_that_says_nothing_comes_again_in_an_hour(
    started: Started, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, started.code = made(tmp_path), 1
    turned(one)
    age(tmp_path, 2.1)
    turned(one)
    assert "ended with 1: again in 3600 s" in caplog.text
    assert NOTES[-1] and "ended with 1, and found nothing out" in NOTES[-1].what
    assert "spark-repl verify --config my.toml" in NOTES[-1].hint
    for hours, count in ((1.9, 1), (2.1, 2)):
        age(tmp_path, hours)
        turned(one)
        assert len(started.commands) == count


def test_the_note_goes_with_the_next_result(started: Started, tmp_path: Path) -> None:
    """Or when none is asked for any more."""
    one, started.code = made(tmp_path), 1
    turned(one)
    for hours in (2, 0):
        age(tmp_path, 9)
        turned(one)
        assert NOTES[-1] is not None
        if hours:
            age(tmp_path, 9)
            one.turn()
            write_verify_status(
                str(tmp_path / "_repl" / "verify" / "last.json"), {**_FOUND, "at": "later"}
            )
            turned(one)
        else:
            one.reload(replace(Config().observe, verify_hours=0))
        assert NOTES[-1] is None


def test_a_verify_that_can_not_start_is_reported(started: Started, tmp_path: Path) -> None:
    one = made(tmp_path)
    turned(one)
    age(tmp_path, 9)
    started.code = -1
    one.turn()
    assert NOTES[-1] and "no more processes" in NOTES[-1].what


def test_without_verify_hours_nothing_is_scheduled(started: Started, tmp_path: Path) -> None:
    turned(made(tmp_path, hours=0))
    assert not started.commands and not (tmp_path / "_repl").exists()
