"""XaStore: the bytes of prepared XA branches, below ``_repl/xa``, each in a file of its own.

Invariant: a branch that a published cut names has its file, whole and synced; the file goes only
after a cut without the branch was published.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from ..apply.xa import Branch
from ..crash_points import reach
from ..errors import TargetError

_COPY_BYTES = 16 << 20


class XaStore:
    """Copies of spans of the relay log; memory is bounded whatever a branch's size."""

    def __init__(self, folder: str, *, keep_all: bool = False) -> None:
        self.folder = folder
        self.keep_all = keep_all  # the applier will go back to an earlier cut

    def path(self, position: int) -> str:
        return os.path.join(self.folder, f"{position:020d}.events")

    def keep(self, branch: Branch) -> Branch:
        """The branch with its bytes durable here. Raises OSError, and TargetError when the relay
        log ends before the branch does."""
        os.makedirs(self.folder, exist_ok=True)
        place = self.path(branch.position)
        fresh = place + ".new"
        with open(branch.path, "rb") as source, open(fresh, "wb") as out:
            source.seek(branch.start)
            left = branch.size
            while left:
                data = source.read(min(left, _COPY_BYTES))
                if not data:
                    raise TargetError(
                        "the relay log is shorter than when it was indexed", file=branch.path
                    )
                out.write(data)
                left -= len(data)
            out.flush()
            os.fsync(out.fileno())
        reach("xa_keeping")
        os.replace(fresh, place)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        reach("xa_kept")
        return branch.kept(place)

    def check(self, branches: Iterable[Branch]) -> None:
        """Raises TargetError when the bytes of a prepared branch are gone."""
        for branch in branches:
            size = os.path.getsize(branch.path) if os.path.exists(branch.path) else -1
            if size != branch.size:
                raise TargetError(
                    f"the bytes of the prepared XA branch {branch.xid} are gone",
                    file=branch.path,
                    gtid=branch.gtid,
                    hint="restore the file, or end the branch by hand: spark-repl xa rollback",
                )

    def forget(self, branches: Iterable[Branch]) -> None:
        """Removes the files of branches that have ended."""
        for branch in () if self.keep_all else branches:
            if branch.path.startswith(self.folder):
                reach("xa_forget")
                with contextlib.suppress(FileNotFoundError):
                    os.remove(branch.path)

    def clean(self, branches: Iterable[Branch]) -> None:
        """At start: removes what no branch of the last cut needs; the log brings it again."""
        if self.keep_all or not os.path.isdir(self.folder):
            return
        wanted = {os.path.basename(branch.path) for branch in branches}
        for name in os.listdir(self.folder):
            if name not in wanted:
                os.remove(os.path.join(self.folder, name))
