"""The protocol that a table's metadata asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_repl.delta.log.table_protocol import declaring, features_of, needed_by, stored

INTEGER = {"name": "a", "type": "integer", "nullable": True, "metadata": {}}


def metadata(properties: dict[str, str], kind: Any = "integer") -> dict[str, Any]:
    fields = [INTEGER, {**INTEGER, "name": "b", "type": kind}]
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"id": "1", "schemaString": schema, "configuration": properties}


@pytest.mark.parametrize(
    ("properties", "kind", "needed"),
    [
        ({}, "integer", set()),
        ({"delta.enableDeletionVectors": "false"}, "integer", set()),
        ({"delta.enableDeletionVectors": "true"}, "integer", {"deletionVectors"}),
        ({"delta.enableChangeDataFeed": "TRUE"}, "integer", {"changeDataFeed"}),
        ({"delta.columnMapping.mode": "name"}, "integer", {"columnMapping"}),
        ({"delta.columnMapping.mode": "none"}, "integer", set()),
        ({"delta.checkpointPolicy": "v2"}, "integer", {"v2Checkpoint"}),
        ({"delta.feature.rowTracking": "supported"}, "integer", {"rowTracking", "domainMetadata"}),
        ({}, "timestamp_ntz", {"timestampNtz"}),
        ({}, {"type": "array", "elementType": "variant", "containsNull": True}, {"variantType"}),
        ({}, {"type": "struct", "fields": [{**INTEGER, "type": "variant"}]}, {"variantType"}),
    ],
)
def test_metadata_needs_the_features_of_its_types_and_properties(properties, kind, needed):
    assert needed_by(metadata(properties, kind)) == needed


@pytest.mark.parametrize(
    ("features", "protocol"),
    [
        (set(), {"minReaderVersion": 1, "minWriterVersion": 2}),
        ({"changeDataFeed"}, {
            "minReaderVersion": 1, "minWriterVersion": 7,
            "writerFeatures": ["appendOnly", "changeDataFeed", "invariants"],
        }),
        ({"deletionVectors"}, {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["appendOnly", "deletionVectors", "invariants"],
        }),
    ],
)  # fmt: skip
def test_a_new_table_declares_its_features(features, protocol):
    assert declaring(frozenset(features)) == protocol


def test_an_older_protocol_keeps_what_it_implies():
    before = {"minReaderVersion": 2, "minWriterVersion": 5}
    assert features_of(before) == {
        "columnMapping", "appendOnly", "invariants", "checkConstraints", "changeDataFeed",
        "generatedColumns",
    }  # fmt: skip
    after = declaring(frozenset({"deletionVectors"}), before)
    assert features_of(after) == features_of(before) | {"deletionVectors"}
    assert after["readerFeatures"] == ["columnMapping", "deletionVectors"]
    assert declaring(frozenset(), before) == declaring(frozenset({"columnMapping"}), before)


def test_properties_that_ask_for_features_are_not_stored():
    asked = metadata({"delta.feature.x": "supported", "delta.appendOnly": "true"})
    assert stored(asked)["configuration"] == {"delta.appendOnly": "true"}
