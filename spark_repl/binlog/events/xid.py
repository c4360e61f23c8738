"""Xid: an XA transaction's identifier, as in statements and XA_PREPARE events."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import StatementError

# The server always logs XIDs in this form, whatever the client wrote.
_STATEMENT = re.compile(
    rb"XA (?:START|COMMIT|ROLLBACK) X'([0-9a-fA-F]*)',\s*X'([0-9a-fA-F]*)',\s*(\d+)"
)
DAMAGED = "the log is damaged here: spark-repl relay dump shows its events"
_PART_BYTES_MAX, _FORMAT_ID_MAX = 64, (1 << 32) - 1


@dataclass(frozen=True, order=True)
class Xid:
    """An XA transaction's identifier. Its parts are compared as bytes: they may contain NUL and
    quotes. ``format_id`` has 32 bits."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    @classmethod
    def parse(cls, statement: bytes) -> Xid:
        """Parse the Xid of ``XA START X'..',X'..',n``, or of XA COMMIT or XA ROLLBACK in this form.
        Raise StatementError if it is missing or invalid."""
        match = _STATEMENT.match(statement)
        if match is None:
            printed = statement[:80].decode("utf-8", "replace")
            raise StatementError(f"an XA statement without a readable XID: {printed}")
        xid = cls(int(match[3]), *(bytes.fromhex(match[i].decode()) for i in (1, 2)))
        if not xid.is_valid:
            raise StatementError(
                f"an XA statement holds an invalid XID: {match[0].decode()}", hint=DAMAGED
            )
        return xid

    @classmethod
    def of_hex(cls, text: str) -> Xid:
        """Parse ``gtrid[,bqual[,format_id]]``, whose first two parts are hexadecimal. Raise
        ValueError if it is invalid."""
        gtrid, bqual, format_id, *rest = [*text.split(","), "", ""][: max(3, text.count(",") + 1)]
        xid = cls(int(format_id or 1), bytes.fromhex(gtrid), bytes.fromhex(bqual))
        if rest or not text or not xid.is_valid:
            raise ValueError(f"no XID: {text}")
        return xid

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Xid:
        return cls(
            fields["format_id"], bytes.fromhex(fields["gtrid"]), bytes.fromhex(fields["bqual"])
        )

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
        """The bytes of the Xid at the end of an XA_PREPARE event."""
        sizes = struct.pack("<III", self.format_id, len(self.gtrid), len(self.bqual))
        return sizes + self.gtrid + self.bqual

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"
