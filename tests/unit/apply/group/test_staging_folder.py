"""Staging folders, on a disk and in a store: what each owner removes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.apply.group.staging_folder import StagingFolder, remove_staged
from spark_repl.delta.store import storage


class Paths:
    """A layout whose staging folders are below ``parent`` on the disk, or in a store."""

    def __init__(self, parent: str) -> None:
        self.parent = parent

    def staging(self, epoch: int, *, in_target: bool = False) -> str:
        return f"{REMOTE if in_target else self.parent}/{epoch}"


REMOTE = "memory://staging/lake/_repl/staging"


@pytest.fixture(params=[False, True], ids=["disk", "store"])
def own_disks(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def parent(own_disks: bool, tmp_path: Path) -> str:
    storage.remove_folder(REMOTE)
    return REMOTE if own_disks else str(tmp_path / "staging")


def begun(tmp_path: Path, *, own_disks: bool, epoch: int = 12) -> StagingFolder:
    layout: Any = Paths(str(tmp_path / "staging"))
    folder = StagingFolder(layout, epoch, lambda: own_disks)
    folder.begin()
    return folder


def put(path: str) -> str:
    storage.make_folder(path.rpartition("/")[0])
    storage.put(path, b"x")
    return path


def test_owner_removes_what_earlier_ones_left(parent: str, own_disks: bool, tmp_path: Path) -> None:
    earlier, own = put(f"{parent}/3/group-1/a"), put(f"{parent}/12/group-1/a")
    later = put(f"{parent}/13/group-1/a")
    folder = begun(tmp_path, own_disks=own_disks).name()
    assert [storage.exists(path) for path in (earlier, own, later)] == [False, False, True]
    assert folder == f"{parent}/12/group-1"


def test_the_folder_of_a_running_verify_stays(tmp_path: Path) -> None:
    path = put(f"{REMOTE}/verify-1/a")
    begun(tmp_path, own_disks=True).name()
    assert storage.exists(path)


def test_nothing_waits_for_spark_before_a_group_needs_a_folder(tmp_path: Path) -> None:
    def waits() -> bool:
        raise AssertionError("asked")

    layout: Any = Paths(str(tmp_path / "staging"))
    folder = StagingFolder(layout, 12, waits)
    folder.begin()
    folder.clean()


def test_group_has_a_folder_of_its_own(parent: str, own_disks: bool, tmp_path: Path) -> None:
    folder = begun(tmp_path, own_disks=own_disks)
    first, second = folder.make(), folder.make()
    paths = [put(f"{name}/a") for name in (first, second)]
    remove_staged(first)
    assert [storage.exists(path) for path in paths] == [False, True]
    remove_staged(None)
    folder.clean()
    assert not storage.exists(paths[1])
