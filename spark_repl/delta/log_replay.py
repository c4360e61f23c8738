"""A table's log read from its own files, as the Delta protocol describes them, without Spark.

Spark's reconstruction of a state costs 8 s in a cold JVM and 0.3-1 s in a warm one; the few commits
since the last checkpoint are read here in milliseconds. What this reader doesn't know (multi-part
and V2 checkpoints) is left to Spark: the functions return None then.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import TargetError
from ..runtime.object_store import is_remote
from .storage import is_whole, names, one_line, open_input, parquet_source

Action = dict[str, Any]

_LOOK_BACK = 64
_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
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
        with open_input(commit_path(folder, version)) as file:
            return [json.loads(line) for line in file.read().decode().split("\n") if line.strip()]
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
                " raise it, and start again with an empty target",
            )
        yield actions


def newest_version(folder: str) -> int:
    """The newest version of the table at ``folder``, by the names of its commits; -1 where there is
    no table."""
    there = names(os.path.join(folder, "_delta_log"))
    return max((int(name[:20]) for name in there if _COMMIT.fullmatch(name)), default=-1)


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


def live_files(folder: str, version: int) -> dict[str, Action] | None:
    """The ``add`` action of every live data file at a version, by path; None when its log can't be
    read here."""
    if version <= _LOOK_BACK and (files := _replayed(folder, 0, {}, version)) is not None:
        return files
    begin, files = _checkpoint(folder, version) or (0, {})
    return _replayed(folder, begin, files, version)


def _replayed(
    folder: str, begin: int, files: dict[str, Action], version: int
) -> dict[str, Action] | None:
    """``files`` behind the commits from ``begin`` to ``version``; None when one is gone."""
    files = dict(files)
    for number in range(begin, version + 1):
        actions = read_commit(folder, number)
        if actions is None:
            return None
        # Within a commit a file may be removed and added again with another deletion vector.
        for action in actions:
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                files[action["add"]["path"]] = action["add"]
    return files


def _checkpoint(folder: str, version: int) -> tuple[int, dict[str, Action]] | None:
    """(next version, live files) of the last classic one-file checkpoint up to ``version``."""
    log, last = os.path.join(folder, "_delta_log"), dict[str, Any]()
    # Not there, or empty, since the power failed: the checkpoint may be there all the same.
    hint = os.path.join(log, "_last_checkpoint")
    with suppress(FileNotFoundError, ValueError), open_input(hint) as file:
        last = json.loads(file.read())
    if last.get("parts") or last.get("v2Checkpoint"):
        return None
    path = checkpoint_path(folder, at := int(last.get("version", 0)))
    if not last or at > version or not is_whole(path):
        # An older version that is kept has one of its own, or stands on one.
        at, path = _before(log, version)
    if at < 0:
        return None
    adds = _adds(path, at)
    return None if adds is None else (at + 1, {add["path"]: _plain(add) for add in adds})


def _adds(path: str, version: int) -> list[Action] | None:
    """The ``add`` of each row of a version's checkpoint; None where they are listed elsewhere.
    Raises OSError, and TargetError for a damaged one."""
    try:
        return _read_adds(path)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and (error.errno or is_remote(path)):
            raise
        raise TargetError(
            f"the checkpoint of version {version} of the table's log is damaged:"
            f" {one_line(str(error))}",
            file=path,
            hint="where the commits before it are there, remove it; else bring it back from a"
            " backup, or start again with an empty target",
        ) from error


def _read_adds(path: str) -> list[Action] | None:
    with pq.ParquetFile(parquet_source(path)) as file:
        if "sidecar" in file.schema_arrow.names:
            sidecars = file.read(columns=["sidecar"]).column("sidecar")
            if sidecars.null_count < len(sidecars):
                return None  # a V2 checkpoint
        adds: list[Action] = file.read(columns=["add"]).column("add").drop_null().to_pylist()
    return adds


def _before(log: str, version: int) -> tuple[int, str]:
    """The version, -1 where there is none, and the path of the last classic one-file checkpoint up
    to ``version``, by the log's names."""
    matches = filter(None, map(_CHECKPOINT.fullmatch, names(log)))
    there = {int(match[1]): os.path.join(log, match[0]) for match in matches}
    for at in sorted((at for at in there if at <= version), reverse=True):
        if is_whole(there[at]):
            return at, there[at]
    return -1, ""


def _plain(add: Action) -> Action:
    """An ``add`` as JSON has it: maps as objects, no empty fields."""
    fields = {name: value for name, value in add.items() if value is not None}
    for name in ("partitionValues", "tags"):
        if name in fields:
            fields[name] = dict(fields[name])
    vector = fields.get("deletionVector")
    if vector is not None:
        fields["deletionVector"] = {n: value for n, value in vector.items() if value is not None}
    return {name: value for name, value in fields.items() if name in _ADD_FIELDS}
