"""A commit of ours: the actions of one version, as Delta's protocol has them, and its file.

Delta protocol, sections "Commit Provenance Information", "Row Tracking", "In-Commit Timestamps".
A version's file must not exist when it is written. It has an id of its own (``txnId``), by which a
commit whose answer was lost is recognised.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import __version__
from ...errors import ConcurrentChangeError, TargetError, reset_table
from ..store.storage import is_file, put_if_absent, read_range
from .log_replay import commit_path, read_commit
from .log_state import ENGINE_NAME, ROW_TRACKING, LogState
from .table_protocol import features_of

Action = dict[str, Any]

_BEGIN = 1 << 16
"""number of bytes that contain the ``txnId`` of a commit of ours: it is the first or second field
of the first action"""

ENGINE = f"{ENGINE_NAME}/{__version__}"


@dataclass(frozen=True)
class Operation:
    """An operation, as DESCRIBE HISTORY shows it. ``marks``: further fields of ``commitInfo``."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)


def complete(state: LogState, actions: Sequence[Action], operation: Operation) -> list[Action]:
    """Return the actions of the version after ``state``: ``commitInfo`` first, followed by what the
    table's features require in each commit (row ids, an in-commit timestamp). Raise TargetError."""
    now_ms = int(time.time() * 1000)
    after = state.after(actions)
    info: Action = {}
    if after.has_timestamps:
        if state.version >= 0 and state.has_timestamps and state.timestamp_ms is None:
            raise TargetError(
                f"the in-commit timestamp of version {state.version} is not known, and the next one"
                " must be later",
                hint="bring the version's .json or .crc file in _delta_log back from a backup, or"
                f" {reset_table()}",
            )
        now_ms = max(now_ms, (state.timestamp_ms or 0) + 1)
        info["inCommitTimestamp"] = now_ms
    info |= {
        "txnId": str(uuid.uuid4()),
        "timestamp": now_ms,
        "operation": operation.name,
        "operationParameters": _written(operation.parameters),
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": _metrics(actions),
        "engineInfo": ENGINE,
    }
    if state.version >= 0:
        info["readVersion"] = state.version
    if operation.user_metadata:
        info["userMetadata"] = operation.user_metadata
    info |= operation.marks
    tracked = "rowTracking" in features_of(after.protocol)
    return [{"commitInfo": info}, *(_with_row_ids(state, actions) if tracked else actions)]


def publish(folder: str, version: int, actions: Sequence[Action]) -> None:
    """Write the commit of a version.

    Raise ConcurrentChangeError if another commit has this version. Raise OSError if writing fails:
    the commit may exist, or may appear later.
    """
    try:
        put_if_absent(commit_path(folder, version), encoded(actions))
    except FileExistsError as error:
        # A store's client retries when an answer is lost: the existing commit may be this one.
        if txn_id(read_commit(folder, version) or ()) != txn_id(actions):
            raise ConcurrentChangeError(f"version {version} is taken", file=folder) from error


def encoded(actions: Sequence[Action]) -> bytes:
    """Return the content of a commit's file."""
    return "".join(_line(action) for action in actions).encode()


def check_own(folder: str, version: int, own_id: str) -> bool:
    """Return whether a version exists in the log.

    Raise TargetError if its commit does not have this ``txnId``, because another writer has
    overwritten it. Spark's Delta can do this, because it first checks whether a version exists and
    renames its file afterwards. Raise OSError.
    """
    try:
        begin = read_range(commit_path(folder, version), 0, _BEGIN)
    except FileNotFoundError:
        return False
    if own_id.encode() not in begin:
        raise TargetError(
            f"version {version} of the table's log was written over by another writer",
            file=folder,
            hint="copy the table again: spark-repl snapshot --config F --table NAME",
        )
    return True


def is_in_log(folder: str, version: int, own_id: str | None) -> bool:
    """Return whether the log has a version's commit. ``own_id``: its ``txnId`` if it is ours and is
    to be checked. Raise as ``check_own``."""
    if own_id:
        return check_own(folder, version, own_id)
    return is_file(commit_path(folder, version))


def txn_id(actions: Sequence[Action]) -> str | None:
    """Return the id in a commit's ``commitInfo``; None if it has none."""
    infos = (action["commitInfo"] for action in actions if "commitInfo" in action)
    return next((info.get("txnId") for info in infos), None)


def _line(action: Action) -> str:
    return json.dumps(action, ensure_ascii=False, separators=(",", ":")) + "\n"


def _written(parameters: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return an operation's parameters as Delta writes them: lists and objects as text."""
    return {
        name: value if isinstance(value, str | bool) else json.dumps(value, separators=(",", ":"))
        for name, value in parameters.items()
    }


def _metrics(actions: Sequence[Action]) -> dict[str, str]:
    """Return how many files a commit adds, removes and marks, and their bytes, as text.

    A file that is added again with another deletion vector is neither added nor removed.
    """
    adds = {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    removes = {a["remove"]["path"]: a["remove"] for a in actions if "remove" in a}
    new, gone = adds.keys() - removes.keys(), removes.keys() - adds.keys()
    figures = {
        "numAddedFiles": len(new),
        "numAddedBytes": sum(adds[path]["size"] for path in new),
        "numRemovedFiles": len(gone),
        "numRemovedBytes": sum(removes[path].get("size") or 0 for path in gone),
        "numDeletionVectorsUpdated": len(adds.keys() & removes.keys()),
    }
    return {name: str(value) for name, value in figures.items()}


def _with_row_ids(state: LogState, actions: Sequence[Action]) -> list[Action]:
    """Return the actions with row ids for files that have none, and the highest id assigned.

    Raise TargetError for a file without a number of rows.
    """
    last, completed = state.last_row_id, list[Action]()
    for action in actions:
        add = action.get("add")
        if add is None or (add.get("baseRowId") is not None and "defaultRowCommitVersion" in add):
            completed.append(action)
            continue
        rows = json.loads(add.get("stats") or "{}").get("numRecords")
        if rows is None:
            raise TargetError(
                f"{add['path']} has no number of rows in its statistics, which row tracking needs"
            )
        given = {"baseRowId": last + 1, "defaultRowCommitVersion": state.version + 1}
        last += rows
        completed.append({"add": {**add, **given}})
    if last != state.last_row_id:
        text = json.dumps({"rowIdHighWaterMark": last}, separators=(",", ":"))
        domain = {"domain": ROW_TRACKING, "configuration": text, "removed": False}
        completed.append({"domainMetadata": domain})
    return completed
