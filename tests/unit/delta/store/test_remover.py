"""Removals below a target: only while this process owns it, file by file, and never a file that a
successor has written under the name meanwhile."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spark_repl.crash_points import listening
from spark_repl.delta.store import remover as removing
from spark_repl.delta.store import storage
from spark_repl.delta.store.remover import ASIDE, Remover, put_back
from spark_repl.errors import FencedError
from spark_repl.runtime.store_requests import request_counts


class Owner:
    """Owns the target until it has been asked so often."""

    def __init__(self, steps: list[str], until: int = 1000) -> None:
        self.steps, self.until = steps, until

    def check(self) -> None:
        self.steps.append("asked")
        if self.steps.count("asked") > self.until:
            raise FencedError("taken over")


def made(folder: Path, *names: str) -> list[str]:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return [str(folder / name) for name in names]


def left(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def is_empty(path: str) -> bool:
    return not os.path.getsize(path)


def test_it_is_made_durable_then_asked_before_each(tmp_path: Path) -> None:
    steps: list[str] = []
    paths = made(tmp_path, "a", "b")
    owner = Owner(steps)
    with listening(lambda name: steps.append(name) if name == "removal" else None):
        Remover(owner.check).files(
            [*paths, str(tmp_path / "gone")], lambda: steps.append("durable")
        )
    assert steps == ["durable", *["asked", "removal"] * 3] and left(tmp_path) == []


def test_nothing_to_remove_makes_nothing_durable(tmp_path: Path) -> None:
    steps: list[str] = []
    assert Remover(Owner(steps).check).files([], lambda: steps.append("durable")) == 0
    assert steps == []


def test_what_cannot_be_made_durable_stays(tmp_path: Path) -> None:
    def broken() -> None:
        raise OSError(errno.EIO, "Input/output error")

    paths, steps = made(tmp_path, "a", "t/b"), list[str]()
    remover = Remover(Owner(steps).check)
    for act in (
        lambda: remover.files(paths, broken),
        lambda: remover.folder(str(tmp_path), broken),
    ):
        with pytest.raises(OSError, match="Input/output"):
            act()
    assert left(tmp_path) == ["a", "t/b"] and steps == []


@pytest.mark.parametrize("until", [0, 1])
def test_another_owner_came_between(tmp_path: Path, until: int) -> None:
    paths = made(tmp_path, "t/a", "t/part=1/b")
    with pytest.raises(FencedError):
        Remover(Owner([], until).check).files(paths)
    assert len(left(tmp_path)) == 2 - until
    made(tmp_path, "t/a", "t/part=1/b")
    with pytest.raises(FencedError):
        Remover(Owner([], until).check).folder(str(tmp_path / "t"), lambda: None)
    assert len(left(tmp_path)) == 2 - until


def test_an_object_store_is_asked_once_for_each_thousand_objects() -> None:
    paths = [f"memory://lake/many/{n}" for n in range(2_001)]
    for path in paths[1:]:  # the first one is missing
        storage.put(path, b"1")
    steps, before = list[str](), request_counts().get("delete", 0)
    assert Remover(Owner(steps).check).files(paths, lambda: steps.append("settled")) == 2_001
    assert steps == ["settled", "asked", "asked", "asked"]
    assert request_counts()["delete"] - before == 3
    assert storage.names("memory://lake/many") == []


def test_another_owner_came_between_two_batches_of_objects() -> None:
    paths = [f"memory://lake/fenced/{n:04d}" for n in range(1_500)]
    for path in paths:
        storage.put(path, b"1")
    with pytest.raises(FencedError):
        Remover(Owner([], 1).check).files(paths)
    assert storage.names_after("memory://lake/fenced", "") == [
        f"{n:04d}" for n in range(1_000, 1_500)
    ]


def test_objects_and_files_of_one_call_are_removed_in_their_order(tmp_path: Path) -> None:
    paths = made(tmp_path, "a", "b")
    paths.insert(1, "memory://lake/mixed/c")
    storage.put(paths[1], b"1")
    with pytest.raises(FencedError):
        Remover(Owner([], 2).check).files(paths)
    assert left(tmp_path) == ["b"] and storage.names("memory://lake/mixed") == []


def test_a_folder_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    made(tmp_path, "t/a", "t/part=1/b", "t/_delta_log/0.json", "other/c")
    (tmp_path / "t" / "link").symlink_to(tmp_path / "other")
    Remover().folder(str(tmp_path / "t"), lambda: None)
    assert not (tmp_path / "t").exists() and left(tmp_path) == ["other/c"]
    Remover().folder(str(tmp_path / "t"), lambda: None)


def test_a_useless_file_goes_and_leaves_nothing(tmp_path: Path) -> None:
    (path,) = made(tmp_path, "0.json")
    remover = Remover()
    assert not remover.useless(path, is_empty) and os.path.exists(path)
    Path(path).write_text("")
    assert remover.useless(path, is_empty) and remover.useless(path, is_empty)
    assert list(tmp_path.iterdir()) == []


def successor(path: str, text: str = "written by the successor") -> None:
    """Removes the empty file, and writes one of its own at that name."""
    os.remove(path)
    Path(path).write_text(text)


def test_what_came_between_look_and_removal_is_put_back(tmp_path: Path) -> None:
    (path,) = made(tmp_path, "0.json")
    Path(path).write_text("")

    def look(where: str) -> bool:
        useless = is_empty(where)
        if where == path:
            successor(path)
        return useless

    assert not Remover().useless(path, look)
    assert left(tmp_path) == ["0.json"] and Path(path).read_text() == "written by the successor"


@pytest.mark.parametrize("links", [True, False])
def test_ended_where_it_was_renamed_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """The next start puts back what has content, also where there are no hard links."""
    if not links:
        monkeypatch.setattr(removing.os, "link", no_links)
    for text in ("", "{}"):
        (path,) = made(tmp_path, "0.json")
        Path(path).write_text("")
        with listening(ends), pytest.raises(KeyboardInterrupt):
            Remover().useless(path, is_empty)
        (moved,) = (tmp_path / ASIDE).iterdir()
        moved.write_text(text)
        put_back(str(tmp_path), is_empty)
        assert left(tmp_path) == (["0.json"] if text else [])
        assert not (tmp_path / ASIDE).exists()


def no_links(*_: str) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def ends(name: str) -> None:
    if name == "set_aside":
        raise KeyboardInterrupt


@pytest.mark.parametrize("links", [True, False])
def test_two_files_of_one_name_both_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(removing.os, "link", no_links)
    made(tmp_path, "0.json", f"{ASIDE}/abc.0.json")
    put_back(str(tmp_path), is_empty)
    assert left(tmp_path) == ["0.json", f"{ASIDE}/abc.0.json"]


def test_ended_between_link_and_removal(tmp_path: Path) -> None:
    made(tmp_path, "0.json")
    (tmp_path / ASIDE).mkdir()
    os.link(tmp_path / "0.json", tmp_path / ASIDE / "abc.0.json")
    put_back(str(tmp_path), is_empty)
    assert left(tmp_path) == ["0.json"]


def test_a_start_decides_while_the_process_sleeps(tmp_path: Path) -> None:
    """Both processes find the file, and the second one has nothing to remove."""
    (path,) = made(tmp_path, "0.json")
    Path(path).write_text("")

    def start(name: str) -> None:
        if name == "set_aside":
            put_back(str(tmp_path), is_empty)
            Path(path).write_text("the successor's")

    with listening(start):
        assert not Remover().useless(path, is_empty)
    assert left(tmp_path) == ["0.json"] and Path(path).read_text() == "the successor's"


def test_a_folder_that_is_a_link_goes(tmp_path: Path) -> None:
    """The user moved the table to another disk: the next look finds nothing at its path."""
    made(tmp_path, "disk/a/_delta_log/0.json", "disk/a/x.parquet")
    for link in ("a", "gone"):
        os.symlink(tmp_path / "disk" / link, tmp_path / link)
        Remover().folder(str(tmp_path / link), bool)
        assert not os.path.lexists(tmp_path / link)
    assert left(tmp_path) == []
