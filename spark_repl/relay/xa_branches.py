"""XA branches: prepared at one place of the log, committed or rolled back at another (WL#6860).

A branch is the span of its first part. Until its second part comes, no table shows it. Its bytes
are stored beside the cut that names it, so that neither a restart nor a purged relay log loses it.
At XA COMMIT its rows are decoded as if they were logged at that place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from ..binlog.events.transaction import Kind
from ..binlog.events.xid import DAMAGED, Xid
from ..errors import StatementError
from .split_transactions import Piece, open_pieces

_UNKNOWN, _WRONG_STATE, _DUPLICATE = 1397, 1399, 1440


@dataclass(frozen=True)
class Branch:
    """A prepared branch: ``[start, end)`` of ``path`` has its first part.

    If there are ``pieces``, offsets refer to the concatenated pieces. ``position`` (packed) and
    ``gtid`` belong to its XA PREPARE, ``prepared_at`` is its time in microseconds since 1970 UTC.
    """

    xid: Xid
    position: int
    gtid: str
    prepared_at: int
    path: str
    start: int
    end: int
    checksum: bool
    compressed: bool
    uncompressed: int
    pieces: tuple[Piece, ...] = ()

    def open(self) -> BinaryIO:
        """Open the bytes to which ``start`` and ``end`` refer."""
        return open_pieces(self.pieces) if self.pieces else open(self.path, "rb")

    @property
    def size(self) -> int:
        return self.end - self.start

    def in_own_file(self, path: str) -> Branch:
        """Return the branch with its bytes in a separate file, ``path``."""
        return replace(self, path=path, start=0, end=self.size, pieces=())

    def to_json(self) -> dict[str, Any]:
        """Return the branch in the form that a cut records, after its bytes were stored."""
        return {
            **self.xid.to_json(),
            "position": self.position,
            "gtid": self.gtid,
            "prepared_at": self.prepared_at,
            "bytes": self.size,
            "checksum": self.checksum,
            "compressed": self.compressed,
            "uncompressed": self.uncompressed,
            "file": os.path.basename(self.path),
        }

    @classmethod
    def of_json(cls, fields: Mapping[str, Any], path: str) -> Branch:
        return cls(
            Xid.of_json(fields), fields["position"], fields["gtid"], fields["prepared_at"], path, 0,
            fields["bytes"], fields["checksum"], fields["compressed"], fields["uncompressed"],
        )  # fmt: skip


class Branches:
    """The branches that are prepared at one position of the log, by XID."""

    def __init__(self, prepared: Iterable[Branch] = ()) -> None:
        self._prepared = {branch.xid: branch for branch in prepared}

    def __iter__(self) -> Any:
        return iter(sorted(self._prepared.values(), key=lambda branch: branch.position))

    def __len__(self) -> int:
        return len(self._prepared)

    def __contains__(self, xid: Xid) -> bool:
        return xid in self._prepared

    def prepare(self, branch: Branch) -> None:
        """Add a branch. Raise StatementError 1440 if its XID is already prepared."""
        if branch.xid in self._prepared:
            raise StatementError(
                f"XAER_DUPID: The XID already exists: {branch.xid}", number=_DUPLICATE,
                hint="the log prepares one XID twice: was a part of it left out?",
            )  # fmt: skip
        self._prepared[branch.xid] = branch

    def end(self, xid: Xid) -> Branch:
        """Remove a branch and return it. Raise StatementError 1397 if none has the XID."""
        try:
            return self._prepared.pop(xid)
        except KeyError:
            raise StatementError(
                f"XAER_NOTA: Unknown XID {xid}", number=_UNKNOWN,
                hint="its XA PREPARE lies before the log's beginning: give the older files too, or"
                " leave this transaction out: spark-repl skip --config F --gtid GTID",
            ) from None  # fmt: skip


def wrong_state() -> StatementError:
    """Return error 1399, for a first part that ends with neither XA PREPARE nor a rollback."""
    return StatementError(
        "XAER_RMFAIL: The command cannot be executed when global transaction is in the IDLE state:"
        " an XA transaction ends without an XA_PREPARE event",
        number=_WRONG_STATE,
        hint=DAMAGED,
    )


Step = tuple[int, Kind, Branch]


@dataclass(frozen=True)
class XaGroup:
    """The effect of a group on XA branches.

    ``before``: the branches that are prepared before the group. ``steps``: the group's XA parts, by
    index of its records. ``prepared``: the branches that are prepared after it, all durable.
    ``commits``: the branches whose rows it applies, by index of their XA COMMIT. ``ended``: the
    branches that it commits or rolls back.
    """

    before: tuple[Branch, ...] = ()
    steps: tuple[Step, ...] = ()
    prepared: tuple[Branch, ...] = ()
    commits: Mapping[int, Branch] = field(default_factory=dict)
    ended: tuple[Branch, ...] = ()
