"""XA branches: prepared at one place of the log, committed or rolled back at another (WL#6860).

A branch is no more than the span of its first part. Until its second part comes, no table sees it:
its bytes are kept beside the cut that names it, so that neither a restart nor a purged relay log
loses it. XA COMMIT then has its rows decoded as if they stood where XA COMMIT stands.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..binlog.events.transaction import Kind
from ..errors import StatementError

# The server always logs XIDs in this form, whatever the client wrote.
_STATEMENT = re.compile(
    rb"XA (?:START|COMMIT|ROLLBACK) X'([0-9a-fA-F]*)',\s*X'([0-9a-fA-F]*)',\s*(\d+)"
)
_UNKNOWN, _WRONG_STATE, _DUPLICATE = 1397, 1399, 1440
DAMAGED = "the log is damaged here: spark-repl relay dump shows its events"
_PART_BYTES_MAX, _FORMAT_ID_MAX = 64, (1 << 32) - 1


@dataclass(frozen=True, order=True)
class Xid:
    """Bytes, compared as bytes: they may hold NUL and quotes. ``format_id`` is 32 bits."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    @classmethod
    def parse(cls, statement: bytes) -> Xid:
        """Of ``XA START X'..',X'..',n`` and its like. Raises StatementError."""
        found = _STATEMENT.match(statement)
        if found is None:
            shown = statement[:80].decode("utf-8", "replace")
            raise StatementError(f"an XA statement without a readable XID: {shown}")
        xid = cls(int(found[3]), *(bytes.fromhex(found[i].decode()) for i in (1, 2)))
        if not xid.is_valid:
            raise StatementError(
                f"an XA statement holds an invalid XID: {found[0].decode()}", hint=DAMAGED
            )
        return xid

    @classmethod
    def of_hex(cls, text: str) -> Xid:
        """``gtrid[,bqual[,format_id]]``, the first two in hex. Raises ValueError."""
        gtrid, bqual, format_id, *rest = [*text.split(","), "", ""][: max(3, text.count(",") + 1)]
        xid = cls(int(format_id or 1), bytes.fromhex(gtrid), bytes.fromhex(bqual))
        if rest or not text or not xid.is_valid:
            raise ValueError(f"no XID: {text}")
        return xid

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Xid:
        return cls(found["format_id"], bytes.fromhex(found["gtrid"]), bytes.fromhex(found["bqual"]))

    def to_json(self) -> dict[str, Any]:
        return {
            "format_id": self.format_id,
            "gtrid": self.gtrid.hex(),
            "bqual": self.bqual.hex(),
        }

    @property
    def is_valid(self) -> bool:
        longest = max(len(self.gtrid), len(self.bqual))
        return longest <= _PART_BYTES_MAX and 0 <= self.format_id <= _FORMAT_ID_MAX

    @property
    def logged(self) -> bytes:
        """As it ends an XA_PREPARE event."""
        sizes = struct.pack("<III", self.format_id, len(self.gtrid), len(self.bqual))
        return sizes + self.gtrid + self.bqual

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True)
class Branch:
    """A prepared branch: ``[start, end)`` of ``path`` holds its first part.

    ``position`` (packed) and ``gtid`` are those of its XA PREPARE; ``prepared_at`` in microseconds.
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

    @property
    def size(self) -> int:
        return self.end - self.start

    def kept(self, path: str) -> Branch:
        """The same branch, its bytes now alone in a file of their own."""
        return replace(self, path=path, start=0, end=self.size)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.xid.to_json(),
            "position": self.position,
            "gtid": self.gtid,
            "prepared_at": self.prepared_at,
            "bytes": self.size,
            "checksum": self.checksum,
            "compressed": self.compressed,
            "uncompressed": self.uncompressed,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any], path: str) -> Branch:
        return cls(
            Xid.of_json(found), found["position"], found["gtid"], found["prepared_at"], path, 0,
            found["bytes"], found["checksum"], found["compressed"], found["uncompressed"],
        )  # fmt: skip


class Branches:
    """The branches that are prepared at one place of the log, by XID."""

    def __init__(self, prepared: Iterable[Branch] = ()) -> None:
        self._prepared = {branch.xid: branch for branch in prepared}

    def __iter__(self) -> Any:
        return iter(sorted(self._prepared.values(), key=lambda branch: branch.position))

    def __len__(self) -> int:
        return len(self._prepared)

    def __contains__(self, xid: Xid) -> bool:
        return xid in self._prepared

    def prepare(self, branch: Branch) -> None:
        """Raises StatementError 1440 when the XID is prepared already."""
        if branch.xid in self._prepared:
            raise StatementError(
                f"XAER_DUPID: The XID already exists: {branch.xid}", number=_DUPLICATE,
                hint="the log prepares one XID twice: was a part of it left out?",
            )  # fmt: skip
        self._prepared[branch.xid] = branch

    def end(self, xid: Xid) -> Branch:
        """Takes the branch out. Raises StatementError 1397 when there is none."""
        try:
            return self._prepared.pop(xid)
        except KeyError:
            raise StatementError(
                f"XAER_NOTA: Unknown XID {xid}", number=_UNKNOWN,
                hint="its XA PREPARE lies before the log's beginning: give the older files too, or"
                " leave this transaction out with spark-repl skip",
            ) from None  # fmt: skip


def wrong_state() -> StatementError:
    """1399: a first part that ends with neither XA PREPARE nor a rollback."""
    return StatementError(
        "XAER_RMFAIL: The command cannot be executed when global transaction is in the IDLE state:"
        " an XA transaction ends without an XA_PREPARE event",
        number=_WRONG_STATE,
        hint=DAMAGED,
    )


Step = tuple[int, Kind, Branch]


@dataclass
class XaGroup:
    """What a group does to branches. ``steps``: its XA parts, by index of its records;
    ``prepared``: the branches behind it, all durable; ``commits``: whose rows it holds."""

    before: list[Branch] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    prepared: list[Branch] = field(default_factory=list)
    commits: dict[int, Branch] = field(default_factory=dict)
    ended: list[Branch] = field(default_factory=list)
