"""Restaging: a group's staged parts, of which those that failed are read anew for the next attempt.

What failed is what a table lacks: the workers that have changes of it read their spans again, from
start to end (WL#6964). What other workers have staged stays, and so do tables that have their part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...schedule.group import Group, StagedGroup
    from .staging import Staging


class Restaging:
    """``staged`` is its owner's; what is read here is dropped here, by ``close``. One thread's."""

    def __init__(self, staging: Staging, group: Group, staged: StagedGroup | None) -> None:
        self._staging, self._group, self._staged = staging, group, staged
        self._read: list[StagedGroup] = []
        self.tables: Collection[str] = staged.tables if staged else ()
        self.lost: frozenset[int] = frozenset()

    def all(self) -> StagedGroup:
        """The group, with what was lost read anew. Raises what ``Staging.again`` does."""
        if self._staged is not None and not self.lost:
            return self._staged
        fresh = self._staging.again(self._group, self.lost if self._staged else None)
        self._read.append(fresh)
        kept = [] if self._staged is None else self._staged.by_worker
        parts = [*(part for part in kept if part.worker not in self.lost), *fresh.by_worker]
        self._staged = replace(fresh, by_worker=sorted(parts, key=lambda part: part.worker))
        self.tables, self.lost = self._staged.tables, frozenset()
        return self._staged

    def lose(self, tables: Iterable[str]) -> None:
        """An attempt has failed that was to bring these tables their part."""
        if self._staged is not None:
            names = frozenset(tables)
            parts = self._staged.by_worker
            self.lost = frozenset(one.worker for one in parts if names & one.definitions.keys())

    def drop(self) -> None:
        """Makes room: everything is read anew, all of what was read here is gone."""
        self.close()
        if self._staged is not None:
            self._staging.drop(self._staged)
        self._staged, self.lost = None, frozenset()

    def close(self) -> None:
        for fresh in self._read:
            self._staging.drop(fresh)
        self._read.clear()
