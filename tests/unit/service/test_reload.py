"""SIGHUP: what a changed file changes while all goes on, and what is refused by name."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl.config import Apply, Config, load
from spark_repl.control.table.layout import Layout
from spark_repl.copy.recopy import Recopier
from spark_repl.errors import SparkReplError
from spark_repl.observe.reports.applier_status import Notice
from spark_repl.service.command_process import at_signals
from spark_repl.service.reload import HERE, RECEIVER, Reload
from spark_repl.service.scheduled_verify import ScheduledVerify
from spark_repl.service.supervisor import Supervisor
from tests.support.wait_until import wait_until

TEXT = '[source]\nhost = "a"\n[target]\npath = "{}"\n'


class Applier:
    """What a reload tells the applier."""

    def __init__(self, config: Config) -> None:
        self.requests = Path(Layout.of(config.target).requests)
        self.notes: dict[str, Notice] = {}
        self.told: list[Apply] = []

    def fail(self, error: SparkReplError) -> None:
        raise AssertionError from error

    def note(self, name: str, note: Notice | None) -> None:
        self.notes.pop(name, None)
        if note is not None:
            self.notes[name] = note

    def answer(self) -> None:
        """Requests are carried out."""

    def reload(self, apply: Apply) -> None:
        self.told.append(apply)


class Parts:
    """What a reload reaches: the real schedule, supervisor and thread of copies."""

    def __init__(self, folder: Path, file: Path) -> None:
        config = load(file)
        self.restarts, self.asked = 0, threading.Event()
        self.applier: Any = Applier(config)
        self.receiver: Any = Supervisor(config, str(file))
        self.receiver.restart = self._restart
        self.recopier = Recopier(MagicMock(), config, self.applier)
        self.verify = ScheduledVerify(config, str(file), lambda error: None, lambda note: None)
        self.reload = Reload(
            load(file),
            str(file),
            self.asked,
            self.receiver,
            self.applier,
            self.recopier,
            self.verify,
        )

    def _restart(self) -> None:
        self.restarts += 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "my.toml"
    made.write_text(TEXT.format(tmp_path / "lake"))
    return made


@pytest.fixture
def parts(tmp_path: Path, file: Path) -> Iterator[Parts]:
    before = {one: signal.getsignal(one) for one in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    made = Parts(tmp_path, file)
    at_signals(lambda: None, made.asked.set)
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_has_the_file_read_again(parts: Parts, file: Path) -> None:
    with parts.reload:
        with file.open("a") as more:
            more.write("[observe]\nverify_hours = 5\n[apply]\nxa_age_limit_s = 7\n")
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: parts.applier.told)  # behind the schedule
    assert parts.verify._hours == 5 and parts.applier.told[-1].xa_age_limit_s == 7
    assert parts.restarts == 0 and not parts.applier.notes


def test_a_reload_requested_early_is_carried_out(parts: Parts, file: Path) -> None:
    """What the file said when the run began is what is known, not what it says by now."""
    parts.asked.set()
    file.write_text(file.read_text().replace('"a"', '"a"\npassword = "new"'))
    with parts.reload:
        wait_until(lambda: parts.restarts)
    assert parts.recopier.config.source.password == "new"


def test_a_reload_of_the_receivers_keys_restarts_it(parts: Parts, file: Path) -> None:
    file.write_text(file.read_text().replace('"a"', '"a"\npassword = "new"'))
    parts.reload.reload()
    assert parts.restarts == 1
    assert parts.receiver.config.source.password == parts.recopier.config.source.password == "new"
    parts.reload.reload()
    assert parts.restarts == 1, "nothing has changed since"


def test_a_reload_refuses_other_keys_by_name(
    parts: Parts, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a key that is the receiver's too, which would read the whole file; the schedule is
    another matter."""
    before = file.read_text()
    changed = before.replace('"a"', '"b"\npassword = "new"') + "[observe]\nverify_hours = 3\n"
    file.write_text(changed)
    parts.reload.reload()
    said = "not reloaded, the old values stay: source.host, source.password"
    assert said in caplog.text and parts.applier.notes["reload"].what == said
    assert (parts.restarts, parts.receiver.config.source.password) == (0, "")
    assert parts.verify._hours == 3
    file.write_text(before)
    parts.reload.reload()
    assert not parts.applier.notes and parts.verify._hours == 0


def test_a_file_with_faults_changes_nothing(parts: Parts, file: Path) -> None:
    file.write_text("[observe]\nverify_hours = 3\nnone = 1\n")
    parts.reload.reload()
    assert "unknown key observe.none" in parts.applier.notes["reload"].what
    assert parts.verify._hours == 0


def test_keys_that_a_reload_takes_exist_and_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    listed = page.partition("## Changes without a restart")[2]
    assert {*HERE, *RECEIVER} <= set(Config().names())
    assert [name for name in (*HERE, *RECEIVER) if f"`{name}`" not in listed] == []
