"""GTIDs of many transactions as text: an Arrow column, built without a loop over transactions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..gtid import format_uuid


def gtid_column(records: Any) -> pa.Array:
    """Return StringArray[n]: ``uuid[:tag]:gno`` of index records; NULL for anonymous
    transactions."""
    uuid = np.ascontiguousarray(records["uuid"]).view(np.uint64).reshape(-1, 2)
    tag, gno = records["tag"], records["gno"]
    changes = np.ones(len(records), bool)  # whether its UUID or tag differs from the one before
    changes[1:] = (uuid[1:] != uuid[:-1]).any(axis=1) | (tag[1:] != tag[:-1])
    sources = [
        ":".join(filter(None, (format_uuid(bytes(record["uuid"])), record["tag"].decode())))
        for record in records[changes]
    ]
    source = pa.array(sources, pa.string()).take(pa.array(np.cumsum(changes) - 1))
    number = pa.array(np.ascontiguousarray(gno), mask=gno == 0).cast(pa.string())
    return pc.binary_join_element_wise(source, number, ":")
