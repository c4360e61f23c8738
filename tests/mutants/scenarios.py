"""``python -m tests.mutants.scenarios [NUMBER ...]``: takes out the line that each of MySQL's
scenarios guards (tests/support/scenario_guards.py), runs the tests that answer it, and says which
mutants live. Tests that need Spark or a server are passed over where others are there."""

from __future__ import annotations

import sys

from tests.support.scenario_guards import GUARDS
from tests.support.scenarios import SCENARIOS

from .__main__ import _copies, _passes
from .rooms import Room

_QUICK = ("applier/", "unit/", "property/")


def main(numbers: list[int]) -> int:
    """Ends with 1 when a mutant lives."""
    alive = 0
    with _copies(1) as (copy,):
        for number in numbers or sorted(GUARDS):
            guard = GUARDS[number]
            answers = [answer for answer in SCENARIOS[number][1] if "::" in answer]
            tests = tuple(a for a in answers if a.startswith(_QUICK)) or tuple(answers)
            path = copy / "spark_repl" / guard.module
            source = path.read_text("utf-8")
            try:
                path.write_text(source.replace(guard.line, guard.mutant), "utf-8")
                lives = _passes(copy, Room((guard.module,), tests, 1))
            finally:
                path.write_text(source, "utf-8")
            alive += lives
            print(f"{number}: {'ALIVE' if lives else 'killed'}: {guard.line}", flush=True)
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main(list(map(int, sys.argv[1:]))))
