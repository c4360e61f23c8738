"""``make mutants``: does a test fail when a guard is taken out?

Draws mutants (tests/mutants/mutate.py) of every room, runs the room's tests on a copy of the tree
with one mutant in it at a time, and says which survive. Kernels of a changed source are compiled
anew: their cache's folder is a digest of all sources (binlog/kernels/cache.py).

Neither mutmut nor cosmic-ray serves here: the first replaces functions by trampolines, which
neither numba nor pickled tasks of executors survive, the second has one test command for
everything and does not take guards out.

    python -m tests.mutants --room schedule --count 40 --seed 7

Ends with 1 when a mutant survives that survivors.toml doesn't name, when more than 5 % are
named there, or when fewer than 200 were drawn for all rooms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from .mutate import Mutant, mutants
from .rooms import ROOMS, Room

_ROOT = Path(__file__).parents[2]
_PACKAGE = "spark_repl"
_SURVIVORS = Path(__file__).with_name("survivors.toml")
_SURVIVORS_MAX, _DRAWN_MIN = 0.05, 200
_TIMEOUT_S = 600.0


def main() -> int:
    arguments = _arguments()
    rooms = {name: room for name, room in ROOMS.items() if arguments.room in (None, name)}
    named = tomllib.loads(_SURVIVORS.read_text("utf-8")) if _SURVIVORS.exists() else {}
    drawn, survivors = 0, list[Mutant]()
    with _copies(arguments.jobs) as copies:  # whose kernels are compiled once, for all rooms
        for name, room in rooms.items():
            chosen = draw(room, arguments.count or room.count, arguments.seed, arguments.key)
            drawn += len(chosen)
            began = time.monotonic()
            alive = _survivors(room, chosen, copies)
            survivors += alive
            took = time.monotonic() - began
            print(f"{name}: {len(chosen)} mutants, {len(alive)} alive, {took:.0f} s", flush=True)
            for mutant in alive:
                reason = named.get(mutant.key, "NOT NAMED in survivors.toml")
                print(f"  {mutant.key}  (line {mutant.line}): {reason}", flush=True)
    unnamed = [mutant for mutant in survivors if mutant.key not in named]
    print(f"{drawn} mutants, {len(survivors)} alive, {len(unnamed)} of them not named")
    whole = arguments.room is None and arguments.count is None and arguments.key is None
    too_few = whole and drawn < _DRAWN_MIN
    return int(bool(unnamed) or too_few or len(survivors) > max(1, drawn * _SURVIVORS_MAX))


def draw(room: Room, count: int, seed: int, key: str | None) -> list[Mutant]:
    """``count`` mutants of a room, or those whose key has ``key`` in it."""
    found = [
        mutant
        for module in room.modules
        for mutant in mutants(module, (_ROOT / _PACKAGE / module).read_bytes())
        if key is None or key in mutant.key
    ]
    chosen = sorted(found, key=lambda mutant: mutant.drawn(seed))
    return sorted(chosen[:count], key=lambda mutant: (mutant.module, mutant.line))


def _survivors(room: Room, chosen: list[Mutant], copies: list[Path]) -> list[Mutant]:
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    assert _passes(copies[0], room), f"{room.tests} fail without any mutant"

    def survives(mutant: Mutant) -> bool:
        copy = free.get()
        path = copy / _PACKAGE / mutant.module
        source = path.read_bytes()
        try:
            path.write_bytes(mutant.of(source))
            return _passes(copy, room)
        finally:
            path.write_bytes(source)
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        alive = list(pool.map(survives, chosen))
    return [mutant for mutant, lives in zip(chosen, alive, strict=True) if lives]


@contextmanager
def _copies(count: int) -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Path(folder) / str(number) for number in range(count)]
        for copy in copies:
            copy.mkdir()
            for name in (_PACKAGE, "tests", "jobs", "docs"):
                if (_ROOT / name).exists():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(_ROOT / name, copy / name, ignore=ignored)
            for path in (*_ROOT.glob("*.toml"), *_ROOT.glob("*.md")):
                shutil.copy(path, copy)
        yield copies


def _passes(copy: Path, room: Room) -> bool:
    """Whether all of a room's tests pass; the first that fails is enough, and so is one that
    doesn't end. Raises RuntimeError when pytest itself could not run."""
    tests = [f"tests/{test}" for test in room.tests]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not soak"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis"),
    }
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode > 2:
        raise RuntimeError(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return done.returncode == 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Mutation run.")
    parser.add_argument("--room", choices=[*ROOMS], help="this one alone")
    parser.add_argument("--count", type=int, help="mutants of a room, instead of its own number")
    parser.add_argument("--key", help="only mutants whose key has this text in it")
    parser.add_argument("--seed", type=int, default=1, help="which are drawn")
    parser.add_argument("--jobs", type=int, default=2, help="at once")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
