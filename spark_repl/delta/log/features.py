"""Table features and properties that writers must honour: this module honours them, or refuses them
by name.

Other engines may enable features (ALTER TABLE ... SET TBLPROPERTIES) or create tables with them. A
feature that this module doesn't know is refused: its rules would be broken silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from ...errors import TargetError, reset_table
from ..files.partitions import MATERIALIZED
from ..store.storage import inner_path

if TYPE_CHECKING:
    import pyarrow as pa

    from .table_snapshot import Snapshot

HONOURED = frozenset(
    {
        # what data files and marks follow: delta/files/delta_columns, write/files, write/rows
        "deletionVectors", "columnMapping", "timestampNtz", "changeDataFeed",
        "typeWidening", "typeWidening-preview", "variantType", "variantType-preview",
        # row ids, timestamps, versions of the log: delta/log/commit_file, delta/log/table_log
        "rowTracking", "domainMetadata", "inCommitTimestamp", "inCommitTimestamp-preview",
        "v2Checkpoint", "checkpointProtection", "vacuumProtocolCheck",
        # every column is always written; clustering is done by OPTIMIZE
        "allowColumnDefaults", "clustering", MATERIALIZED,
        # refused where they are in use, see ``_uses``
        "appendOnly", "invariants", "checkConstraints", "generatedColumns", "identityColumns",
    }
)  # fmt: skip
_MAY_BE_OUTSIDE = r"^/|^[A-Za-z][A-Za-z0-9+.-]+:/|\.\.|%2[Ee]"
"""paths that are absolute, or climb"""
_IN_USE = {
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
}


def check(snapshot: Snapshot, *, table: str | None = None) -> None:
    """Raise TargetError that names every feature the applier can't honour."""
    wrong = sorted(set(_listed(snapshot)))
    if wrong:
        raise TargetError(
            f"the Delta table uses what this writer can't keep to: {', '.join(wrong)}",
            table=table,
            file=snapshot.folder,
            hint="take it off (ALTER TABLE ... DROP FEATURE, DROP CONSTRAINT, UNSET TBLPROPERTIES)",
        )


def check_file_paths(folder: str, paths: pa.Array, *, table: str | None = None) -> None:
    """Raise TargetError if one of the paths [files] in the log of the table at ``folder`` is
    outside of the folder, as in a shallow clone: VACUUM of the other table removes the file."""
    candidates = paths.filter(pc.match_substring_regex(paths, _MAY_BE_OUTSIDE)).to_pylist()
    outside = next((path for path in candidates if inner_path(folder, path) is None), None)
    if outside is not None:
        raise TargetError(
            f"the Delta table has files outside of its folder, as a shallow clone has: {outside}",
            table=table,
            file=folder,
            hint=reset_table(table or "DB.TABLE"),
        )


def _listed(snapshot: Snapshot) -> Iterator[str]:
    yield from (name for name in snapshot.features if name not in HONOURED)
    yield from _uses(snapshot)


def _uses(snapshot: Snapshot) -> Iterator[str]:
    properties = snapshot.configuration
    if snapshot.has("delta.appendOnly"):
        yield "appendOnly"
    if snapshot.has("delta.enableRowTracking") and not snapshot.has("delta.enableDeletionVectors"):
        yield "rowTracking without deletion vectors"  # a rewritten file has new row ids
    if properties.get("delta.checkpoint.writeStatsAsJson", "").lower() == "false":
        yield "delta.checkpoint.writeStatsAsJson = false"  # it may lack statistics
    if "delta.setTransactionRetentionDuration" in properties:
        yield "delta.setTransactionRetentionDuration"  # the position may go
    if any(name.startswith("delta.constraints.") for name in properties):
        yield "checkConstraints"
    if snapshot.partition_columns and MATERIALIZED not in snapshot.features:
        yield f"partitions ({', '.join(snapshot.partition_columns)}) without {MATERIALIZED}"
    yield from _marked(json.loads(snapshot.schema_string))


def _marked(node: Any) -> Iterator[str]:
    """Yield features that a schema's fields, at any depth, use."""
    if isinstance(node, list):
        for item in node:
            yield from _marked(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name == "metadata":
                yield from (feature for key, feature in _IN_USE.items() if key in value)
            else:
                yield from _marked(value)
