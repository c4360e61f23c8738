"""ControlLog: one version of the control table's Delta log, and the commit that follows it.

The log writer of tables writes it as well (``delta/log``). A commit costs two files: one of rows,
and the version's own. delta-rs listed the log and read its end before each commit, which took most
of a commit's time on an object store.

A process that slept may meet a log whose next commit has been removed: its commit then seems to
land, in a version that nobody reads. Commits are removed in their order. So a writer looks after
its commit whether the log still has the commit before (``is_in_log``).
"""

from __future__ import annotations

import io
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...delta.log import checkpoint_writer
from ...delta.log.add_actions import AddActions, files_of
from ...delta.log.commit_file import Operation, complete, is_in_log, publish
from ...delta.log.log_state import LogSegment, LogState
from ...delta.log.table_protocol import declaring, features_of
from ...delta.store import storage
from ...errors import TargetError
from ...runtime.target_uri import is_remote
from .row_formats import SCHEMA

Action = dict[str, Any]

_TYPES = {pa.string(): "string", pa.int64(): "long", pa.timestamp("us", "UTC"): "timestamp"}
_FILE = re.compile(rf".+\.parquet|{storage.UNFINISHED.pattern}")
"""name of a file of rows, or of what a killed writer leaves of one"""
_FEATURES = frozenset({"appendOnly", "invariants"})
_OF_LOG = "of the table's log"
HINT = "nothing but the applier writes there: put that folder back from a backup"
_PROPERTIES = {"delta.dataSkippingNumIndexedCols": "0"}
"""each commit has a file of a few rows, and readers read all files"""
_FEW = 100
"""rows of a file, which most commits have"""


@dataclass(frozen=True)
class RowsCommit:
    """The further content of a commit of rows. ``txn``: an action, or None; ``marks``: fields of
    ``commitInfo``; ``replaces``: whether the rows replace all rows; ``columns``: whether the table
    gets the columns of ``SCHEMA``, which an earlier version's table lacks."""

    txn: Action | None = None
    marks: dict[str, str] = field(default_factory=dict)
    replaces: bool = False
    columns: bool = False


@dataclass(frozen=True)
class ControlLog:
    """The log of the table at ``folder`` at one version."""

    folder: str
    state: LogState = field(repr=False)
    files: AddActions = field(repr=False, compare=False)
    appended: Mapping[str, pa.Table] = field(default_factory=dict, repr=False, compare=False)
    """rows of the files that ``commit`` has written since all rows were replaced, by path"""

    @property
    def table_id(self) -> str:
        """Return the id that the table has got when it was created."""
        return str(self.state.metadata["id"])

    @classmethod
    def newest(cls, folder: str) -> ControlLog | None:
        """Return the newest version; None if there is no table. Raise OSError, and TargetError if
        the log is damaged."""
        try:
            if (segment := LogSegment.of(folder)) is None:
                return None
            commits = list(segment.commits())  # few, and small
            state, files = segment.state(commits), files_of(segment, commits)
        except TargetError as error:
            if _OF_LOG in error.message:  # hints for tables, which a copy replaces, are wrong here
                error.hint = HINT
            raise
        if others := features_of(state.protocol) - _FEATURES:
            names = ", ".join(sorted(others))
            problem = f"the control table has features that another engine enabled: {names}"
            raise TargetError(problem, file=folder, hint=HINT)
        return cls(folder, state, files)

    @classmethod
    def create(cls, folder: str, rows: pa.Table | None = None) -> None:
        """Create the table with these rows, in one commit. Raise ConcurrentChangeError if it
        exists, and OSError."""
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": _SCHEMA_STRING,
            "partitionColumns": [],
            "configuration": _PROPERTIES,
            "createdTime": int(time.time() * 1000),
        }
        protocol = declaring(frozenset())
        storage.make_folder(os.path.join(folder, "_delta_log"))
        before = LogState(-1, protocol, metadata)
        actions: list[Action] = [{"protocol": protocol}, {"metaData": metadata}]
        if rows is not None:
            actions.append({"add": _write_file(folder, rows)})
        publish(folder, 0, complete(before, actions, Operation("CREATE TABLE")))

    @property
    def version(self) -> int:
        return self.state.version

    @property
    def column_names(self) -> list[str]:
        """Return the names of the table's columns. A table of an earlier version has fewer."""
        columns: list[Action] = json.loads(self.state.metadata["schemaString"])["fields"]
        return [column["name"] for column in columns]

    @property
    def has_all_columns(self) -> bool:
        return self.column_names == list(SCHEMA.names)

    def commit(self, rows: pa.Table, what: RowsCommit) -> ControlLog:
        """Write rows as the next version, and return it.

        Raise ConcurrentChangeError if another commit has that version. Raise OSError if writing
        fails: the commit may exist, or may appear later.
        """
        actions: list[Action] = [] if what.txn is None else [{"txn": what.txn}]
        if what.columns:
            metadata = {**self.state.metadata, "schemaString": _SCHEMA_STRING}
            actions.append({"metaData": metadata})
        if what.replaces:
            actions += self._removals()
        appended = dict[str, pa.Table]() if what.replaces else {**self.appended}
        if rows.num_rows:
            actions.append({"add": (add := _write_file(self.folder, rows))})
            if not what.replaces:
                appended[add["path"]] = rows
        mode = {"mode": "Overwrite" if what.replaces else "Append"}
        completed = complete(self.state, actions, Operation("WRITE", mode, marks=what.marks))
        publish(self.folder, self.version + 1, completed)
        files = self.files.after([completed])
        return ControlLog(self.folder, self.state.after(completed), files, appended)

    def _removals(self) -> list[Action]:
        now_ms = int(time.time() * 1000)
        return [
            {
                "remove": {
                    "path": path,
                    "deletionTimestamp": now_ms,
                    "dataChange": True,
                    "extendedFileMetadata": True,
                    "partitionValues": {},
                    "size": add["size"],
                }
            }
            for path, add in self.files.items()
        ]

    def is_in_log(self) -> bool:
        """Return whether the log still has this version's commit. If a clean-up has removed it, a
        commit after it is not part of the table. Raise OSError, and on a disk TargetError if
        another writer has overwritten it."""
        # On a store a look by name costs less than reading the beginning.
        own_id = None if is_remote(self.folder) else self.state.txn_id
        return is_in_log(self.folder, self.version, own_id)

    def write_checkpoint(self) -> None:
        """Write the checkpoint of this version. Raise OSError and TargetError."""
        checkpoint_writer.write(self.folder, self.state)

    def needless_files(self, before_s: float) -> list[str]:
        """Return the paths of files that were written before a time (seconds since 1970), and that
        no version has named since then: their commit failed, or later rows have replaced them.
        Raise OSError and TargetError."""
        times = storage.listed(self.folder)  # first: a file that is named later is younger
        live, removed = checkpoint_writer.reconciled(self.folder, self.state, time.time())
        recent = pc.greater_equal(removed["deletionTimestamp"], int(1000 * before_s))
        named = {*live["path"].to_pylist(), *removed.filter(recent)["path"].to_pylist()}
        paths = {
            os.path.join(self.folder, name): at
            for name, at in times.items()
            if name not in named and _FILE.fullmatch(name)
        }
        return [
            path
            for path, at in paths.items()
            if (storage.modified(path) if at is None else at) < before_s
        ]


WriteRows = Callable[[ControlLog, pa.Table, RowsCommit], ControlLog]
"""Writes rows as the version after a given one, as ``ControlLog.commit``."""


def _write_file(folder: str, rows: pa.Table) -> Action:
    """Write a file of rows, and return its ``add`` action. Raise OSError."""
    name, content = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet", io.BytesIO()
    many = rows.num_rows > _FEW  # else dictionaries and statistics would be half of the file
    pq.write_table(
        rows, content, compression="snappy", store_schema=False,
        use_dictionary=many, write_statistics=many,
    )  # fmt: skip
    storage.put(os.path.join(folder, name), content.getvalue())
    return {
        "path": name,
        "partitionValues": {},
        "size": content.getbuffer().nbytes,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows}),
    }


def _schema_string(schema: pa.Schema) -> str:
    columns = [
        {"name": column.name, "type": _TYPES[column.type], "nullable": True, "metadata": {}}
        for column in schema
    ]
    return json.dumps({"type": "struct", "fields": columns})


_SCHEMA_STRING = _schema_string(SCHEMA)
