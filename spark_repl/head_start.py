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
from .stager import Stager


class HeadStart:
    """``begin`` and ``take`` are for the one thread that stages. ``read`` reads a group as it is
    shared out. Nothing is said of it in the status, where it has no slot yet."""

    def __init__(self, read: Callable[[Group], list[Staged]], stager: Stager) -> None:
        self._read, self._stager = read, stager
        self._found: tuple[Group, list[Staged]] | None = None

    def begin(self, group: Group) -> None:
        """Stages the group. Raises what ``read`` does: nobody has to listen, it is said again when
        the group is staged in its turn."""
        self._forget()
        try:
            self._stager.share_out(group)
            self._found = group, self._read(group)
        finally:
            if self._found is None:
                self._stager.drop(group)

    def take(self, group: Group) -> list[Staged] | None:
        """What was staged of this very group, once; whose it is then."""
        if self._found is None:
            return None
        early, staged = self._found
        if not _same(early, group):
            self._forget()
            return None
        self._found = None
        group.worker, group.folder, group.already = early.worker, early.folder, early.already
        return staged

    def _forget(self) -> None:
        if self._found is not None:
            self._stager.drop(self._found[0])
            self._found = None


def _same(one: Group, other: Group) -> bool:
    return (
        np.array_equal(one.records, other.records)
        and np.array_equal(one.wave, other.wave)
        and one.executed == other.executed
        and one.idempotent == other.idempotent
        and not other.xa.commits
    )
