"""Modules that a process does without, though they are installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _LeftOut(MetaPathFinder):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in self._names:
            raise ModuleNotFoundError(f"this process does without {name}", name=name)
        return None


def leave_out(*names: str) -> None:
    """From now on they are not there for who would import them in this process, which is ours
    alone. PyArrow imports pandas, where it is installed, with the first list that it is given: 27
    MB, and 0.3 s of processor time, in each process, though nothing of ours is pandas'."""
    sys.meta_path.insert(0, _LeftOut(names))
