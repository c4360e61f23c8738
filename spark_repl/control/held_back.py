"""HeldBack: rows of the control table that come with the next one that is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class HeldBack:
    """``rows``: each with its detail as it was before a format's number was put to it. Not safe
    from several threads: the control table's lock is held."""

    def __init__(self) -> None:
        self.rows: list[tuple[dict[str, Any], str]] = []
        self._checks: list[Callable[[], object]] = []

    def add(self, row: dict[str, Any], detail: str, check: Callable[[], object] = bool) -> None:
        """``check`` raises where the row may not stand behind the newest version."""
        self.rows.append((row, detail))
        if check is not bool:
            self._checks.append(check)

    def check(self) -> None:
        """Raises what the rows' own checks raise."""
        for check in self._checks:
            check()

    def clear(self) -> None:
        """They have been written, or never will be."""
        self.rows.clear()
        self._checks.clear()
