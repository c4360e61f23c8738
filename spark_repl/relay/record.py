"""The index's record of a transaction, and functions that read records."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..binlog.events.transaction import Flag, Kind
from ..gtid import format_gtid
from ..position import RelayPosition

__all__ = ["RECORD", "Flag", "Kind", "gtid_name", "gtid_text", "holding"]

RECORD = np.dtype(
    [
        ("position", "<i8"),  # packed RelayPosition of the first event
        ("end", "<i8"),  # packed, after the last byte; same file
        ("length", "<i8"),  # bytes in the file
        ("uncompressed", "<i8"),  # bytes of its events when not compressed
        ("last_committed", "<i8"),
        ("sequence_number", "<i8"),
        ("commit_time", "<i8"),  # microseconds UTC
        ("gno", "<i8"),  # 0: anonymous
        ("query_offset", "<i8"),  # in the file, of the Query (INCIDENT: that) event, else 0
        ("uuid", "V16"),
        ("tag", "S32"),
        ("row_events", "<i4"),  # -1: unknown (compressed)
        ("kind", "u1"),  # Kind
        ("flags", "u1"),  # Flag
        ("spare", "V2"),
    ]
)


def gtid_text(records: Any) -> list[str]:
    """Return ``uuid[:tag]:gno`` of each record (one or an array); "" for anonymous transactions."""
    rows = np.atleast_1d(records)
    columns = (rows[name].tolist() for name in ("uuid", "tag", "gno"))
    return [
        format_gtid(bytes(uuid), tag.decode(), gno) for uuid, tag, gno in zip(*columns, strict=True)
    ]


def gtid_name(record: Any) -> str:
    """Return the name of a record's transaction in errors."""
    return gtid_text(record)[0] or "ANONYMOUS"


def holding(records: Any, position: str | None) -> int:
    """Return the index of the record that contains an error's ``position`` (FILE:OFFSET); 0 if it
    is None."""
    if position is None:
        return 0
    packed = RelayPosition.parse(position).packed
    return max(0, int(np.searchsorted(records["position"], packed, "right")) - 1)
