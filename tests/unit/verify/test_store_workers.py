"""Files that executors make for a verify come to the driver's disk through the target's store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_repl.runtime.object_store import ObjectStore
from spark_repl.verify.store_workers import StoreWorkers

STAGING = "memory://store-workers/lake/_repl/staging"


@dataclass(frozen=True)
class Task:
    content: str
    out: str


class Here:
    """Workers that are this process."""

    def run(self, function: Any, tasks: Sequence[Any]) -> list[Any]:
        return [function(task) for task in tasks]


def write(tasks: Sequence[Task]) -> list[str]:
    """Write what each task says, unless it is to fail."""
    for task in tasks:
        if task.content == "lost":
            raise OSError("lost")
        if task.out and task.content:
            Path(task.out).write_text(task.content)
    return [task.content for task in tasks]


def test_results_are_where_the_tasks_want_them(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "s-0.npy", tmp_path / "b" / "s-0.npy", tmp_path / "b" / "s-1.npy"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
    tasks = [
        [Task("first", str(paths[0])), Task("none", "")],
        [Task("second", str(paths[1])), Task("", str(paths[2]))],
    ]
    results = StoreWorkers(Here(), STAGING).run(write, tasks)  # type: ignore[arg-type]
    assert results == [["first", "none"], ["second", ""]]
    assert [path.exists() and path.read_text() for path in paths] == ["first", "second", False]
    assert ObjectStore().names(STAGING) == []


def test_failure_leaves_nothing_in_the_store(tmp_path: Path) -> None:
    tasks = [[Task("first", str(tmp_path / "x"))], [Task("lost", "")]]
    with pytest.raises(OSError, match="lost"):
        StoreWorkers(Here(), STAGING).run(write, tasks)  # type: ignore[arg-type]
    assert ObjectStore().names(STAGING) == [] and not (tmp_path / "x").exists()
