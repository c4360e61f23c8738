"""The oracle: commits by Delta's own transaction in Spark, and versions as Delta reads them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_repl.delta.log.table_snapshot import NewTable
from tests.support.local_delta import metadata_action

Action = dict[str, Any]


@dataclass(frozen=True)
class Read:
    """A version as Delta reads it. ``files``: the ``add`` actions by path."""

    protocol: Action
    metadata: Action
    files: dict[str, Action]
    txns: dict[str, int]
    domains: dict[str, Action]
    timestamp_ms: int | None


class SparkLog:
    """A table's log through Delta's transaction, on the newest version."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark, self.folder = spark, folder
        jvm: Any = spark._jvm
        self._jvm, self._package = jvm, jvm.org.apache.spark.sql.delta

    def create(self, new: NewTable) -> None:
        begun = self._begin()
        metadata = metadata_action(new, str(uuid.uuid4()))
        begun.updateMetadata(self._action(metadata), False)
        update = getattr(self._package, "DeltaOperations$ManualUpdate$")
        self._send(begun, [], getattr(update, "MODULE$"))

    def commit(
        self, actions: Sequence[Action], app: str, position: int, user_metadata: str = ""
    ) -> None:
        """Commit as a stream does that writes a batch."""
        update = getattr(self._package, "DeltaOperations$StreamingUpdate")(
            self._jvm.org.apache.spark.sql.streaming.OutputMode.Update(),
            app,
            position,
            self._jvm.scala.Option.apply(user_metadata or None),
        )
        txn = {"txn": {"appId": app, "version": position}}
        self._send(self._begin(), [*actions, txn], update)

    def sql(self, clause: str) -> None:
        """Alter the table, as SQL does."""
        self.spark.sql(f"ALTER TABLE delta.`{self.folder}` {clause}")

    def checkpoint(self) -> None:
        log = self._log()
        written = log.writeCheckpointFiles(
            log.update(False, self._none(), self._none()), self._none()
        )
        log.writeLastCheckpointFile(log, written, True)

    def schema_string(self) -> str:
        return str(self._log().update(False, self._none(), self._none()).metadata().schemaString())

    def read(self, version: int) -> Read:
        """Return a version as Delta reads it from the files: nothing is remembered."""
        self._package.DeltaLog.clearCache()
        java = self._log().getSnapshotAt(version, self._none(), self._none(), False)
        nothing = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(
            self._jvm.java.util.HashMap()
        )
        assert java.validateChecksum(nothing)
        frame = DataFrame(java.allFiles().toDF(), self.spark)
        adds = [json.loads(row[0]) for row in frame.selectExpr("to_json(struct(*))").collect()]
        to_java = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava
        domains = [
            json.loads(one.json())["domainMetadata"] for one in to_java(java.domainMetadata())
        ]
        ict = java.getInCommitTimestampOpt()
        return Read(
            json.loads(java.protocol().json())["protocol"],
            json.loads(java.metadata().json())["metaData"],
            {add["path"]: add for add in adds},
            {name: int(at) for name, at in to_java(java.transactions()).items()},
            {one["domain"]: one for one in domains},
            int(ict.get()) if ict.isDefined() else None,
        )

    def _begin(self) -> Any:
        return self._log().startTransaction(self._none(), self._none())

    def _log(self) -> Any:
        return self._package.DeltaLog.forTable(self.spark._jsparkSession, self.folder)

    def _none(self) -> Any:
        return self._jvm.scala.Option.empty()

    def _send(self, begun: Any, actions: Sequence[Action], operation: Any) -> None:
        java = self._jvm.java.util.ArrayList()
        for action in actions:
            java.add(self._action(action))
        sequence = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(java)
        begun.commit(sequence, operation)

    def _action(self, action: Action) -> Any:
        return self._package.actions.Action.fromJson(json.dumps(action))
