"""Executors that can't read the driver's disk keep files on their own, up to a bound."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spark_repl import Config
from spark_repl.runtime.executor_disk import (
    ExecutorDisk,
    executor_disk,
    has_own_disk,
    own_path,
    remove_oldest,
)
from spark_repl.runtime.workers import Guarded
from tests.support.child import in_child

BUCKET = "s3://bucket/lake"


@pytest.mark.parametrize(
    ("master", "target", "archive", "own"),
    [
        ("spark://host:7077", BUCKET, "", True),
        ("yarn", BUCKET, "s3://bucket/archive", True),
        ("k8s://https://host", BUCKET, "", True),
        ("spark://host:7077", BUCKET, "off", False),
        ("spark://host:7077", BUCKET, "/data/archive", False),
        ("spark://host:7077", "/data/lake", "", False),
        ("local[4]", BUCKET, "", False),
        ("local-cluster[2,1,1024]", BUCKET, "", False),
    ],
)
def test_cluster_with_bucket_and_archive_needs_no_shared_disk(
    master: str, target: str, archive: str, own: bool
) -> None:
    config = Config.from_mapping({
        "relay": {"archive": archive}, "target": {"path": target},
        "apply": {"executor_cache_bytes": 9},
    })  # fmt: skip
    assert executor_disk(master, config) == (ExecutorDisk(9) if own else None)


def test_driver_keeps_its_paths() -> None:
    assert not has_own_disk() and own_path("/state/keys") == "/state/keys"


def test_executor_keeps_files_below_spark_s_folder_during_its_task(tmp_path: Path) -> None:
    """Spark gives the process to the next task, of another session or target, also after a task
    that failed."""

    def tasks() -> list[str]:
        os.environ["SPARK_LOCAL_DIRS"] = f"{tmp_path}/first,{tmp_path}/second"
        paths = []
        with suppress(ZeroDivisionError), ExecutorDisk(9).entered():
            paths.append(own_path("/state/keys"))
            _ = 1 // 0
        return [*paths, own_path("/state/keys"), str(has_own_disk())]

    assert in_child(tasks) == [f"{tmp_path}/first/spark_repl/state/keys", "/state/keys", "False"]


def test_worker_of_a_task_without_a_shared_disk_reads_the_driver_s_disk_in_the_next(
    tmp_path: Path,
) -> None:
    def tasks() -> list[Any]:
        os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path)
        return [Guarded(own_path, disk)(["/keys"])[1] for disk in (ExecutorDisk(9), None)]

    assert in_child(tasks) == [[f"{tmp_path}/spark_repl/keys"], ["/keys"]]


def write(path: Path, size: int, age_s: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_files_that_were_not_used_for_longest_go(tmp_path: Path) -> None:
    files = [write(tmp_path / str(age % 3) / str(age), 10, age) for age in (5000, 4000, 3000, 1)]
    remove_oldest(str(tmp_path), 40)
    assert [path.exists() for path in files] == [True] * 4
    remove_oldest(str(tmp_path), 35)
    assert [path.exists() for path in files] == [False, True, True, True]
    remove_oldest(str(tmp_path), 0)
    assert [path.exists() for path in files] == [False, False, False, True]  # in use
