"""OwnLog: a table's log by Delta's protocol, without the JVM. The applier still commits through
``delta_log``; ``tests/conformance`` compares the two (docs/design/own-log.md).

A commit is tried on the one version after its snapshot. It fails if another commit has landed:
an OPTIMIZE, an INSERT whose keys the plan does not know, or a commit of a former owner. The caller
reads what came, and plans again. No conflict is resolved here.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import ConcurrentChangeError, TargetError
from . import checkpoint_writer, log_checkpoints, log_replay, log_state, version_checksum
from .commit_file import Operation, complete, publish, txn_id
from .delta_log import metadata_action
from .log_replay import read_commit
from .log_state import LiveTotals, LogState, totals_of
from .schema_change import with_column_ids
from .storage import make_folder
from .table_log import NewTable, Snapshot, TableLog, fenced
from .table_protocol import declaring, features_of, needed_by, stored
from .version_checksum import read_totals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from .log_replay import Action
    from .stamp import Stamp


class OwnLog(TableLog):
    """A ``TableLog`` that writes commits as files. Spark is needed for VACUUM only."""

    direct = True

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        # By folder; both are asked for once.
        self._landed: dict[str, LogState] = {}
        self._totals: dict[str, tuple[int, LiveTotals]] = {}

    def snapshot(self, folder: str, version: int | None = None) -> Snapshot | None:
        state = log_state.load(folder, version)
        return None if state is None else _snapshot(folder, state)

    def version(self, folder: str) -> int:
        return log_state.newest_version(folder, log_checkpoints.newest(folder))

    def last_txn(self, snapshot: Snapshot, app: str) -> int | None:
        txn = _state(snapshot).txns.get(app)
        return None if txn is None else int(txn["version"])

    def advance(self, previous: Snapshot, version: int) -> Snapshot:
        return replace(previous, version=version, state=self._state_of(previous, version))

    def altered(self, previous: Snapshot, version: int) -> Snapshot:
        return _snapshot(previous.folder, self._state_of(previous, version))

    def _state_of(self, previous: Snapshot, version: int) -> LogState:
        landed = self._landed.pop(previous.folder, None)
        if landed and landed.version == version:
            return landed
        return log_state.advance(previous.folder, _state(previous), version)

    def files(self, snapshot: Snapshot) -> dict[str, Action]:
        live = log_replay.live_files(snapshot.folder, snapshot.version)
        self._totals[snapshot.folder] = snapshot.version, totals_of(live.values())
        return live

    def create(self, folder: str, new: NewTable, stamp: Stamp) -> None:
        metadata = metadata_action(with_column_ids(new), str(uuid.uuid4()))["metaData"]
        protocol = declaring(needed_by(metadata))
        state = LogState(-1, protocol, stored(metadata), totals=LiveTotals())
        actions = [{"metaData": state.metadata}, {"protocol": protocol}]
        make_folder(os.path.join(folder, "_delta_log"))
        try:
            self._publish(folder, state, [*actions, _txn(stamp)], _streaming(stamp))
        except ConcurrentChangeError as error:
            raise ConcurrentChangeError(
                "somebody has made the table meanwhile", file=folder
            ) from error

    def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
        return self._commit(planned, [_txn(stamp), *actions], _streaming(stamp), stamp.app)

    def alter(self, planned: Snapshot, new: NewTable, actions: list[Action], stamp: Stamp) -> int:
        changed = [*_redefined(planned, new), _txn(stamp), *actions]
        return self._commit(planned, changed, _streaming(stamp), stamp.app)

    def rewrite(self, planned: Snapshot, actions: list[Action], app: str) -> int:
        parameters = {"predicate": [], "zOrderBy": [], "auto": False}
        return self._commit(planned, actions, Operation("OPTIMIZE", parameters), app)

    def set_properties(self, planned: Snapshot, properties: Mapping[str, str], app: str) -> int:
        configuration = {**planned.configuration, **properties}
        new = NewTable(planned.schema_string, configuration, planned.partition_columns)
        operation = Operation("SET TBLPROPERTIES", {"properties": dict(properties)})
        return self._commit(planned, _redefined(planned, new), operation, app)

    def checkpoint(self, snapshot: Snapshot) -> None:
        checkpoint_writer.write(snapshot.folder, _state(snapshot))

    def _commit(
        self, planned: Snapshot, actions: list[Action], operation: Operation, app: str
    ) -> int:
        folder, state = planned.folder, _state(planned)
        known = self._totals.pop(folder, None)
        if state.totals is None:
            is_of_plan = known and known[0] == planned.version
            totals = known[1] if known and is_of_plan else read_totals(folder, planned.version)
            state = replace(state, totals=totals)
        try:
            return self._publish(folder, state, actions, operation)
        except ConcurrentChangeError as error:
            newer = read_commit(folder, planned.version + 1) or []
            if any(action.get("txn", {}).get("appId") == app for action in newer):
                raise fenced("", folder) from error
            raise

    def _publish(
        self, folder: str, state: LogState, actions: list[Action], operation: Operation
    ) -> int:
        version = state.version + 1
        completed = complete(state, actions, operation)
        publish(folder, version, completed)
        landed = self._landed[folder] = state.after(completed)
        version_checksum.write(folder, landed, txn_id(completed))
        return version


def _redefined(planned: Snapshot, new: NewTable) -> list[Action]:
    """Return the actions that give a table other columns or properties; its name, comment and age
    stay. Raises TargetError for a feature that an existing table can't be given here."""
    metadata = {
        **_state(planned).metadata,
        "schemaString": new.schema_string,
        "partitionColumns": list(new.partition_columns),
        "configuration": new.configuration,
    }
    features, missing = features_of(_state(planned).protocol), needed_by(metadata)
    if unfit := sorted((missing - features) & _FROM_CREATION):
        raise TargetError(
            f"the table can't be given {', '.join(unfit)} once it has rows", file=planned.folder
        )
    actions = [{"metaData": stored(metadata)}]
    if not missing <= features:
        actions.append({"protocol": declaring(missing, _state(planned).protocol)})
    return actions


_FROM_CREATION = frozenset({"rowTracking", "inCommitTimestamp", "columnMapping"})
"""features that say something of each file or commit, the earlier ones too"""


def _txn(stamp: Stamp) -> Action:
    now_ms = int(time.time() * 1000)
    return {"txn": {"appId": stamp.app, "version": stamp.position, "lastUpdated": now_ms}}


def _streaming(stamp: Stamp) -> Operation:
    parameters = {"outputMode": "Update", "queryId": stamp.app, "epochId": str(stamp.position)}
    return Operation("STREAMING UPDATE", parameters, stamp.user_metadata)


def _snapshot(folder: str, state: LogState) -> Snapshot:
    metadata, protocol = state.metadata, state.protocol
    listed = [*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())]
    return Snapshot(
        folder,
        state.version,
        metadata["id"],
        metadata["schemaString"],
        metadata["configuration"],
        None,
        frozenset(listed),
        tuple(metadata["partitionColumns"]),
        state,
    )


def _state(snapshot: Snapshot) -> LogState:
    state = snapshot.state
    assert state is not None, "a snapshot of another TableLog"
    return state
