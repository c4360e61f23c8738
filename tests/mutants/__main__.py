"""``make mutants``: does a test fail when a guard is taken out?

Draws mutants (tests/mutants/mutate.py) of every room, runs those of the room's tests that reach it
with one mutant in the package at a time (tests/mutants/warm.py), and says which survive. A mutant
that lies in no function is run in a copy of the tree, which takes longer.

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
import sys
import tempfile
import time
import tomllib
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from .copied import PACKAGE, ROOT, copied, passes
from .forked import Ended, forked
from .mutate import Mutant, mutants
from .rooms import ROOMS, Room
from .warm import Verdict, Warm

_SURVIVORS = Path(__file__).with_name("survivors.toml")
_SURVIVORS_MAX, _DRAWN_MIN = 0.05, 200


def main() -> int:
    arguments = _arguments()
    os.chdir(ROOT)
    rooms = {name: room for name, room in ROOMS.items() if arguments.room in (None, name)}
    named = tomllib.loads(_SURVIVORS.read_text("utf-8")) if _SURVIVORS.exists() else {}
    drawn, survivors = 0, list[Mutant]()
    for name, room in rooms.items():
        known = [m for m in mutants_of(room) if (arguments.key or "") in m.key]
        chosen = draw(known, arguments.count or room.count, arguments.seed)
        drawn += len(chosen)
        began = time.monotonic()
        found = forked(partial(_run, room, known, chosen, verbose=arguments.verbose))
        assert not isinstance(found, Ended), found
        verdicts, unreached = found
        alive = [one for one in verdicts if not one.by]
        took = time.monotonic() - began
        print(f"{name}: {len(chosen)} mutants, {len(alive)} alive, {took:.0f} s", flush=True)
        for one in verdicts:
            if one.by in {ended.value for ended in Ended}:
                print(f"  {one}", flush=True)
        for one in alive:
            reason = named.get(one.mutant.key, "NOT NAMED in survivors.toml")
            print(f"  {one}: {reason}", flush=True)
        for module, lines in groupby(unreached, lambda mutant: mutant.module):
            numbers = sorted({mutant.line for mutant in lines})
            print(f"  of {module} no test reaches {', '.join(map(str, numbers))}", flush=True)
        survivors += [one.mutant for one in alive]
    unnamed = [mutant for mutant in survivors if mutant.key not in named]
    print(f"{drawn} mutants, {len(survivors)} alive, {len(unnamed)} of them not named")
    whole = arguments.room is None and arguments.count is None and arguments.key is None
    too_few = whole and drawn < _DRAWN_MIN
    return int(bool(unnamed) or too_few or len(survivors) > max(1, drawn * _SURVIVORS_MAX))


def mutants_of(room: Room) -> list[Mutant]:
    return [
        mutant
        for module in room.modules
        for mutant in mutants(module, (ROOT / PACKAGE / module).read_bytes())
    ]


def draw(known: list[Mutant], count: int, seed: int) -> list[Mutant]:
    chosen = sorted(known, key=lambda mutant: mutant.drawn(seed))
    return sorted(chosen[:count], key=lambda mutant: (mutant.module, mutant.line))


def _run(
    room: Room, known: list[Mutant], chosen: list[Mutant], *, verbose: bool
) -> tuple[list[Verdict], list[Mutant]]:
    """How the chosen ones end, and which of all known ones no test reaches."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = f"{folder}/hypothesis"

        def cold(mutant: Mutant, tests: list[str]) -> str:
            with copied() as copy:
                path = copy / PACKAGE / mutant.module
                path.write_bytes(mutant.of(path.read_bytes()))
                return "" if passes(copy, tests) else "killed in a copy"

        warm = Warm(ROOT / PACKAGE, room.modules, chosen, cold, verbose=verbose)
        short = ["-m", "not slow and not soak"]
        options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", *short]
        options += ["--basetemp", f"{folder}/tests"]
        pytest.main([*options, *(f"tests/{test}" for test in room.tests)], plugins=[warm])
        assert len(warm.verdicts) == len(chosen), "pytest ended early; see above"
        return warm.verdicts, warm.unreached(known)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Mutation run.")
    parser.add_argument("--room", choices=[*ROOMS], help="this one alone")
    parser.add_argument("--count", type=int, help="mutants of a room, instead of its own number")
    parser.add_argument("--key", help="only mutants whose key has this text in it")
    parser.add_argument("--seed", type=int, default=1, help="which are drawn")
    parser.add_argument("--verbose", action="store_true", help="how each mutant ended")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
