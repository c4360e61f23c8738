"""Runs that are cut off at their steps, and go on with the same log or another of its source."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.binlog_writer import LogWriter
from tests.support.local_delta import at_cut, cuts, run

STRIDE = int(os.environ.get("SPARK_REPL_STRIDE", "13"))
"""of the steps that are tried; 1 takes minutes"""
Cuts = dict[str, dict[str, list[tuple[Any, ...]]]]
"""GTID set -> the rows of every table that a cut shows there"""


class Twice:
    """Two logs of one source: the second as a relay log has it that was fetched again."""

    def __init__(self, folder: Path) -> None:
        self.logs = LogWriter(folder / "log"), LogWriter(folder / "again", created=1_800_000_000)

    def ddl(self, *statements: str) -> None:
        for statement in statements:
            for number, log in enumerate(self.logs):
                log.ddl(f"{'/* again */ ' * number}{statement}")

    def transaction(self, *changes: Any) -> None:
        for log in self.logs:
            log.transaction(*changes)


def shown(target: Path) -> Cuts:
    return {cut.gtid_executed: at_cut(target, cut) for cut in cuts(target)}


def cut_off_anywhere(
    source: Twice, folder: Path, *, lost: bool, see: Callable[[Path], Any] = shown, **options: Any
) -> tuple[Any, int]:
    """Every run that was cut off at a step, and went on with the same log or the other (``lost``),
    ends with the same cuts as one that was not. Returns these, as ``see`` shows them, and the
    number of steps."""
    log, then = source.logs[0].folder, source.logs[lost].folder
    assert run(log, folder / "reference", group_max_transactions=1, **options)
    want = see(folder / "reference")
    for step in range(1, 1000, STRIDE):
        target = folder / f"lake{step}"
        if run(log, target, crash=step, **options):
            break
        run(then, target, crash=step % 5 + 1, group_max_transactions=1, **options)
        assert run(then, target, **options)
        assert see(target).items() <= want.items()
        assert list(see(target).values())[-1] == list(want.values())[-1]
    return want, step
