"""A table's log read from its own files, as the Delta protocol describes them, without Spark.

Spark's reconstruction of a state costs 8 s in a cold JVM and 0.3-1 s in a warm one; the few commits
since the last checkpoint are read here in milliseconds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from ..errors import TargetError, reset_table
from . import log_checkpoints
from .storage import names, read

Action = dict[str, Any]

_LOOK_BACK = 64
COMMIT = re.compile(r"\d{20}\.json")
_ADD_FIELDS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "stats",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
)


def commit_path(folder: str, version: int) -> str:
    """Where the commit of a version lies."""
    return os.path.join(folder, "_delta_log", f"{version:020d}.json")


def checkpoint_path(folder: str, version: int) -> str:
    """Where the checkpoint of a version lies that is one file."""
    return os.path.join(folder, "_delta_log", f"{version:020d}.checkpoint.parquet")


def read_commit(folder: str, version: int) -> list[Action] | None:
    """The actions of one commit; None when its file is gone (cleaned up behind a checkpoint)."""
    try:
        content = read(commit_path(folder, version)).decode()
        return [json.loads(line) for line in content.split("\n") if line.strip()]
    except FileNotFoundError:
        return None


def commits_after(folder: str, version: int, upto: int) -> list[list[Action]]:
    """The actions of each commit in (version, upto]. Raises TargetError when one is gone."""
    return list(each_commit_after(folder, version, upto))


def each_commit_after(folder: str, version: int, upto: int) -> Iterator[list[Action]]:
    """The same, one read after the other."""
    for number in range(version + 1, upto + 1):
        actions = read_commit(folder, number)
        if actions is None:
            raise TargetError(
                f"version {number} of the table's log is gone",
                file=folder,
                hint="logRetentionDuration is shorter than the applier was away:"
                f" raise it, and {reset_table()}",
            )
        yield actions


def newest_version(folder: str) -> int:
    """The newest version of the table at ``folder``, by the names of its commits; -1 where there is
    no table."""
    there = names(os.path.join(folder, "_delta_log"))
    return max((int(name[:20]) for name in there if COMMIT.fullmatch(name)), default=-1)


def last_txn(folder: str, version: int, app: str) -> int | None:
    """The ``txn`` version of ``app`` at a table version, from the newest commits; None when it has
    none. Raises LookupError when they don't reach back far enough to tell."""
    for number in range(version, max(-1, version - _LOOK_BACK), -1):
        actions = read_commit(folder, number)
        if actions is None:
            raise LookupError(f"version {number} is gone")
        for action in actions:
            if action.get("txn", {}).get("appId") == app:
                return int(action["txn"]["version"])
    if version >= _LOOK_BACK:
        raise LookupError(f"nothing in {_LOOK_BACK} versions")
    return None


def last_user_metadata(folder: str, version: int, app: str) -> str | None:
    """userMetadata of the newest commit of ``app``; None when it is not in the log any more."""
    for number in range(version, -1, -1):
        actions = read_commit(folder, number)
        if actions is None:
            return None
        if any(action.get("txn", {}).get("appId") == app for action in actions):
            infos = [a["commitInfo"] for a in actions if "commitInfo" in a]
            return infos[0].get("userMetadata") if infos else None
    return None


def live_files(folder: str, version: int) -> dict[str, Action]:
    """Return the ``add`` action of every live data file at a version, by path. Raises TargetError
    if the log does not reach back to it, and OSError."""
    base = log_checkpoints.newest(folder, version)
    files: dict[str, Action] = {}
    for table in base.files("add") if base else ():
        for row in table.to_pylist(maps_as_pydicts="strict"):
            files[row["path"]] = _plain(row)
    for actions in each_commit_after(folder, base.version if base else -1, version):
        # Within a commit a file may be removed and added again with another deletion vector.
        for action in actions:
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                files[action["add"]["path"]] = action["add"]
    return files


def _plain(row: Action) -> Action:
    """Return an ``add`` of a checkpoint as a commit has it in JSON: without NULLs."""
    fields = {name: row[name] for name in _ADD_FIELDS if row.get(name) is not None}
    if vector := fields.get("deletionVector"):
        fields["deletionVector"] = {n: value for n, value in vector.items() if value is not None}
    return fields
