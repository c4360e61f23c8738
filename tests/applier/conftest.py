"""Fixtures of the tests of the whole applier without Spark (tests/support/local_delta.py)."""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.decode.stage_task import StageTask
from spark_repl.decode.stage_worker import stage
from tests.support import local_delta
from tests.support.binlog_writer import LogWriter, Table
from tests.support.local_delta import CRASHES, Crash, LocalDelta, run
from tests.support.planted import MASK_KEY, holding, printed
from tests.support.two_sources import us_log

A, B = Table("a"), Table("b")


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """A log that creates the tables t.a and t.b: three transactions."""
    made = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", A.create, B.create):
        made.ddl(statement)
    return made


@pytest.fixture
def us(tmp_path: Path) -> LogWriter:
    """Another source's log, which creates u.a."""
    return us_log(tmp_path / "us")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def mask_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[str]:
    """The key of masked values, in the environment. It is neither in a file that the test leaves
    (tables, relay log, state), nor in what is logged."""
    monkeypatch.setenv("MASK_KEY", MASK_KEY)
    caplog.set_level(logging.DEBUG, "spark_repl")
    yield MASK_KEY
    said = [f"{record.getMessage()}{record.exc_text}" for record in caplog.get_records("call")]
    assert [text for text in said if MASK_KEY in text] == []
    assert holding(tmp_path, MASK_KEY) == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Nor in what is printed."""
    return printed((yield), item, MASK_KEY, "the planted key")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """``faults(("t/a",), 2)``: the next two commits to each of the tables find storage broken;
    returns which commits were tried."""
    true = LocalDelta.commit

    def install(tables: tuple[str, ...], times: int) -> list[str]:
        tried: list[str] = []

        def commit(self: LocalDelta, planned: Any, *args: Any) -> int:
            table = planned.folder[-3:]
            tried.append(table)
            if table in tables and tried.count(table) <= times:
                raise OSError(errno.EIO, "Input/output error")
            return true(self, planned, *args)

        monkeypatch.setattr(LocalDelta, "commit", commit)
        return tried

    yield install


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``killed(log, target, here)``: a run that is cut off where ``here(name)`` is true."""

    def cut_off(log: LogWriter, target: Path, here: Callable[[str], object], **apply: Any) -> None:
        def reach(self: Any, name: str) -> None:
            if here(name):
                raise Crash(name)

        with monkeypatch.context() as patched:
            patched.setattr(type(CRASHES), "__call__", reach)
            assert not run(log.folder, target, **apply)

    return cut_off


@pytest.fixture
def reading(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[StageTask], Any]], Counter[int]]:
    """``reading(before)``: is called before a worker reads; returns how often the transaction at
    each offset was begun to be read."""

    def install(before: Callable[[StageTask], Any]) -> Counter[int]:
        read: Counter[int] = Counter()

        def noted(task: StageTask) -> Any:
            for span in task.spans:
                read.update(span.starts.tolist())
            before(task)
            return stage(task)

        monkeypatch.setattr(local_delta, "HERE", replace(local_delta.HERE, stage=noted))
        return read

    return install
