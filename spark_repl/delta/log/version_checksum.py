"""Version checksums: a small file beside a commit, from which Spark opens the version.

Delta protocol, section "Version Checksum File". It has protocol, metadata, transactions, domains,
and the number and bytes of the live files, so that a reader need not replay the log for them. Each
is computed from the previous one and the commit's own actions. A reader works without a checksum,
so a failure here is not an error.

On an object store a checksum would be a third of a small commit's writes. There only versions with
a checkpoint get one, unless the table has in-commit timestamps: the newest commit may be removed,
and then only its checksum has its timestamp.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any

from ...errors import TargetError
from ...runtime.target_uri import is_remote
from ..store.storage import put, put_if_absent, read
from .log_replay import checksum_path
from .log_state import LiveTotals, LogState

Action = dict[str, Any]

logger = logging.getLogger(__name__)
_FEW = 100


def belongs_to_each(folder: str, state: LogState) -> bool:
    """Return whether each commit to the table at ``folder`` writes a checksum."""
    return not is_remote(folder) or state.has_timestamps


def read_totals(folder: str, version: int) -> LiveTotals | None:
    """Return the totals in a version's checksum; None if there is no checksum, or it lacks some of
    them."""
    with suppress(OSError, TargetError, ValueError, KeyError):
        content = json.loads(read(checksum_path(folder, version)))
        deleted, vectors = content.get("numDeletedRecordsOpt"), content.get("numDeletionVectorsOpt")
        if vectors is None and "deletionVectors" in content["protocol"].get("readerFeatures", ()):
            return None
        return LiveTotals(
            content["numFiles"], content["tableSizeBytes"], vectors or 0, deleted or 0
        )
    return None


def write(folder: str, state: LogState, txn_id: str | None) -> None:
    """Write the checksum of a version that spark_repl committed, if its totals are known. A failure
    is only logged, because the commit already exists."""
    totals = state.totals
    if totals is None:
        return
    content: Action = {"txnId": txn_id} if txn_id else {}
    content |= {"tableSizeBytes": totals.size_bytes, "numFiles": totals.files}
    if "deletionVectors" in state.protocol.get("readerFeatures", ()):
        content["numDeletedRecordsOpt"] = totals.deleted_rows
        content["numDeletionVectorsOpt"] = totals.vectors
    content |= {"numMetadata": 1, "numProtocol": 1}
    if state.timestamp_ms is not None:
        content["inCommitTimestampOpt"] = state.timestamp_ms
    content |= {"metadata": state.metadata, "protocol": state.protocol}
    # Both are optional, and each commit writes them again: long lists would cost too much.
    if len(state.txns) <= _FEW:
        content["setTransactions"] = list(state.txns.values())
    if len(state.domains) <= _FEW:
        content["domainMetadata"] = list(state.domains.values())
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    # A disk may have the checksum of a commit that a power failure took. On a store another engine
    # may have written this one with its checkpoint, which the protocol forbids to replace.
    write_file = put_if_absent if is_remote(folder) else put
    try:
        with suppress(FileExistsError):
            write_file(checksum_path(folder, state.version), text.encode())
    except (OSError, TargetError) as error:
        logger.info("%s: version %d has no checksum: %s", folder, state.version, error)
