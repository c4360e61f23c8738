"""What a table asks of its writers: honoured, or refused by name before anything is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_repl.delta.log.log_state import LogState
from spark_repl.delta.log.table_protocol import HONOURED, check
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.errors import TargetError


def table(
    *features: str, metadata: dict[str, Any] | None = None, partitions: tuple[str, ...] = (),
    **properties: str,
) -> Snapshot:  # fmt: skip
    field = {"name": "c", "type": "long", "nullable": True, "metadata": metadata or {}}
    inner = {"type": "struct", "fields": [field]}
    outer = {"name": "s", "type": inner, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [outer]})
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    return Snapshot(
        "t", 0, "", schema, settings, LogState(0, {}, {}), frozenset(features), partitions
    )


def refused(snapshot: Snapshot) -> str:
    with pytest.raises(TargetError, match="uses what this writer can't keep to") as found:
        check(snapshot)
    assert found.value.hint
    return found.value.message.partition(": ")[2]


def test_features_that_writers_honour_are_accepted():
    check(table())
    check(table(*HONOURED))
    check(table(delta_appendOnly="false"))


@pytest.mark.parametrize(
    "feature",
    ["icebergCompatV1", "icebergCompatV2", "icebergWriterCompatV1",
     "collations-preview", "not-yet-thought-of"],
)  # fmt: skip
def test_features_that_writers_do_not_honour_are_refused_by_name(feature):
    assert refused(table("deletionVectors", feature)) == feature


def test_refused_where_in_use():
    assert refused(table("checkConstraints", delta_constraints_positive="c > 0")) == (
        "checkConstraints"
    )
    assert refused(table(delta_appendOnly="true")) == "appendOnly"
    kept = table(delta_setTransactionRetentionDuration="interval 1 day")
    assert refused(kept) == "delta.setTransactionRetentionDuration"
    lacks = table(delta_checkpoint_writeStatsAsJson="false")
    assert refused(lacks) == "delta.checkpoint.writeStatsAsJson = false"
    assert refused(table(metadata={"delta.generationExpression": "1"})) == "generatedColumns"
    assert refused(table(metadata={"delta.identity.start": 1})) == "identityColumns"
    without = "partitions (c) without materializePartitionColumns"
    assert refused(table(partitions=("c",))) == without
    check(table("materializePartitionColumns", partitions=("c",)))


def test_commits_elsewhere_are_refused():
    feature = "coordinatedCommits-preview"
    assert refused(table(feature)) == feature
