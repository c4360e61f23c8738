"""A table's protocol: the features that its metadata needs, and the protocol that declares them.

Delta protocol, sections "Table Features" and "Valid Feature Names in Table Features". A protocol of
reader version 3 and writer version 7 lists its features; older versions imply them.

Writers must honour a table's features and properties: this module honours them, or refuses them by
name. Other engines may enable features (ALTER TABLE ... SET TBLPROPERTIES) or create tables with
them. A feature that this module doesn't know is refused: its rules would be broken silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from ...errors import TargetError, reset_table
from ..files.partitions import MATERIALIZED
from ..store.storage import inner_path
from .table_snapshot import CATALOG_MANAGED

if TYPE_CHECKING:
    import pyarrow as pa

    from .table_snapshot import Snapshot

Action = dict[str, Any]

SUPPORTED = "delta.feature."
"""prefix of a property that requests a feature by name; such a property is not stored"""

_READER_FEATURES = frozenset(
    {
        CATALOG_MANAGED,
        "deletionVectors", "columnMapping", "timestampNtz", "variantType", "variantType-preview",
        "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck",
    }
)  # fmt: skip
_IMPLIED_READER = {2: ("columnMapping",)}
_IMPLIED_WRITER = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_BY_PROPERTY = {
    "delta.enableDeletionVectors": ("deletionVectors",),
    "delta.enableChangeDataFeed": ("changeDataFeed",),
    "delta.enableRowTracking": ("rowTracking",),
    "delta.enableInCommitTimestamps": ("inCommitTimestamp",),
    "delta.enableTypeWidening": ("typeWidening",),
}
_BY_TYPE = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_REQUIRED = {"rowTracking": "domainMetadata", "clustering": "domainMetadata"}
"""feature -> the feature that it requires"""
_ALWAYS = ("appendOnly", "invariants")
"""features that Delta lists in each protocol of writer version 7"""


def features_of(protocol: Mapping[str, Any]) -> frozenset[str]:
    """Return the features that a ``protocol`` action lists or implies."""
    listed = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    reader, writer = protocol["minReaderVersion"], protocol["minWriterVersion"]
    if reader < 3:
        listed |= {name for at, names in _IMPLIED_READER.items() if at <= reader for name in names}
    if writer < 7:
        listed |= {name for at, names in _IMPLIED_WRITER.items() if at <= writer for name in names}
    return frozenset(listed)


def needed_by(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the features that a table with this ``metaData`` action needs because of its
    properties or the types of its columns, and those that it requests by name
    (``delta.feature.X``)."""
    properties: Mapping[str, str] = metadata["configuration"]
    needed = {name.removeprefix(SUPPORTED) for name in properties if name.startswith(SUPPORTED)}
    for name, features in _BY_PROPERTY.items():
        if properties.get(name, "").lower() == "true":
            needed.update(features)
    if properties.get("delta.columnMapping.mode", "none") != "none":
        needed.add("columnMapping")
    if properties.get("delta.checkpointPolicy", "classic") == "v2":
        needed.add("v2Checkpoint")
    kinds = set(_types(json.loads(metadata["schemaString"])))
    needed.update(feature for kind, feature in _BY_TYPE.items() if kind in kinds)
    needed.update(required for name, required in _REQUIRED.items() if name in needed)
    return frozenset(needed)


def declaring(features: frozenset[str], before: Mapping[str, Any] | None = None) -> Action:
    """Return the ``protocol`` that declares ``features`` and those of the protocol ``before``."""
    reader, writer = 1, 2
    if before:
        reader, writer = before["minReaderVersion"], before["minWriterVersion"]
        features |= features_of(before)
    if features <= frozenset(_ALWAYS) and writer < 7:
        return {"minReaderVersion": reader, "minWriterVersion": writer}
    features |= frozenset(_ALWAYS)
    readers = sorted(features & _READER_FEATURES)
    action: Action = {"minReaderVersion": 3, "minWriterVersion": 7}
    if not readers and reader < 3:
        action["minReaderVersion"] = 1
    else:
        action["readerFeatures"] = readers
    action["writerFeatures"] = sorted(features)
    return action


def stored(metadata: Mapping[str, Any]) -> Action:
    """Return the ``metaData`` action in its stored form: without properties that request
    features."""
    properties = metadata["configuration"].items()
    stored_properties = {
        name: value for name, value in properties if not name.startswith(SUPPORTED)
    }
    return {**metadata, "configuration": stored_properties}


def _types(node: Any) -> Iterator[str]:
    """Yield the names of the primitive types in a schema, at any depth."""
    if isinstance(node, list):
        for item in node:
            yield from _types(item)
    elif isinstance(node, dict):
        for name in ("type", "elementType", "keyType", "valueType"):
            kind = node.get(name)
            if isinstance(kind, str):
                yield kind
            elif kind is not None:
                yield from _types(kind)
        yield from _types(node.get("fields", []))


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
        # commits go to the catalog (delta/managed); delta/log/table_log refuses without one
        CATALOG_MANAGED,
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
    """Raise TargetError that names every feature which the applier does not support."""
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
    outside the folder, as in a shallow clone, because VACUUM of the other table could remove the
    file."""
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
