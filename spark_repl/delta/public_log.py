"""A table's log through public APIs alone: for runtimes whose Delta is not the open-source one.

Tables are made by CREATE TABLE AS SELECT and filled by appends and MERGE, which record a session's
``txn`` and userMetadata in the same commit (ALTER and CREATE alone don't: measured with 4.4.0). A
snapshot is read by delta-rs. Actions of our own making can't be committed, so the writer is
``merge``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from ..errors import ConcurrentChangeError, SetupError, UnknownDeltaError
from ..runtime.object_store import is_remote
from . import log_replay
from .delta_log import DeltaLog
from .delta_table import opened
from .spark_names import literally, quoted
from .storage import data_file, remove_if_there
from .table_log import ALONE, NewTable, Snapshot, TableLog, fenced

if TYPE_CHECKING:
    from ..config import Config
    from .log_replay import Action
    from .stamp import Stamp

log = logging.getLogger(__name__)

Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""what a worker makes of the batches of its rows"""

_SESSION_APP = "spark.databricks.delta.write.txnAppId"
_SESSION_VERSION = "spark.databricks.delta.write.txnVersion"
_SESSION_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_ROWS = "spark_repl_rows"
_SETTINGS = {
    ALONE[0]: ALONE[1],
    "spark.databricks.delta.formatCheck.enabled": "false",  # a copy's files lie beside the table's
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
}


def open_table_log(
    spark: SparkSession, config: Config, delta_log: Callable[[SparkSession], TableLog] = DeltaLog
) -> tuple[TableLog, Config]:
    """The log that this runtime has, and the configuration with the writer that goes with it, where
    none is asked for. Raises SetupError, ConfigError."""
    writer = config.apply.writer
    try:
        table_log = delta_log(spark)
    except UnknownDeltaError as error:
        if writer == "direct":
            raise
        log.warning("%s: tables are changed by MERGE, which is much slower", error.message)
        table_log = PublicLog(spark)
    best = "direct" if table_log.direct else "merge"
    return table_log, config if writer else config.override({"apply.writer": best})


@contextmanager
def told_apart(folder: str, table: str = "") -> Iterator[None]:
    """Raises FencedError or ConcurrentChangeError for what Delta says of a commit in between.
    ``table``: its name, where it is known."""
    from delta import exceptions as delta  # and pandas with it

    try:
        yield
    except delta.ConcurrentTransactionException as error:
        raise fenced(table, folder) from error
    except (  # none is another one's subclass
        delta.ConcurrentAppendException,
        delta.ConcurrentDeleteDeleteException,
        delta.ConcurrentDeleteReadException,
        delta.ConcurrentWriteException,
        delta.DeltaConcurrentModificationException,
        delta.MetadataChangedException,
        delta.ProtocolChangedException,
    ) as error:
        raise ConcurrentChangeError(
            f"{type(error).__name__}: somebody else has committed", table=table or None, file=folder
        ) from error


def bear(session: SparkSession, stamp: Stamp) -> None:
    """Has the session's next commit record the stamp beside its data."""
    session.conf.set(_SESSION_APP, stamp.app)
    session.conf.set(_SESSION_VERSION, str(stamp.position))
    session.conf.set(_SESSION_METADATA, stamp.user_metadata)


class PublicLog(TableLog):
    """The log through Spark SQL, Delta's DataFrame writer and delta-rs."""

    direct = False

    def version(self, folder: str) -> int:
        with _opened(folder) as table:
            return -1 if table is None else table.version()

    def snapshot(self, folder: str, version: int | None = None) -> Snapshot | None:
        with _opened(folder, version) as table:
            if table is None:
                return None
            metadata, protocol = table.metadata(), table.protocol()
            listed = [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
            return Snapshot(
                folder,
                table.version(),
                str(metadata.id),
                # Whose keys come in another order each time.
                json.dumps(json.loads(table.schema().to_json()), sort_keys=True),
                dict(metadata.configuration),
                None,
                frozenset(listed),
                tuple(metadata.partition_columns),
            )

    def last_txn(self, snapshot: Snapshot, app: str) -> int | None:
        try:
            return log_replay.last_txn(snapshot.folder, snapshot.version, app)
        except LookupError:
            with opened(snapshot.folder, snapshot.version) as table:
                return table.transaction_version(app)

    def advance(self, previous: Snapshot, version: int) -> Snapshot:
        return replace(previous, version=version)

    def files(self, snapshot: Snapshot) -> dict[str, Action]:
        return log_replay.live_files(snapshot.folder, snapshot.version)

    def alter(self, planned: Snapshot, new: NewTable, actions: list[Action], stamp: Stamp) -> int:
        raise _only_direct()

    def overwrite(
        self, planned: Snapshot, schema_string: str, rows: Rows | None, stamp: Stamp
    ) -> int:
        """Commits other columns and what ``rows`` makes of the table's, batch by batch on the
        executors (None: no rows are left), with the position; returns the version."""
        session = self._session(stamp)
        fields = [_plain(field) for field in json.loads(schema_string)["fields"]]
        schema = StructType.fromJson({"type": "struct", "fields": fields})
        if rows is None:
            frame = session.createDataFrame([], schema)
        else:
            reader = session.read.format("delta").option("versionAsOf", planned.version)
            frame = reader.load(planned.folder).mapInArrow(rows, schema)
        with told_apart(planned.folder):
            writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", True)
            writer.partitionBy(*planned.partition_columns).save(planned.folder)
        return self.version(planned.folder)

    def rewrite(self, planned: Snapshot, actions: list[Action], app: str) -> int:
        raise _only_direct()

    def create(self, folder: str, new: NewTable, stamp: Stamp) -> None:
        """Makes the table, without NOT NULL, which CREATE TABLE AS SELECT doesn't take."""
        session = self._session(stamp)
        schema = StructType.fromJson(json.loads(new.schema_string))
        session.createDataFrame([], schema).createOrReplaceTempView(_ROWS)
        properties = ", ".join(f"{_text(k)} = {_text(v)}" for k, v in new.configuration.items())
        parts = ", ".join(map(quoted, new.partition_columns))
        partitioned = f" PARTITIONED BY ({parts})" if parts else ""
        with told_apart(folder):
            session.sql(
                f"CREATE TABLE delta.{quoted(folder)} USING delta{partitioned}"
                f" TBLPROPERTIES ({properties}) AS SELECT * FROM {_ROWS}"
            )

    def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
        """Appends the rows of new files, a copy's: no other actions are taken. The files themselves
        then go; those of a copy that was killed are VACUUM's."""
        if not all("add" in action for action in actions):
            raise _only_direct()
        session = self._session(stamp)
        paths = [data_file(planned.folder, a["add"]["path"]) for a in actions]
        fields = json.loads(planned.schema_string)["fields"]
        logical = StructType.fromJson({"type": "struct", "fields": fields})
        physical = StructType.fromJson({"type": "struct", "fields": [_physical(f) for f in fields]})
        frame = (
            session.read.schema(physical).parquet(*map(literally, paths))
            if paths
            else session.createDataFrame([], physical)
        )
        chosen = [
            col(quoted(held.name)).cast(shown.dataType).alias(shown.name)
            for held, shown in zip(physical, logical, strict=True)
        ]
        with told_apart(planned.folder):
            frame.select(*chosen).write.format("delta").mode("append").save(planned.folder)
        for path in paths:
            remove_if_there(path)
        return self.version(planned.folder)

    def set_properties(self, planned: Snapshot, properties: Mapping[str, str], app: str) -> int:
        said = ", ".join(f"{_text(name)} = {_text(to)}" for name, to in properties.items())
        folder = planned.folder
        with told_apart(folder):
            self._plain_session().sql(
                f"ALTER TABLE delta.{quoted(folder)} SET TBLPROPERTIES ({said})"
            )
        return self.version(folder)

    def checkpoint(self, snapshot: Snapshot) -> None:
        log.warning("%s: no checkpoint is written: delta-rs can't, see above", snapshot.folder)

    def _session(self, stamp: Stamp) -> SparkSession:
        session = self._plain_session()
        bear(session, stamp)
        return session

    def _plain_session(self) -> SparkSession:
        session = self._spark.newSession()
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        return session


@contextmanager
def _opened(folder: str, version: int | None = None) -> Iterator[DeltaTable | None]:
    if is_remote(folder):
        raise SetupError(
            "a target on S3 needs the open-source Delta 4.4: commits are made safe through it",
            hint="use a target.path that is a mounted folder",
        )
    with ExitStack() as stack:
        table = None
        if os.path.isdir(os.path.join(folder, "_delta_log")):
            with suppress(TableNotFoundError):
                table = stack.enter_context(opened(folder, version))
        yield table


def _only_direct() -> SetupError:
    return SetupError(
        "this runtime's Delta takes no actions of others' making",
        hint="without apply.writer, or with merge, none are made",
    )


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """A field of a schemaString without what column mapping says of it, and without NOT NULL."""
    kind = field["type"]
    if isinstance(kind, dict) and kind["type"] == "struct":
        kind = {**kind, "fields": [_plain(inner) for inner in kind["fields"]]}
    return {**field, "type": kind, "nullable": True, "metadata": {}}


def _physical(field: dict[str, Any]) -> dict[str, Any]:
    """A field of a schemaString under the name that data files have it by."""
    name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
    return {**field, "name": name, "type": _inside(field["type"])}


def _inside(kind: Any) -> Any:
    if isinstance(kind, dict) and kind["type"] == "struct":
        return {**kind, "fields": [_physical(field) for field in kind["fields"]]}
    if isinstance(kind, dict) and kind["type"] == "array":
        return {**kind, "elementType": _inside(kind["elementType"])}
    return kind
