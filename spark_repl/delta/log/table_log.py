"""TableLog: a table's Delta log, read and written by the protocol, without the JVM.

A commit is tried on the one version after its snapshot. It fails if another commit has that
version: an OPTIMIZE, an INSERT whose keys the plan does not know, or a commit of a former owner.
The caller reads the new commit, and plans again. No conflict is resolved here.
``tests/conformance`` compares commits with those of Delta's own transaction
(docs/design/own-log.md).
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import ConcurrentChangeError, FencedError, TargetError
from ...runtime.target_uri import is_remote
from ...runtime.wall_clock import running_s
from ..store.storage import is_file, make_folder
from . import log_state, version_checksum
from .add_actions import AddActions, live_files
from .commit_file import Operation, complete, is_in_log, txn_id
from .committer import FILE_COMMITTER, is_managed
from .log_replay import commit_path, read_commit
from .log_state import LiveTotals, LogState
from .schema_change import with_column_ids
from .table_protocol import declaring, features_of, needed_by, stored
from .table_snapshot import NewTable, Snapshot
from .version_checksum import read_totals

if TYPE_CHECKING:
    from .committer import Committer, TableCatalog
    from .log_replay import Action
    from .stamp import Stamp


_AWAKE_S = 60.0
"""seconds since the last look at a log on an object store, after which the process may have slept;
no engine removes commits that are so young"""


def fenced(table: str, folder: str | None = None) -> FencedError:
    """Return the error for a table to which another applier has committed. ``table``: its name, ""
    if only its folder is known."""
    return FencedError(
        "another applier has committed to this table",
        table=table or None,
        file=folder,
        hint="only one applier may work on a channel: stop the other one",
    )


class TableLog:
    """Opens snapshots of tables and commits to them. ``folder`` is a table's path, ``app`` the
    appId of a ``txn`` action. Each applier has one TableLog. ``managed``: creates new tables in a
    catalog, and commits to tables that the catalog manages; None: tables of the file system only.
    """

    def __init__(self, managed: TableCatalog | None = None) -> None:
        self.managed = managed
        # By folder; each entry is used once.
        self._landed: dict[str, LogState] = {}
        self._totals: dict[str, tuple[int, LiveTotals]] = {}
        self._looked_s: dict[str, float] = {}

    def snapshot(self, folder: str, version: int | None = None) -> Snapshot | None:
        """Return a version of the table at ``folder`` (None: the newest). Return None if there is
        no table. Raise OSError, and TargetError if the log does not reach back."""
        self._looked_s[folder] = running_s()
        state = log_state.load(folder, version)
        if state is not None and version is None and is_managed(state):
            newest = self._committer(folder, state).newest(folder, state)
            state = state if newest == state.version else log_state.load(folder, newest)
        return None if state is None else Snapshot.of(folder, state)

    def version(self, folder: str) -> int:
        """Return the newest version's number, -1 if there is no table. Raise as ``snapshot``."""
        if self.managed is None:
            return log_state.newest_version(folder)
        snapshot = self.snapshot(folder)
        return -1 if snapshot is None else snapshot.version

    def is_newest(self, snapshot: Snapshot) -> bool:
        """Return whether the snapshot's version is the newest one.

        This checks two files, because listing a log takes longer with each commit. The log is
        listed only if the version's commit is missing: another engine's clean-up may remove the
        newest commit, and leave its checkpoint. Raise OSError, and TargetError if the snapshot's
        commit was overwritten.
        """
        folder, version = snapshot.folder, snapshot.version
        self._looked_s[folder] = running_s()
        if is_managed(snapshot.state):
            committer = self._committer(folder, snapshot.state)
            return committer.newest(folder, snapshot.state) == version
        if is_in_log(folder, version, snapshot.state.txn_id):
            return not is_file(commit_path(folder, version + 1))
        return log_state.newest_version(folder) == version

    @staticmethod
    def last_txn(snapshot: Snapshot, app: str) -> int | None:
        """Return the version of the last ``txn`` action of ``app``; None if it never committed."""
        txn = snapshot.state.txns.get(app)
        return None if txn is None else int(txn["version"])

    def created(self, folder: str) -> Snapshot | None:
        """Return version 0 of a table that ``create`` has just created, without reading it again;
        None for any other table."""
        landed = self._landed.get(folder)
        if landed is None or landed.version:
            return None
        return Snapshot.of(folder, self._landed.pop(folder))

    def advance(self, previous: Snapshot, version: int) -> Snapshot:
        """Return the snapshot of ``version``, which follows ``previous``: our own commit or another
        writer's."""
        landed = self._landed.pop(previous.folder, None)
        if not (landed and landed.version == version):
            landed = log_state.advance(previous.folder, previous.state, version)
        return Snapshot.of(previous.folder, landed)

    def files(self, snapshot: Snapshot) -> AddActions:
        """Return the ``add`` actions that are live in a snapshot, by path."""
        live = live_files(snapshot.folder, snapshot.version)
        self._totals[snapshot.folder] = snapshot.version, live.totals()
        return live

    def create(self, folder: str, new: NewTable, stamp: Stamp) -> None:
        """Commit version 0: protocol, metadata and position. Raise ConcurrentChangeError if the
        table exists, and OSError."""
        if self.managed is not None:
            new = self.managed.completed(folder, new)
        metadata = _metadata(with_column_ids(new))
        protocol = declaring(needed_by(metadata))
        state = LogState(-1, protocol, stored(metadata), totals=LiveTotals())
        actions = [{"metaData": state.metadata}, {"protocol": protocol}]
        make_folder(os.path.join(folder, "_delta_log"))
        self._looked_s[folder] = running_s()
        try:
            self._publish(folder, state, [*actions, _txn(stamp)], _streaming(stamp))
        except ConcurrentChangeError as error:
            raise ConcurrentChangeError(
                "another writer has created the table meanwhile", file=folder
            ) from error

    def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
        """Commit data and position on ``planned``; return the version.

        Raise FencedError if another applier has committed meanwhile, and ConcurrentChangeError for
        any other writer's commit. Raise OSError if writing fails: the commit may exist
        nevertheless.
        """
        return self._commit(planned, [_txn(stamp), *actions], _streaming(stamp), stamp.app)

    def alter(self, planned: Snapshot, new: NewTable, actions: list[Action], stamp: Stamp) -> int:
        """Commit other columns or properties, together with changes of files and the position;
        return the version. Raise as ``commit``, and TargetError for a feature that an existing
        table can't get."""
        return self.commit(planned, [*_redefined(planned, new), *actions], stamp)

    def rewrite(self, planned: Snapshot, actions: list[Action], app: str) -> int:
        """Commit other files with the same rows; return the version. Raise as ``commit``."""
        parameters = {"predicate": [], "zOrderBy": [], "clusterBy": [], "auto": False}
        isolation = {"isolationLevel": "SnapshotIsolation"}  # as Delta has it if no row changes
        return self._commit(planned, actions, Operation("OPTIMIZE", parameters, "", isolation), app)

    def set_properties(self, planned: Snapshot, properties: Mapping[str, str], app: str) -> int:
        """Commit properties, as ALTER TABLE SET TBLPROPERTIES does, and nothing else; return the
        version. Raise as ``alter``."""
        configuration = {**planned.configuration, **properties}
        new = NewTable(planned.schema_string, configuration, planned.partition_columns)
        operation = Operation("SET TBLPROPERTIES", {"properties": dict(properties)})
        return self._commit(planned, _redefined(planned, new), operation, app)

    def _commit(
        self, planned: Snapshot, actions: list[Action], operation: Operation, app: str
    ) -> int:
        folder, state = planned.folder, planned.state
        cached = self._totals.pop(folder, None)
        if state.totals is None and version_checksum.belongs_to_each(folder, state):
            is_of_plan = cached and cached[0] == planned.version
            totals = cached[1] if cached and is_of_plan else read_totals(folder, planned.version)
            state = replace(state, totals=totals)
        try:
            version = self._publish(folder, state, actions, operation)
        except ConcurrentChangeError as error:
            newer = read_commit(folder, planned.version + 1) or []
            if any(action.get("txn", {}).get("appId") == app for action in newer):
                raise fenced("", folder) from error
            raise
        self._check_in_log(planned)
        return version

    def _check_in_log(self, planned: Snapshot) -> None:
        """Raise ConcurrentChangeError if the commit after ``planned`` is no part of the table.

        The process may have slept since it looked at the log. If another engine has committed and
        cleaned up meanwhile, the next version is free again: a commit there seems to land, and
        nobody reads it. On an object store the look costs a request, so it is only taken after some
        seconds. A catalog accepts no such commit. Raise OSError.
        """
        if is_managed(planned.state):
            return
        folder, looked_s = planned.folder, self._looked_s.get(planned.folder, -math.inf)
        if is_remote(folder) and running_s() - looked_s < _AWAKE_S:
            return
        if is_file(commit_path(folder, planned.version)):
            return
        if log_state.newest_version(folder) != planned.version + 1:
            self._landed.pop(folder, None)
            problem = "another writer has committed and removed earlier versions meanwhile"
            raise ConcurrentChangeError(problem, file=folder)

    def _publish(
        self, folder: str, state: LogState, actions: list[Action], operation: Operation
    ) -> int:
        version = state.version + 1
        completed = complete(state, actions, operation)
        landed = state.after(completed)
        if version:
            self._committer(folder, state).commit(folder, state, completed)
        else:
            self._committer(folder, landed).create(folder, landed, completed)
        self._landed[folder] = landed
        if version_checksum.belongs_to_each(folder, landed):
            version_checksum.write(folder, landed, txn_id(completed))
        return version

    def _committer(self, folder: str, state: LogState) -> Committer:
        """Return what commits to a table with this ``state``. Raise TargetError if a catalog
        manages the table, and none is configured."""
        if not is_managed(state):
            return FILE_COMMITTER
        if self.managed is None:
            raise TargetError(
                "a catalog manages the table, and no catalog is configured",
                file=folder,
                hint="set catalog.managed = true, catalog.name and catalog.uri"
                " (docs/catalogs.md#managed-tables)",
            )
        return self.managed


def _redefined(planned: Snapshot, new: NewTable) -> list[Action]:
    """Return the actions that give a table other columns, properties or another comment; its name
    and age stay. Raise TargetError for a feature that an existing table can't get here."""
    metadata = {
        **planned.state.metadata,
        "schemaString": new.schema_string,
        "partitionColumns": list(new.partition_columns),
        "configuration": new.configuration,
        **_comment(new),
    }
    features, missing = features_of(planned.state.protocol), needed_by(metadata)
    # A table with the preview of a feature has the feature.
    features |= {name.removesuffix("-preview") for name in features}
    # A listed feature may be off: commits written meanwhile lack what it requires.
    if unfit := sorted((missing - needed_by(planned.state.metadata)) & _FROM_CREATION):
        raise TargetError(
            f"the table can't be given {', '.join(unfit)} once it has rows", file=planned.folder
        )
    actions = [{"metaData": stored(metadata)}]
    if not missing <= features:
        actions.append({"protocol": declaring(missing, planned.state.protocol)})
    return actions


_FROM_CREATION = frozenset({"rowTracking", "inCommitTimestamp", "columnMapping"})
"""features that need something in each file or commit, also in the earlier ones"""


def _metadata(new: NewTable) -> Action:
    return {
        "id": str(uuid.uuid4()),
        **_comment(new),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": new.schema_string,
        "partitionColumns": list(new.partition_columns),
        "configuration": new.configuration,
        "createdTime": int(time.time() * 1000),
    }


def _comment(new: NewTable) -> Action:
    return {} if new.comment is None else {"description": new.comment or None}


def _txn(stamp: Stamp) -> Action:
    now_ms = int(time.time() * 1000)
    return {"txn": {"appId": stamp.app, "version": stamp.position, "lastUpdated": now_ms}}


def _streaming(stamp: Stamp) -> Operation:
    parameters = {"outputMode": "Update", "queryId": stamp.app, "epochId": str(stamp.position)}
    return Operation("STREAMING UPDATE", parameters, stamp.user_metadata)
