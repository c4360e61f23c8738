"""ManagedTables: creates tables that Unity Catalog manages, and commits to them.

A commit is a staged file, ``_delta_log/_staged_commits/<version>.<uuid>.json``. The catalog decides
which staged file has a version (it ratifies it), and the writer then copies the file to
``_delta_log/<version>.json`` (it publishes it). Invariants:

* A version is ratified at most once, and nothing is written to ``_delta_log`` before.
* A lost answer is resolved by asking the catalog which file has the version. The file's name is
  unique, so a request may be repeated.
* Versions are published in their order. Whoever opens a table publishes what another writer has
  left. So the log's readers find every ratified version in ``_delta_log``.
* The catalog is told about a published version only afterwards: with the next commit.

The first version has no race: only its creator knows the location. It is written directly, and the
catalog then gives the table its name. Design: docs/design/catalog-managed.md.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import ConcurrentChangeError, TargetError
from ...runtime.target_uri import canonical
from ..log.commit_file import encoded, publish, txn_id
from ..log.log_replay import commit_path, read_commit
from ..log.retention_properties import RETENTION
from ..log.table_protocol import HONOURED, SUPPORTED
from ..store.storage import make_folder, put, put_if_absent, read, remove_if_there, stat
from .catalog_metadata import metadata_changes, new_metadata
from .unity_catalog import (
    Answer,
    LoadedTable,
    ManagedName,
    RatifiedCommit,
    UnityCatalog,
    loaded,
)

if TYPE_CHECKING:
    from ..log.log_replay import Action
    from ..log.log_state import LogState
    from ..log.table_snapshot import NewTable

logger = logging.getLogger(__name__)

NAME = "spark_repl.catalog_name"
"""property: the table's name in the catalog"""
TABLE_ID = "io.unitycatalog.tableId"
_RECORD = "_spark_repl_staging_table.json"
"""file of a location that the catalog has assigned, until the table there has its name"""
_ATTEMPTS = 5
_CHECKPOINT_INTERVAL = "delta.checkpointInterval"


@dataclass(frozen=True)
class StagingTable:
    """A location that the catalog has assigned to a new table, and what it requires there. It is a
    file at the location, because another process may create the table."""

    name: str
    table_id: str
    location: str
    features: tuple[str, ...]
    properties: Mapping[str, str | None]

    @classmethod
    def of(cls, name: ManagedName, body: Mapping[str, Any]) -> StagingTable:
        """Return the table of an answer to ``createStagingTable``. Raise OSError for the answer of
        something else than the catalog."""
        try:
            protocol, properties = body["required-protocol"], dict(body["required-properties"])
            listed = {*(protocol.get("reader-features") or ()), *protocol["writer-features"]}
            table_id, location = str(body["table-id"]), str(body["location"])
        except (KeyError, TypeError, ValueError) as error:
            raise OSError(
                f"the answer is not one of the catalog's Delta API: no {error}"
            ) from error
        return cls(str(name), table_id, location, tuple(sorted(listed)), properties)

    def to_json(self) -> bytes:
        return json.dumps(vars(self)).encode()

    @classmethod
    def read(cls, folder: str) -> StagingTable | None:
        """Return the record at ``folder``, None if there is none. Raise OSError."""
        with suppress(FileNotFoundError):
            values = json.loads(read(os.path.join(folder, _RECORD)))
            return cls(**{**values, "features": tuple(values["features"])})
        return None


class ManagedTables:
    """A ``TableCatalog`` of Unity Catalog. ``name_of`` returns the name that the catalog
    is to have for a table of the target (``db.table``). Safe to call from several threads; each
    table has one caller at a time."""

    def __init__(self, catalog: UnityCatalog, name_of: Callable[[str], ManagedName]) -> None:
        self.catalog, self._name_of = catalog, name_of
        # By folder: the last version that is known to be published, together with all before it.
        self._published = dict[str, int]()
        self._is_checked = False
        self._lock = threading.Lock()

    def assign(self, table: str) -> str:
        name = self._name_of(table)
        self._check(name)
        answer = self.catalog.stage(name)
        if answer.kind == "AlreadyExistsException":
            raise TargetError(
                f"the catalog has a table {name} already, and cannot have another one of this name",
                table=table,
                hint=f"give this one another name: catalog.names ="
                f' ["{table}->{name.schema}.{name.table}_2"], then start again; or drop the old one'
                f" and its rows in the catalog (DROP TABLE {name})",
            )
        staging = StagingTable.of(name, self.catalog.expect(answer, f"a new table {name}"))
        if unknown := {*staging.features} - HONOURED:
            raise TargetError(
                f"the catalog requires Delta features that the applier lacks: {', '.join(unknown)}",
                table=table,
                hint="set catalog.managed = false, and use a new target.path",
            )
        folder = canonical(staging.location)
        make_folder(folder)
        put(os.path.join(folder, _RECORD), staging.to_json())
        return folder

    def completed(self, folder: str, new: NewTable) -> NewTable:
        staging = self._staging(folder)
        if unknown := [name for name, value in staging.properties.items() if value is None]:
            raise TargetError(
                f"the catalog requires properties that the applier lacks: {', '.join(unknown)}",
                file=folder,
                hint="set catalog.managed = false, and use a new target.path",
            )
        left_out = (*RETENTION, _CHECKPOINT_INTERVAL)
        own = {name: value for name, value in new.configuration.items() if name not in left_out}
        required = {name: value for name, value in staging.properties.items() if value is not None}
        features = {SUPPORTED + feature: "supported" for feature in staging.features}
        identity = {NAME: staging.name, TABLE_ID: staging.table_id}
        return replace(new, configuration={**own, **required, **features, **identity})

    def create(self, folder: str, state: LogState, actions: Sequence[Action]) -> None:
        publish(folder, state.version, actions)
        self._register(folder, state)

    def commit(self, folder: str, before: LogState, actions: Sequence[Action]) -> None:
        version, content = before.version + 1, encoded(actions)
        staged = _staged_path(folder, f"{version:020d}.{uuid.uuid4()}.json")
        make_folder(os.path.dirname(staged))
        put_if_absent(staged, content)
        file = stat(staged)
        commit = {
            "version": version,
            "timestamp": actions[0]["commitInfo"]["inCommitTimestamp"],
            "file-name": os.path.basename(staged),
            "file-size": len(content),
            "file-modification-timestamp": int(file.modified * 1000),
        }
        updates = [{"action": "add-commit", "commit": commit}, *metadata_changes(before, actions)]
        try:
            self._ratify(folder, before, staged, txn_id(actions), updates)
        except ConcurrentChangeError:
            with suppress(OSError):  # the version is another commit's for good
                remove_if_there(staged)
            raise
        self._publish(folder, version, content)

    def newest(self, folder: str, state: LogState) -> int:
        table = self._load(folder, state)
        self._publish_pending(folder, state, table)
        return table.latest

    def _ratify(
        self, folder: str, before: LogState, staged: str, own_id: str | None, updates: list[Any]
    ) -> None:
        """Have the catalog accept a staged commit. Raise as ``commit``.

        A request may have been carried out although its answer says otherwise, or never came. After
        each failure the catalog is asked which commit has the version. If none has it, the request
        is repeated: it names the same file, so that two of them still commit once.
        """
        name, version, reason = _name_of(before), before.version + 1, ""
        own = (os.path.basename(staged), own_id)
        for attempt in range(_ATTEMPTS):
            answer = self._send(name.path, self._request(folder, before, updates))
            # A success counts if it shows the commit: something between may have answered.
            if not answer.kind and self._commit_of(folder, loaded(answer.body), version) in own:
                return
            reason, table = f"{answer.kind}: {answer.message}", self._load(folder, before)
            owner = self._commit_of(folder, table, version)
            if owner in own:
                return
            self._publish_pending(folder, before, table)  # also if it has too many of them
            if owner is not None:
                raise ConcurrentChangeError(f"version {version} is taken", file=folder)
            if answer.is_refusal and answer.status != _CONFLICT:
                self.catalog.expect(answer, f"a commit to {name}")
            self.catalog.wait(attempt, answer.pause_s)
        raise OSError(f"the catalog has not accepted version {version} of {name}: {reason}")

    def _send(self, path: str, request: dict[str, Any]) -> Answer:
        """Return the answer with a table, or an error; also if there is no answer, or another
        one."""
        try:
            answer = self.catalog.send(path, request)
            if not answer.kind:
                loaded(answer.body)
        except OSError as error:
            return Answer(0, {}, "no answer", str(error))
        return answer

    def _request(self, folder: str, before: LogState, updates: list[Any]) -> dict[str, Any]:
        with self._lock:
            published = self._published.get(folder, 0)
        known = {"action": "set-latest-backfilled-version", "latest-published-version": published}
        requirement = {"type": "assert-table-uuid", "uuid": _id_of(before)}
        return {
            "requirements": [requirement],
            "updates": [*updates, known] if published else updates,
        }

    def _commit_of(self, folder: str, table: LoadedTable, version: int) -> str | None:
        """Return the name of the staged file that has the version, or the ``txnId`` of its commit
        if the catalog no longer stores the name. Return None if no commit has the version."""
        if table.latest < version:
            return None
        for commit in table.commits:
            if commit.version == version:
                return commit.file_name
        return txn_id(read_commit(folder, version) or ()) or "unknown"

    def _load(self, folder: str, state: LogState) -> LoadedTable:
        """Return the table as the catalog describes it. Complete a creation that ended before the
        catalog gave the table its name. Raise OSError and TargetError."""
        name = _name_of(state)
        self._check(name)
        table = self.catalog.load(name)
        if table is None and state.version == 0 and StagingTable.read(folder) is not None:
            return self._register(folder, state)
        if table is None or table.table_id != _id_of(state):
            other = "has no table of this name" if table is None else "has another table there"
            raise TargetError(
                f"the catalog {other}: {name} (id {_id_of(state)})",
                file=folder,
                hint=f"if it was renamed, rename it back to {name} in the catalog; if it was"
                " dropped: spark-repl reset --all --config F, then start again",
            )
        return table

    def _register(self, folder: str, state: LogState) -> LoadedTable:
        """Have the catalog give the table, whose version 0 is in the log, its name. Raise as
        ``create``."""
        staging = self._staging(folder)
        name = _name_of(state)
        request = {"name": name.table, "location": staging.location, **new_metadata(state)}
        answer = self._send(f"{name.schema_path}/tables", request)
        table = None if answer.kind else loaded(answer.body)
        if table is None:  # the request may have succeeded, or an earlier one
            table = self.catalog.load(name)
        if table is None or table.table_id != staging.table_id:
            if not answer.status:
                raise OSError(answer.message)
            self.catalog.expect(answer, f"the new table {name}")
            raise OSError(f"the catalog does not show the new table {name}")
        with suppress(OSError):
            remove_if_there(os.path.join(folder, _RECORD))
        return table

    def _check(self, name: ManagedName) -> None:
        """Check once that the catalog has the API, as the specification requires. Raise as
        ``UnityCatalog.check``."""
        if not self._is_checked:
            self.catalog.check(name.catalog)
            self._is_checked = True

    def _staging(self, folder: str) -> StagingTable:
        staging = StagingTable.read(folder)
        if staging is None:
            raise TargetError(
                "the record of what the catalog requires of the new table is gone",
                file=os.path.join(folder, _RECORD),
                hint="spark-repl reset --all --config F, then start again",
            )
        return staging

    def _publish_pending(self, folder: str, state: LogState, table: LoadedTable) -> None:
        """Publish the commits that the catalog still stores, and report them. Raise OSError, and
        TargetError if ``_delta_log`` has another commit."""
        with self._lock:
            known = self._published.get(folder, 0)
        pending = [commit for commit in table.commits if commit.version > known]
        for commit in pending:
            self._publish(folder, commit.version, _staged_content(folder, commit))
        self._note(folder, table.latest)
        if pending:
            request = self._request(folder, state, [])
            with suppress(OSError):  # the next commit reports it again
                self.catalog.send(_name_of(state).path, request)

    def _publish(self, folder: str, version: int, content: bytes) -> None:
        try:
            put_if_absent(commit_path(folder, version), content)
        except FileExistsError as error:
            if read(commit_path(folder, version)) != content:
                raise TargetError(
                    f"version {version} of the table's log is not the commit that the catalog has"
                    " accepted: another writer has bypassed the catalog",
                    file=commit_path(folder, version),
                    hint="move that file away, start again, and have the other writer use the"
                    " catalog",
                ) from error
        self._note(folder, version)

    def _note(self, folder: str, version: int) -> None:
        with self._lock:
            self._published[folder] = max(version, self._published.get(folder, 0))


_CONFLICT = 409


def _staged_content(folder: str, commit: RatifiedCommit) -> bytes:
    """Return the content of a commit that the catalog has accepted. Raise TargetError if neither
    its staged file nor its published one exists, and OSError."""
    path = _staged_path(folder, commit.file_name)
    for place in (path, commit_path(folder, commit.version)):
        with suppress(FileNotFoundError):
            return read(place)
    raise TargetError(
        f"the catalog has accepted version {commit.version}, and its staged file is gone",
        file=path,
        hint="bring that file back from a backup; or drop the table in the catalog and begin again:"
        " spark-repl reset --all --config F, then start again",
    )


def _staged_path(folder: str, name: str) -> str:
    return os.path.join(folder, "_delta_log", "_staged_commits", os.path.basename(name))


def _name_of(state: LogState) -> ManagedName:
    configuration = state.metadata["configuration"]
    if NAME not in configuration:
        raise TargetError(
            "the table is managed by a catalog, and was not created by spark_repl",
            hint="use another target.path",
        )
    return ManagedName.parse(configuration[NAME])


def _id_of(state: LogState) -> str:
    return str(state.metadata["configuration"].get(TABLE_ID, ""))
