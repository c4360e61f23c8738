"""A disk whose power fails: what is left of a folder, by the notes of tests/crash/power.c."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[1] / "crash" / "power.c"


def build(folder: Path) -> Path:
    """The library to be preloaded."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a disk that loses its power needs a C compiler and Linux")
    made = folder / "power.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return made


def environment(library: Path, disk: Path, notes: Path) -> dict[str, str]:
    """Of a process whose disk is ``disk``. ``notes`` must lie outside of it, and be there."""
    return {**os.environ, "LD_PRELOAD": str(library), "POWER": f"{disk}:{notes}"}


def fail(disk: str, notes: Path, left: Path, *, emptied: bool = False) -> None:
    """Makes in ``left`` what is there of a disk, by its ``identity``, when its power fails now: at
    one moment, since other threads that sync wait for the notes' lock meanwhile. ``emptied``: what
    was not synced itself is there, long ago and empty, where its name was."""
    with open(notes / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _folder(disk, notes, left, emptied)


def identity(path: Path) -> str:
    """Of a folder, as power.c names it."""
    asked = subprocess.run(
        ["stat", "-c", "%i %w", path], capture_output=True, text=True, check=True
    )
    inode, day, clock, zone = asked.stdout.split()
    seconds = subprocess.run(
        ["date", "-d", f"{day} {clock} {zone}", "+%s"], capture_output=True, text=True, check=True
    )
    return f"{inode}-{seconds.stdout.strip()}-{int(clock.partition('.')[2])}"


def _folder(folder: str, notes: Path, left: Path, emptied: bool) -> None:
    left.mkdir(parents=True)
    names: dict[str, str] = {}
    listed = notes / f"{folder}.names"
    for line in listed.read_text().splitlines() if listed.exists() else ():
        what, _, name = line.partition(" ")
        if what == "-":
            names.pop(name, None)
        else:
            names[name] = what
    for name, what in names.items():
        if what.endswith("/"):
            if emptied or (notes / f"{what[:-1]}.names").exists():
                _folder(what[:-1], notes, left / name, emptied)
        elif (notes / what).exists():
            shutil.copy(notes / what, left / name)
        elif emptied:
            (left / name).touch()
            os.utime(left / name, (0, 0))
