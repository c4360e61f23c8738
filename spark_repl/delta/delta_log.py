"""Delta's own transaction, through the JVM: every call into Delta's internals is in this module.

Why internals and not SQL: SQL's MERGE costs seconds for a table and commit; SQL's ALTER and CREATE
don't record the session's ``txn`` with the change. What it took to find out:

- a transaction must be opened on the snapshot that the group was planned on: opened later it would
  land over a concurrent OPTIMIZE or UPDATE and double rows;
- ``StreamingUpdate`` carries userMetadata and keeps the checksum file incremental, ``ManualUpdate``
  costs 0.6 s more a commit;
- a commit is tried on the version behind its snapshot alone (``maxCommitAttempts``): left to try
  again Delta would let it land over somebody's INSERT, whose keys nobody has looked up;
- adding the appId to ``readTxn`` makes Delta refuse a commit when another one with this appId
  landed meanwhile, and costs nothing; ``txnVersion(app)`` forces a state reconstruction of 0.5 s.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ..errors import ConcurrentChangeError, SetupError, TargetError, UnknownDeltaError
from ..runtime.object_store import is_remote
from . import checkpoint, log_replay, log_store, s3a
from .java_calls import JavaCalls
from .table_log import ALONE, NewTable, Snapshot, TableLog, fenced

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .log_replay import Action
    from .stamp import Stamp

KNOWN_DELTA = ("4.4.",)

_NO_FILES_IN_CHECKSUM = ("spark.databricks.delta.allFilesInCrc.enabled", "false")
"""A session's setting: the checksum of a version doesn't list its files. To find out that a new
table has none is a Spark job for Delta, 0.1 s of a core."""


@dataclass(frozen=True)
class _Begun:
    """Delta's own transaction on the table at ``folder``, begun."""

    folder: str
    java: Any


class DeltaLog(TableLog):
    """The log through Delta's internals; commits are made on the snapshot they were planned on."""

    direct = True

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._package = jvm.org.apache.spark.sql.delta
        _check_release(jvm)
        log_store.install(spark)
        self._ready = False  # for object stores
        self._none = jvm.scala.Option.empty()
        self._classes: dict[str, Any] = {}  # Java's, of each kind of action
        # Delta takes its settings from the thread's active session.
        self._alone = spark.newSession()._jsparkSession
        for setting in (ALONE, _NO_FILES_IN_CHECKSUM):
            self._alone.conf().set(*setting)
        self._to_list = jvm.scala.jdk.javaapi.CollectionConverters
        self._calls = JavaCalls(jvm)

    def _log(self, folder: str) -> Any:
        if is_remote(folder) and not self._ready:
            s3a.write_once(self._jvm)
            self._ready = True
        return self._package.DeltaLog.forTable(self._spark._jsparkSession, folder)

    def _at(self, folder: str, version: int | None) -> Any:
        """Delta's snapshot of a version; None: of the newest. Delta lists the log when it opens it:
        what it has found since we asked is not listed a second time, which takes the longer the
        more commits are kept. What it found before the clock was set back is none of that."""
        asked_ms = _now_ms()
        log = self._log(folder)
        captured = log.getCapturedSnapshot()
        if asked_ms < captured.updateTimestamp() <= _now_ms():
            java = captured.snapshot()
        else:
            java = log.update(False, self._none, self._none)
        if version is None or java.version() == version:
            return java
        return log.getSnapshotAt(version, self._none, self._none, False)

    def snapshot(self, folder: str, version: int | None = None) -> Snapshot | None:
        if not is_remote(folder) and not os.path.isdir(os.path.join(folder, "_delta_log")):
            return None
        try:
            java = self._at(folder, version)
        except Py4JJavaError as error:
            raise translate(error, folder) from error
        return None if java.version() < 0 else self._read(folder, java)

    @staticmethod
    def _read(folder: str, java: Any) -> Snapshot:
        metadata = json.loads(java.metadata().json())["metaData"]
        protocol = json.loads(java.protocol().json())["protocol"]
        listed = protocol.get("readerFeatures", []) + protocol.get("writerFeatures", [])
        return Snapshot(
            folder,
            int(java.version()),
            metadata["id"],
            metadata["schemaString"],
            metadata["configuration"],
            java,
            frozenset(listed),
            tuple(metadata["partitionColumns"]),
        )

    def last_txn(self, snapshot: Snapshot, app: str) -> int | None:
        try:
            return log_replay.last_txn(snapshot.folder, snapshot.version, app)
        except LookupError:  # Delta reconstructs the state: up to 5 s
            versions = self._to_list.asJava(snapshot.java.transactions())
            return next((int(v) for name, v in versions.items() if name == app), None)

    def advance(self, previous: Snapshot, version: int) -> Snapshot:
        return replace(previous, version=version, java=self._behind(previous, version))

    def altered(self, previous: Snapshot, version: int) -> Snapshot:
        return self._read(previous.folder, self._behind(previous, version))

    def _behind(self, previous: Snapshot, version: int) -> Any:
        """Delta's snapshot of a commit of ours on ``previous``."""
        # Delta knows the snapshot behind its own commit without listing the log.
        log = previous.java.deltaLog()
        java = log.unsafeVolatileSnapshot()
        if java.version() != version:
            java = self._at(previous.folder, version)
        elif version % checkpoint.EVERY == 0:
            java = self._upon_checkpoint(log, java)
        return java

    def _upon_checkpoint(self, log: Any, java: Any) -> Any:
        """The same snapshot, standing on the checkpoint that was written meanwhile: else it would
        name every commit since the start. Delta finds it by listing the log, which takes the longer
        the more commits are kept."""
        folder, segment = str(log.dataPath().toUri().getPath()), java.logSegment()
        at, deltas = checkpoint.last(folder), segment.deltas()
        behind = int(java.version()) - at
        if (
            behind < 1
            or int(deltas.size()) <= behind
            or segment.checkpointProvider().version() > at
        ):
            return java
        path = self._jvm.org.apache.hadoop.fs.Path(log.logPath(), f"{at:020d}.checkpoint.parquet")
        try:
            status = path.getFileSystem(log.newDeltaHadoopConf()).getFileStatus(path)
        except Py4JJavaError:  # it has other parts: by Delta's own look
            return self._at(folder, int(java.version()))
        files = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala([status]).toSeq()
        provider = self._package.PreloadedCheckpointProvider(files, self._none)
        shorter = segment.copy(
            segment.logPath(),
            java.version(),
            deltas.takeRight(behind),
            provider,
            segment.lastCommitFileModificationTimestamp(),
        )
        made = log.createSnapshot(shorter, self._none, self._none, java.checksumOpt())
        return log.installSnapshot(made, _now_ms())

    def version(self, folder: str) -> int:
        return int(self._log(folder).update(False, self._none, self._none).version())

    def files(self, snapshot: Snapshot) -> dict[str, Action]:
        return log_replay.live_files(snapshot.folder, snapshot.version)

    def create(self, folder: str, new: NewTable, stamp: Stamp) -> None:
        metadata = metadata_action(new, str(uuid.uuid4()))
        begun = _Begun(folder, self._log(folder).startTransaction())
        if int(begun.java.readVersion()) >= 0:
            raise ConcurrentChangeError("somebody has made the table meanwhile", file=folder)
        begun.java.readTxn().addOne(stamp.app)
        begun.java.updateMetadata(self._action(metadata), False)
        self._commit(begun, [], stamp)

    def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
        return self._commit(self._begin(planned, stamp.app), actions, stamp)

    def alter(self, planned: Snapshot, new: NewTable, actions: list[Action], stamp: Stamp) -> int:
        begun = self._begin(planned, stamp.app)
        metadata = _as(planned, new)
        try:
            begun.java.updateMetadata(self._action(metadata), False)
        except Py4JJavaError as error:
            raise translate(error, planned.folder) from error
        return self._commit(begun, actions, stamp)

    def rewrite(self, planned: Snapshot, actions: list[Action], app: str) -> int:
        begun = self._begin(planned, app)
        nothing = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(
            self._jvm.java.util.ArrayList()
        )
        operation = getattr(self._package, "DeltaOperations$Optimize")(
            nothing, nothing, True, self._none, False
        )
        return self._send(begun, actions, operation)

    def set_properties(self, planned: Snapshot, properties: Mapping[str, str], app: str) -> int:
        begun = self._begin(planned, app)
        new = NewTable(
            planned.schema_string,
            {**planned.configuration, **properties},
            planned.partition_columns,
        )
        begun.java.updateMetadata(self._action(_as(planned, new)), False)
        java = self._jvm.java.util.HashMap(properties)
        said = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(java)
        operation = getattr(self._package, "DeltaOperations$SetTableProperties")(said)
        return self._send(begun, [], operation)

    def checkpoint(self, snapshot: Snapshot) -> None:
        log = self._log(snapshot.folder)  # whose own ``checkpoint`` cleans the log too
        written = log.writeCheckpointFiles(snapshot.java, self._none)
        log.writeLastCheckpointFile(log, written, True)

    def _begin(self, planned: Snapshot, app: str) -> _Begun:
        """A transaction on a snapshot, which fails when ``app`` has committed behind it."""
        some = self._calls.option.apply(planned.java)
        transaction = planned.java.deltaLog().startTransaction(self._none, some)
        transaction.readTxn().addOne(app)
        return _Begun(planned.folder, transaction)

    def _commit(self, begun: _Begun, actions: list[Action], stamp: Stamp) -> int:
        app, position = stamp.app, stamp.position
        txn = {"appId": app, "version": position, "lastUpdated": _now_ms()}
        calls = self._calls
        said = calls.option.apply(stamp.user_metadata)
        operation = calls.streaming_update(calls.update_mode, app, position, said)
        return self._send(begun, [*actions, {"txn": txn}], operation)

    def _send(self, begun: _Begun, actions: list[Action], operation: Any) -> int:
        java = self._actions(actions)
        sequence = self._calls.to_sequence(java)
        self._calls.set_active(self._alone)
        try:
            return int(begun.java.commit(sequence, operation))
        except Py4JJavaError as error:
            raise translate(error, begun.folder) from error

    def _actions(self, actions: list[Action]) -> Any:
        """Java's list of the actions, made in one call for each kind: one call for each action is a
        quarter of a millisecond, and of a large table every file is touched."""
        by_kind: dict[str, list[Action]] = {}
        for action in actions:
            ((kind, fields),) = action.items()
            by_kind.setdefault(kind, []).append(fields)
        java_actions = self._calls.new_list()
        for kind, same_kind in by_kind.items():
            if kind not in self._classes:
                self._classes[kind] = self._action({kind: same_kind[0]}).getClass()
            reader = self._calls.mapper.readerFor(self._classes[kind])
            java_actions.addAll(reader.readValues("\n".join(map(json.dumps, same_kind))).readAll())
        return java_actions

    def _action(self, action: Action) -> Any:
        return self._calls.from_json(json.dumps(action))


def metadata_action(new: NewTable, identity: str) -> Action:
    """The ``metaData`` action of a table whose id is ``identity``."""
    metadata = {
        "id": identity,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": new.schema_string,
        "partitionColumns": list(new.partition_columns),
        "configuration": new.configuration,
        "createdTime": _now_ms(),
    }
    return {"metaData": metadata}


def _as(planned: Snapshot, new: NewTable) -> Action:
    """The table's ``metaData`` with what is ``new``; its name, comment and age stay."""
    action: Action = json.loads(planned.java.metadata().json())
    own = metadata_action(new, planned.metadata_id)["metaData"]
    changed = ("schemaString", "partitionColumns", "configuration")
    return {"metaData": action["metaData"] | {name: own[name] for name in changed}}


def _now_ms() -> int:
    return int(time.time() * 1000)


def _check_release(jvm: Any) -> None:
    if isinstance(jvm.io.delta.tables.DeltaTable, JavaPackage):  # what Py4J takes unknown names for
        raise SetupError(
            "Delta Lake is not on Spark's class path",
            hint="run spark-repl setup once, or pass the Delta jars to spark-submit"
            " with --packages",
        )
    release = "of another make"
    if not isinstance(jvm.org.apache.spark.sql.delta.DeltaLog, JavaPackage):
        release = str(getattr(getattr(jvm.io.delta, "package$"), "MODULE$").VERSION())
    if not release.startswith(KNOWN_DELTA):
        raise UnknownDeltaError(
            f"Delta {release}: the direct writer knows {', '.join(KNOWN_DELTA)}x",
            hint='install delta-spark 4.4.0, or take apply.writer = "merge"',
        )


def translate(error: Py4JJavaError, folder: str) -> Exception:
    """What a failed commit means, by the name of Java's exception."""
    name = str(error.java_exception.getClass().getSimpleName())
    if "ConcurrentTransaction" in name:
        return fenced("", folder)
    message = str(error.java_exception.getMessage())
    if "UnsupportedTableFeature" in name or "InvalidProtocolVersion" in name:
        return TargetError(
            f"Delta {'.'.join(KNOWN_DELTA)}x does not know all features of this table: {message}",
            file=folder,
            hint="take them off with ALTER TABLE ... DROP FEATURE, where they were put on",
        )
    # RemoteFileChanged: S3 had the version already, see ``s3a``.
    raced = name.startswith(
        ("Concurrent", "MetadataChanged", "ProtocolChanged", "RemoteFileChanged")
    )
    if raced or "MAX_COMMIT_RETRIES" in message or "commit attempts" in message:
        return ConcurrentChangeError(f"{name}: somebody else has committed", file=folder)
    return TargetError(f"Delta refused the commit: {name}: {message}", file=folder)
