"""Guard: a line of the package that one of MySQL's scenarios holds, and a mutant of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """``line`` stands once in ``module`` (below the package); ``mutant`` takes its place."""

    steps: str
    module: str
    line: str
    mutant: str
