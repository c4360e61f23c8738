"""HeadStart: a stream's first group, staged while Spark starts the stream.

That takes half a second of another Python process, and what the first batch will begin with is in
the log already. The batch decides all the same: what was staged counts when the group that is cut
from the batch is the same one, and else is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .apply.stage import Staged
from .plan import Group


class HeadStart:
    """``begin`` and ``take`` are for the one thread that stages. ``stage`` reads a group, ``drop``
    removes what it has left on disk."""

    def __init__(
        self, stage: Callable[[Group], list[Staged]], drop: Callable[[Group], None]
    ) -> None:
        self._stage, self._drop = stage, drop
        self._found: tuple[Group, list[Staged]] | None = None

    def begin(self, group: Group) -> None:
        """Stages the group. Raises what ``stage`` does: nobody has to listen, it is said again when
        the group is staged in its turn."""
        self._forget()
        try:
            self._found = group, self._stage(group)
        finally:
            if self._found is None:
                self._drop(group)

    def take(self, group: Group) -> list[Staged] | None:
        """What was staged of this very group, once; whose it is then."""
        if self._found is None:
            return None
        (early, staged), same = self._found, _same(self._found[0], group)
        if not same:
            self._forget()
            return None
        self._found = None
        group.worker, group.folder, group.already = early.worker, early.folder, early.already
        return staged

    def _forget(self) -> None:
        if self._found is not None:
            self._drop(self._found[0])
            self._found = None


def _same(one: Group, other: Group) -> bool:
    return (
        np.array_equal(one.records, other.records)
        and np.array_equal(one.wave, other.wave)
        and one.executed == other.executed
        and one.idempotent == other.idempotent
        and not other.xa.commits
    )
