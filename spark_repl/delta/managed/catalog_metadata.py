"""What the catalog is told of a table's metadata, in the form of Unity Catalog's Delta API.

The catalog's description and the log must agree: a commit with another schema, other properties or
another protocol tells the catalog in the same request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..log.log_replay import Action
    from ..log.log_state import LogState

_DOMAINS = ("delta.clustering", "delta.rowTracking")
"""domains that the API has"""
_OWN, _LONGEST = ("spark_repl.", "mysql."), 255
_FIELDS = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def new_metadata(state: LogState) -> dict[str, Any]:
    """Return the fields of ``createTable`` for a table whose version 0 has the ``state``."""
    metadata = state.metadata
    domains = {name: _domain(action) for name, action in state.domains.items() if name in _DOMAINS}
    return {
        "table-type": "MANAGED",
        "columns": columns(metadata["schemaString"]),
        "partition-columns": metadata["partitionColumns"],
        "properties": _described(metadata["configuration"]),
        "protocol": _protocol(state.protocol),
        "last-commit-timestamp-ms": state.timestamp_ms,
        **({"comment": comment} if (comment := metadata.get("description")) else {}),
        **({"domain-metadata": domains} if domains else {}),
    }


def metadata_changes(before: LogState, actions: Sequence[Action]) -> Iterator[dict[str, Any]]:
    """Yield the updates of the catalog's description that belong to a commit with ``actions``."""
    domains = dict[str, Any]()
    for action in actions:
        if "metaData" in action:
            yield from _described_changes(before.metadata, action["metaData"])
        elif "protocol" in action:
            yield {"action": "set-protocol", "protocol": _protocol(action["protocol"])}
        elif (domain := action.get("domainMetadata", {})).get("domain") in _DOMAINS:
            domains[domain["domain"]] = _domain(domain)
    if domains:
        yield {"action": "set-domain-metadata", "updates": domains}


def _described_changes(old: Action, new: Action) -> Iterator[dict[str, Any]]:
    if new["schemaString"] != old["schemaString"]:
        yield {"action": "set-columns", "columns": columns(new["schemaString"])}
    if new["partitionColumns"] != old["partitionColumns"]:
        names = new["partitionColumns"]
        yield {"action": "set-partition-columns", "partition-columns": names}
    if (comment := new.get("description") or "") != (old.get("description") or ""):
        yield {"action": "set-table-comment", "comment": comment}
    was, now = _described(old["configuration"]), _described(new["configuration"])
    if changed := {name: value for name, value in now.items() if was.get(name) != value}:
        yield {"action": "set-properties", "updates": changed}
    if removed := sorted(was.keys() - now.keys()):
        yield {"action": "remove-properties", "removals": removed}


def _described(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the catalog gets. Unity Catalog's server stores no value of more
    than 255 characters. Only the applier reads its own long ones, in the log."""
    return {
        name: value
        for name, value in configuration.items()
        if len(value) <= _LONGEST or not name.startswith(_OWN)
    }


def columns(schema_string: str) -> Any:
    """Return a table's schema as a ``DeltaStructType``."""
    return _type(json.loads(schema_string))


def _type(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if "fields" in node:
        fields = [{**field, "type": _type(field["type"])} for field in node["fields"]]
        return {**node, "fields": fields}
    return {_FIELDS.get(name, name): _type(value) for name, value in node.items()}


def _protocol(action: Action) -> dict[str, Any]:
    return {
        "min-reader-version": action["minReaderVersion"],
        "min-writer-version": action["minWriterVersion"],
        "reader-features": action.get("readerFeatures") or [],
        "writer-features": action.get("writerFeatures") or [],
    }


def _domain(action: Mapping[str, Any]) -> Any:
    return json.loads(action["configuration"])
