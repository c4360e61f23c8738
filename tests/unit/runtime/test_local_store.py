"""Names that are given only once, on a disk without hard links."""

from __future__ import annotations

import ctypes
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from spark_repl.delta.store import storage

WRITERS, NAMES = 4, 50


@pytest.fixture(autouse=True)
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", refuse)


def test_one_of_several_writers_gets_a_name_without_hard_links(tmp_path: Path) -> None:
    def put(writer: int, name: str) -> bool:
        try:
            storage.put_if_absent(str(tmp_path / name), b"%d" % writer)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(NAMES):
            name = f"{number:020d}.json"
            outcomes = list(pool.map(put, range(WRITERS), [name] * WRITERS))
            assert sum(outcomes) == 1
            assert (tmp_path / name).read_bytes() == b"%d" % outcomes.index(True)
    assert len(list(tmp_path.iterdir())) == NAMES, "a loser leaves nothing"


def test_disk_with_no_call_that_keeps_an_existing_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    with pytest.raises(OSError, match="neither hard links nor a rename"):
        storage.put_if_absent(str(tmp_path / "a"), b"1")
    assert not (tmp_path / "a").exists()
