"""Twins: one table twice, written by Delta's own transaction and by our log.

Data files, deletion vectors and change files are the same in both folders, apart from the physical
names of columns, which each writer chooses.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap
from pyspark.sql import SparkSession

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.schema_change import altered
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from tests.conformance.spark_log import Action, Read, SparkLog

ROWS = 20
FEED = "delta.enableChangeDataFeed"
_KINDS = {
    "long": pa.int64(), "integer": pa.int32(), "string": pa.string(),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_PHYSICAL = "delta.columnMapping.physicalName"
_ENGINE = re.compile(r"\S+/\S+( \S+/\S+)*")


class Twins:
    """``files``: by path, the live ``add`` actions and their deleted rows."""

    def __init__(self, spark: SparkSession, base: Path, properties: dict[str, str]) -> None:
        self.spark, self.theirs, self.ours = spark, base / "theirs", base / "ours"
        self.log, self.oracle = TableLog(), SparkLog(spark, str(self.theirs))
        kinds = {"id": "long", "v": "string", "t": "timestamp_ntz"}
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}}
                  for name, kind in kinds.items()]  # fmt: skip
        schema = json.dumps({"type": "struct", "fields": fields})
        new = NewTable(schema, {"delta.checkpointInterval": "1000000", **properties})
        self.oracle.create(new)
        self.log.create(str(self.ours), new, Stamp("app", 0, ""))
        self.vectors = "delta.enableDeletionVectors" in properties
        self.mapped = "delta.columnMapping.mode" in properties
        self.files: dict[str, tuple[Action, set[int]]] = {}
        self.number = 0
        self.has_feed = False
        """whether the last commit has a change file"""

    def snapshot(self) -> Snapshot:
        snapshot = self.log.snapshot(str(self.ours))
        assert snapshot is not None
        return snapshot

    def columns(self) -> list[str]:
        """Return the names of the columns after ``id``."""
        return [field["name"] for field in json.loads(self.snapshot().schema_string)["fields"]][1:]

    # Changes of rows.

    def add(self) -> Action:
        """Return the ``add`` of a new file, which both folders get."""
        self.number += 1
        path = f"part-{self.number:05d}.parquet"
        first = self.number * ROWS
        self.write(path, list(range(first, first + ROWS)))
        size = (self.ours / path).stat().st_size
        add = {
            "path": path, "partitionValues": {}, "size": size, "modificationTime": 1,
            "dataChange": True, "stats": json.dumps({"numRecords": ROWS}),
        }  # fmt: skip
        self.files[path] = add, set()
        return {"add": add}

    def remove(self, path: str) -> Action:
        add, _ = self.files.pop(path)
        return {"remove": removed(add)}

    def mark(self, path: str, rows: set[int]) -> list[Action]:
        """Mark more rows of a file as deleted: with one vector file that both folders have."""
        add, dead = self.files[path]
        dead = dead | rows
        (vector,) = deletion_vector.write(str(self.ours), [BitMap(dead)])
        file = Path(deletion_vector.path_of(str(self.ours), vector) or "")
        shutil.copy(file, self.theirs / file.name)
        loose = json.dumps({"numRecords": ROWS, "tightBounds": False})
        fresh = {**add, "deletionVector": vector, "stats": loose}
        self.files[path] = fresh, dead
        return [{"remove": removed(add)}, {"add": fresh}]

    def write(self, path: str, ids: list[int], more: dict[str, list[str]] | None = None) -> None:
        """Write rows with these ids to a file in both folders. ``more``: further columns."""
        for folder, schema in (
            (self.theirs, self.oracle.schema_string()),
            (self.ours, self.snapshot().schema_string),
        ):
            columns: dict[str, Any] = {}
            for field in json.loads(schema)["fields"]:
                values = [f"v{i}" for i in ids] if field["type"] == "string" else ids
                name = field["metadata"].get(_PHYSICAL, field["name"])
                columns[name] = pa.array(values, pa.int64() if values is ids else pa.string())
                columns[name] = columns[name].cast(_KINDS[field["type"]])
            (folder / path).parent.mkdir(exist_ok=True)
            pq.write_table(pa.table(columns | (more or {})), folder / path)

    def changes(self, actions: Sequence[Action], deleted: list[int]) -> list[Action]:
        """Return the ``cdc`` action of a commit that adds files and deletes rows."""
        removes = {action["remove"]["path"] for action in actions if "remove" in action}
        adds = [action["add"] for action in actions if "add" in action]
        inserted = [i for add in adds if add["path"] not in removes for i in alive(add, set())]
        kinds = ["insert"] * len(inserted) + ["delete"] * len(deleted)
        path = f"_change_data/cdc-{self.snapshot().version:05d}.parquet"
        self.write(path, inserted + deleted, {"_change_type": kinds})
        size = (self.ours / path).stat().st_size
        return [{"cdc": {"path": path, "partitionValues": {}, "size": size, "dataChange": False}}]

    def commit(self, actions: list[Action], deleted: list[int], app: str, position: int) -> None:
        before = self.snapshot()
        self.has_feed = before.has(FEED) and bool(actions)
        if self.has_feed:
            actions = [*actions, *self.changes(actions, deleted)]
        completed = self.with_row_ids(actions)
        gtids = json.dumps({"gtid": position})
        self.oracle.commit(completed, app, position, gtids)
        self.log.commit(before, completed, Stamp(app, position, gtids))
        ours, theirs = self.compare_info()
        for name in ("operation", "operationParameters", "userMetadata"):
            assert ours[name] == theirs[name]

    def compact(self) -> None:
        """Put the rows of all files of ours into one."""
        before, path = self.snapshot(), "compacted.parquet"
        self.write(path, sorted(self.ids()))
        removes = [{"remove": {**removed(add), "dataChange": False}}
                   for add, _ in self.files.values()]  # fmt: skip
        (template, _), *_ = self.files.values()
        stats = json.dumps({"numRecords": len(self.ids())})
        size = (self.ours / path).stat().st_size
        add = {**template, "path": path, "size": size, "stats": stats, "dataChange": False}
        self.log.rewrite(before, [*removes, {"add": add}], "a")

    def with_row_ids(self, actions: list[Action]) -> list[Action]:
        """Return the actions as the applier has them: a marked file keeps its row ids."""
        live = self.log.files(self.snapshot())
        kept = ("baseRowId", "defaultRowCommitVersion")
        completed = []
        for action in actions:
            (kind, fields), *_ = action.items()
            old = live.get(fields["path"], {}) if kind == "add" else {}
            completed.append({kind: {**fields, **{n: old[n] for n in kept if n in old}}})
        return completed

    # Changes of metadata. Spark does them by ALTER TABLE.

    def add_column(self, name: str) -> None:
        fields, previous = self.schema()
        self.alter(f"ADD COLUMN ({name} INT)", [*fields, pa.field(name, pa.int32())],
                   [*previous, None])  # fmt: skip

    def rename_column(self, name: str, new: str) -> None:
        fields, previous = self.schema()
        renamed = [field.with_name(new) if field.name == name else field for field in fields]
        self.alter(f"RENAME COLUMN {name} TO {new}", renamed, previous)

    def drop_column(self, name: str) -> None:
        fields, previous = self.schema()
        kept = [number for number in previous if fields[number].name != name]
        self.alter(f"DROP COLUMN {name}", [fields[number] for number in kept], kept)

    def schema(self) -> tuple[list[pa.Field], list[int]]:
        """Return the columns, and their numbers."""
        described = json.loads(self.snapshot().schema_string)["fields"]
        fields = [pa.field(field["name"], _KINDS[field["type"]]) for field in described]
        return fields, list(range(len(fields)))

    def alter(self, clause: str, wanted: list[pa.Field], previous: Sequence[int | None]) -> None:
        before = self.snapshot()
        self.oracle.sql(clause)
        new = altered(before, pa.schema(wanted), previous, ())
        self.log.alter(before, new, [], Stamp("alter", before.version + 1, ""))
        self.compare_info()

    def set_property(self, name: str, value: str) -> None:
        before = self.snapshot()
        self.oracle.sql(f"SET TBLPROPERTIES ('{name}' = '{value}')")
        self.log.set_properties(before, {name: value}, "app")
        ours, theirs = self.compare_info()
        for field in ("operation", "operationParameters"):
            assert ours[field] == theirs[field]

    def unset_property(self, name: str) -> None:
        before = self.snapshot()
        self.oracle.sql(f"UNSET TBLPROPERTIES ('{name}')")
        kept = {key: value for key, value in before.configuration.items() if key != name}
        new = NewTable(before.schema_string, kept)
        self.log.alter(before, new, [], Stamp("alter", before.version + 1, ""))
        self.compare_info()

    # Comparisons.

    def compare(self) -> None:
        """Check that Delta reads the same of both, by files and by rows."""
        version = self.snapshot().version
        theirs, ours = self.oracle.read(version), SparkLog(self.spark, str(self.ours)).read(version)
        assert comparable(ours) == comparable(theirs)
        assert (ours.timestamp_ms is None) == (theirs.timestamp_ms is None)
        assert self.rows(self.ours, version) == self.rows(self.theirs, version)
        assert {row[0] for row in self.rows(self.ours, version)} == self.ids()
        if self.has_feed:
            assert self.feed(self.ours, version) == self.feed(self.theirs, version) != []
        self.has_feed = False

    def ids(self) -> set[int]:
        return {i for add, dead in self.files.values() for i in alive(add, dead)}

    def rows(self, folder: Path, version: int) -> list[Any]:
        frame = self.spark.read.format("delta").option("versionAsOf", version).load(str(folder))
        return sorted(map(tuple, frame.collect()))

    def feed(self, folder: Path, version: int) -> list[Any]:
        """Return a version's changes, without the time of its commit."""
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", version).option("endingVersion", version)
        return sorted(map(tuple, reader.load(str(folder)).drop("_commit_timestamp").collect()))

    def compare_info(self) -> tuple[Action, Action]:
        """Check that the ``commitInfo`` of the newest version has the fields and types that
        Delta's has. Return ours and theirs."""
        version = self.snapshot().version
        ours, theirs = (commit_info(folder, version) for folder in (self.ours, self.theirs))
        assert {k: type(v) for k, v in ours.items()} == {k: type(v) for k, v in theirs.items()}
        assert next(iter(ours)) == next(iter(theirs)) or "inCommitTimestamp" not in ours
        assert ours["readVersion"] == theirs["readVersion"] == version - 1
        assert ours["isolationLevel"] == theirs["isolationLevel"]
        assert ours["isBlindAppend"] is False  # the applier reads a table before it appends
        assert _ENGINE.fullmatch(ours["engineInfo"]) and _ENGINE.fullmatch(theirs["engineInfo"])
        assert ours["txnId"] != theirs["txnId"] and len(ours["txnId"]) == len(theirs["txnId"])
        assert all(value.isdigit() for value in ours["operationMetrics"].values())
        return ours, theirs


def commit_info(folder: Path, version: int) -> Action:
    actions = read_commit(str(folder), version)
    assert actions is not None
    return dict(actions[0]["commitInfo"])


def alive(add: Action, dead: set[int]) -> list[int]:
    first = int(add["path"][5:10]) * ROWS
    return [first + i for i in range(ROWS) if i not in dead]


def removed(add: Action) -> Action:
    kept = {n: add[n] for n in ("path", "partitionValues", "size", "deletionVector") if n in add}
    return {**kept, "deletionTimestamp": 2, "dataChange": True, "extendedFileMetadata": True}


def comparable(read: Read) -> Any:
    """Return what must be equal: without ids and names that each writer chooses."""
    protocol = {k: sorted(v) if isinstance(v, list) else v for k, v in read.protocol.items()}
    fields = json.loads(read.metadata["schemaString"])["fields"]
    for field in fields:
        field["metadata"].pop(_PHYSICAL, None)
    chosen = ("delta.rowTracking.materialized", "delta.checkpointInterval")
    configuration = {
        k: v for k, v in read.metadata["configuration"].items() if not k.startswith(chosen)
    }
    files = {}
    for path, add in read.files.items():
        kept = ("size", "stats", "deletionVector", "baseRowId", "defaultRowCommitVersion")
        files[path] = {name: add[name] for name in kept if name in add}
    txns = {app: at for app, at in read.txns.items() if app not in ("app", "alter")}
    domains = {
        name: json.loads(one["configuration"]).get("rowIdHighWaterMark")
        for name, one in read.domains.items()
    }
    return protocol, fields, configuration, files, txns, domains
