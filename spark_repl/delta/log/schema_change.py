"""A table's schemaString after ALTER TABLE.

Columns that stay keep their data, also under a new definition. New columns get an id and a physical
name that no file has yet.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..files.delta_columns import field_json, is_moment
from .table_snapshot import NewTable, Snapshot

_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_MAX_ID, _MODE = "delta.columnMapping.maxColumnId", "delta.columnMapping.mode"
# Features that a table without them must enable before it may get a column of the type.
_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}


def has_mapping(configuration: Mapping[str, str]) -> bool:
    """Return whether column mapping is on, so that data files use the columns' physical names."""
    return configuration.get(_MODE, "none") != "none"


def altered(
    before: Snapshot, wanted: pa.Schema, previous: Sequence[int | None], partitions: Sequence[str]
) -> NewTable:
    """Return the table's metadata with the columns ``wanted``. ``previous`` [columns]: the number
    of the earlier column whose data it has, None for a new column; ``partitions``: the current
    names of the partition columns."""
    fields = json.loads(before.schema_string)["fields"]
    configuration = dict(before.configuration)
    ids = ColumnIds(configuration)
    new_fields = []
    for field, number in zip(wanted, previous, strict=True):
        nullable = field.nullable or is_moment(field.type)
        if number is None:
            new = ids.given(field_json(field))
        else:
            new = {**fields[number], "name": field.name}
        new_fields.append({**new, "nullable": nullable})
    featured(configuration, before, new_fields)
    ids.keep(configuration)
    schema = json.dumps({"type": "struct", "fields": new_fields})
    return NewTable(schema, configuration, tuple(partitions))


def featured(
    configuration: dict[str, str], before: Snapshot, fields: Sequence[Mapping[str, Any]]
) -> None:
    """Add properties to ``configuration`` that request the features which the types of ``fields``
    need and the table lacks."""
    features = {feature for field in fields for feature in _needs(field["type"])}
    for feature in sorted(features - before.features):
        configuration[f"delta.feature.{feature}"] = "supported"


def keeps_columns(before: str, after: str) -> bool:
    """Return whether all columns of one schemaString are in another, under the same names."""
    old, new = ({_physical(field): field["name"] for field in json.loads(schema)["fields"]}
                for schema in (before, after))  # fmt: skip
    return old.items() <= new.items()


def _physical(field: dict[str, Any]) -> str:
    return str(field["metadata"].get(_PHYSICAL, field["name"]))


def with_column_ids(new: NewTable) -> NewTable:
    """Return a new table's metadata with ids and physical names of its columns, if columns are
    mapped."""
    configuration = dict(new.configuration)
    ids, schema = ColumnIds(configuration), json.loads(new.schema_string)
    schema["fields"] = [ids.given(field) for field in schema["fields"]]
    ids.keep(configuration)
    return replace(new, schema_string=json.dumps(schema), configuration=configuration)


class ColumnIds:
    """Assigns ids and physical names to columns and to their nested fields."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._mapped = has_mapping(configuration)
        self._last = int(configuration.get(_MAX_ID, "0"))

    def given(self, field: dict[str, Any]) -> dict[str, Any]:
        if not self._mapped:
            return field
        self._last += 1
        own = {_ID: self._last, _PHYSICAL: f"col-{uuid.uuid4()}"}
        metadata = {**field["metadata"], **own}
        return {**field, "type": self._inside(field["type"]), "metadata": metadata}

    def _inside(self, kind: Any) -> Any:
        if isinstance(kind, dict) and kind["type"] == "struct":
            return {**kind, "fields": [self.given(field) for field in kind["fields"]]}
        if isinstance(kind, dict) and kind["type"] == "array":
            return {**kind, "elementType": self._inside(kind["elementType"])}
        return kind

    def keep(self, configuration: dict[str, str]) -> None:
        if self._mapped:
            configuration[_MAX_ID] = str(self._last)


def _needs(kind: Any) -> set[str]:
    return {_FEATURES[kind]} if isinstance(kind, str) and kind in _FEATURES else set()
