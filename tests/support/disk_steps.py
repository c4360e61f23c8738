"""What is done with files, in its order: synced, renamed, removed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Step(NamedTuple):
    """``what``: sync, rename or remove; ``name``: the file's, the new one, or the folder's;
    ``size``: bytes that a file that is synced has then."""

    what: str
    name: str
    size: int = 0


def open_below(folder: Path) -> list[str]:
    """Return the files and folders below ``folder`` that this process has open. Other threads have
    files open elsewhere."""
    links = list[str]()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(link for link in links if Path(link).is_relative_to(folder))


def disk_steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """All that this process does from now on."""
    sync, rename, remove = os.fsync, os.replace, os.remove
    steps: list[Step] = []

    def fsync(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        size = 0 if os.path.isdir(path) else os.fstat(fd).st_size
        sync(fd)
        steps.append(Step("sync", os.path.basename(path), size))

    def renamed(old: Any, new: Any) -> None:
        rename(old, new)
        steps.append(Step("rename", os.path.basename(new)))

    def removed(path: Any) -> None:
        remove(path)
        steps.append(Step("remove", os.path.basename(path)))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "remove", removed)
    return steps
