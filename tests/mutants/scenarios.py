"""``make scenarios``, or ``python -m tests.mutants.scenarios [NUMBER ...]``: takes out the line
that each of MySQL's scenarios guards (tests/support/scenario_guards.py), runs the tests that answer
it, and says which mutants live. Tests that need Spark or a server are passed over where others are
there."""

from __future__ import annotations

import sys

from tests.support.scenario_guards import GUARDS
from tests.support.scenarios import SCENARIOS

from .copied import PACKAGE, copied, passes

_QUICK = ("tests/applier/", "tests/unit/", "tests/property/")


def main(numbers: list[int]) -> int:
    """Ends with 1 when a mutant lives."""
    alive = 0
    for number in numbers or sorted(GUARDS):
        guard = GUARDS[number]
        answers = [f"tests/{answer}" for answer in SCENARIOS[number][1] if "::" in answer]
        tests = [a for a in answers if a.startswith(_QUICK)] or answers
        with copied() as copy:
            path = copy / PACKAGE / guard.module
            path.write_text(path.read_text("utf-8").replace(guard.line, guard.mutant), "utf-8")
            lives = passes(copy, tests)
        alive += lives
        print(f"{number}: {'ALIVE' if lives else 'killed'}: {guard.line}", flush=True)
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main(list(map(int, sys.argv[1:]))))
