"""XaStore: the bytes of prepared XA branches, below ``_repl/xa``, each in a file of its own.

Invariant: a branch that a published cut names has its file, complete and synced. The file is
removed only when a cut without the branch is durable, with the rows that it shows. If the target is
on an object store the file is there, and a local copy exists for the workers, which is fetched
again when it no longer exists.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ... import formats
from ...binlog.event_types import CRC_LENGTH
from ...crash_points import reach
from ...delta.store import storage
from ...delta.store.remover import Remover
from ...errors import TargetError
from ...relay.span_tables import tables_of
from ...relay.xa_branches import Branch
from ...runtime.private_files import make_private_folder
from .log_bytes import copy_bytes, durable_file

Hidden = Callable[[str], str]
"""a table's name on the source -> its name in the target, "" for one without hidden columns"""
_COPY_BYTES = 16 << 20
_FORMAT = 1
"""the branch's events as they are in the relay log; the number of a later format follows
``.events``"""
_LATER = re.compile(r"\d+(?:-\d+)?\.events(\d+)")


class XaStore:
    """Keeps copies of spans of the relay log. Its memory is bounded for branches of any size."""

    def __init__(
        self, folder: str, here: str = "", *, keep_all: bool = False, hidden: Hidden | None = None,
        epoch: int = 0, remover: Remover | None = None,
    ) -> None:  # fmt: skip
        """Store branches for one owner.

        ``hidden``: called with each table's name on the source; None: no table has values that must
        not be kept as they are in the log. ``epoch``: of the owner, which keeps branches and
        removes them with the ``remover``.
        """
        self.folder, self.here, self._hidden = folder, here or folder, hidden
        self._epoch, self._remover = epoch, remover or Remover()
        self._keep_all = keep_all  # whether the applier will go back to an earlier cut

    def keep_ended(self, keep: bool) -> None:
        """Set whether the bytes of branches that have ended stay, because the applier will go back
        to an earlier cut at which they are still prepared."""
        self._keep_all = keep

    def path(self, position: int) -> str:
        """Return the path at which this owner keeps the branch of an XA PREPARE; no other owner
        uses this name."""
        owner = f"-{self._epoch}" if self._epoch else ""
        return os.path.join(self.here, f"{position:020d}{owner}.events")

    def kept(self, fields: Mapping[str, Any]) -> Branch:
        """Return a branch of a cut's JSON, with the file of the owner that kept it."""
        name = fields.get("file", f"{fields['position']:020d}.events")
        return Branch.of_json(fields, os.path.join(self.here, name))

    def keep(self, branch: Branch) -> Branch:
        """Copy a branch's bytes durably, and return the branch with its file. Raise OSError. Raise
        TargetError if the relay log ends before the branch does, or if its values must not be kept,
        and DecodeError if it is unknown whether they may be kept."""
        if self._hidden is not None:
            _check_plain(branch, self._hidden)
        path, root = self.path(branch.position), os.path.dirname(os.path.dirname(self.here))
        with branch.open() as source, durable_file(path, root, "xa_keeping") as out:
            source.seek(branch.start)
            copy_bytes(source, out, branch.size, branch.path)
        if self._apart:
            with open(path, "rb") as source, storage.open_output(self._kept(path)) as out:
                shutil.copyfileobj(source, out, _COPY_BYTES)
        reach("xa_kept")
        return branch.in_own_file(path)

    @property
    def _apart(self) -> bool:
        return self.here != self.folder

    def _kept(self, path: str) -> str:
        """Return the durable file of the bytes whose local path is ``path``."""
        return os.path.join(self.folder, os.path.basename(path))

    def _fetch(self, path: str) -> None:
        make_private_folder(self.here)
        fresh = f"{path}.{uuid.uuid4().hex}.new"
        with contextlib.suppress(FileNotFoundError):
            with storage.open_input(self._kept(path)) as source, open(fresh, "wb") as out:
                shutil.copyfileobj(source, out, _COPY_BYTES)
            os.replace(fresh, path)

    def check(self, branches: Iterable[Branch]) -> None:
        """Raise TargetError if the bytes of a prepared branch are missing."""
        for branch in branches:
            if _size(branch.path) != branch.size:
                self._fetch(branch.path)
            if _size(branch.path) != branch.size:
                raise TargetError(
                    f"the bytes of the prepared XA branch {branch.xid} are gone",
                    file=branch.path,
                    gtid=branch.gtid,
                    hint="restore the file; or end the branch, which spark-repl xa list --config F"
                    " shows: spark-repl xa rollback --config F --xid XID",
                )

    def forget(self, branches: Iterable[Branch], make_durable: Callable[[], None]) -> None:
        """Remove the files of branches that have ended, after ``make_durable`` has made the record
        of their end durable. Raise OSError; the caller then has to call it again."""
        removable = [branch for branch in branches if branch.path.startswith(self.here)]
        if removable and not self._keep_all:
            make_durable()
            for branch in removable:
                reach("xa_forget")
                self._remover.files(self._both(branch.path))

    def clean(self, branches: Iterable[Branch], make_durable: Callable[[], None]) -> None:
        """Remove, at start, files that no branch of the last cut needs, after ``make_durable`` has
        made that cut durable: later branches are still in the log. Raise OSError."""
        wanted = {os.path.basename(branch.path) for branch in branches}
        unneeded = {*storage.names(self.folder), *storage.names(self.here)} - wanted
        for name in unneeded:
            if later := _LATER.fullmatch(name):
                path = os.path.join(self.folder, name)
                formats.check(int(later[1]), _FORMAT, "a prepared XA branch", path)
        if not self._keep_all:
            paths = (os.path.join(self.here, name) for name in sorted(unneeded))
            self._remover.files((each for path in paths for each in self._both(path)), make_durable)

    def _both(self, path: str) -> set[str]:
        """Return where a branch's bytes are, by its local path: there, and below the target."""
        return {path, self._kept(path)}


def _check_plain(branch: Branch, hidden: Hidden) -> None:
    """Raise TargetError for a branch with rows of a table that has hidden columns."""
    with branch.open() as file:
        tables = tables_of(file, branch.start, branch.end, CRC_LENGTH * branch.checksum)
    tables_hidden = sorted(filter(None, map(hidden, tables or ())))
    if tables is not None and not tables_hidden:
        return
    what = "its rows" if tables_hidden else "its statements' texts (binlog_rows_query_log_events)"
    raise TargetError(
        f"XA {branch.xid} stays prepared, and the target would have {what} as they are in the log,"
        " where [[tables]] has columns masked or left out",
        gtid=branch.gtid,
        table=", ".join(tables_hidden) or None,
        hint="end the branch on the source and start again; or leave such tables to a channel of"
        " their own, without XA",
    )


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else -1
