"""A table's log read from its own files, as the Delta protocol describes them, without Spark.

Spark's reconstruction of a state costs 8 s in a cold JVM and 0.3-1 s in a warm one. This module
reads the few commits since the last checkpoint in milliseconds.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from ...errors import TargetError, reset_table
from ...runtime.target_uri import is_remote
from ...runtime.threads import Pool
from ..store.storage import read

Action = dict[str, Any]

_AT_ONCE = 8
"""commits that are read at once from an object store"""
COMMIT = re.compile(r"\d{20}\.json")


def commit_path(folder: str, version: int) -> str:
    """Return the path of a version's commit."""
    return os.path.join(folder, "_delta_log", f"{version:020d}.json")


def checksum_path(folder: str, version: int) -> str:
    """Return the path of a version's checksum."""
    return os.path.join(folder, "_delta_log", f"{version:020d}.crc")


def checkpoint_path(folder: str, version: int) -> str:
    """Return the path of a version's checkpoint in one file."""
    return os.path.join(folder, "_delta_log", f"{version:020d}.checkpoint.parquet")


def read_commit(folder: str, version: int) -> list[Action] | None:
    """Return the actions of one commit; None if its file does not exist (it was removed after a
    checkpoint). Raise TargetError if it is damaged, and OSError."""
    try:
        content = read(commit_path(folder, version)).decode()
        return [json.loads(line) for line in content.split("\n") if line.strip()]
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise TargetError(
            f"version {version} of the table's log is damaged: {error}",
            file=commit_path(folder, version),
            hint=f"bring that file back from a backup, or {reset_table()}",
        ) from error


def commits_after(folder: str, version: int, upto: int) -> list[list[Action]]:
    """Return the actions of each commit in (version, upto]. Raise TargetError if one is missing."""
    return list(each_commit_after(folder, version, upto))


def each_commit_after(folder: str, version: int, upto: int) -> Iterator[list[Action]]:
    """Yield the actions of each commit in (version, upto], one at a time; on an object store a few
    are read in parallel. Raise TargetError if one is missing."""
    numbers = range(version + 1, upto + 1)
    if len(numbers) < 2 or not is_remote(folder):
        yield from (_existing(folder, number, read_commit(folder, number)) for number in numbers)
        return
    with Pool(min(_AT_ONCE, len(numbers))) as pool:
        for begin in range(0, len(numbers), _AT_ONCE):
            at_once = numbers[begin : begin + _AT_ONCE]
            commits = list(pool.map(lambda number: read_commit(folder, number), at_once))
            yield from map(partial(_existing, folder), at_once, commits)


def _existing(folder: str, number: int, actions: list[Action] | None) -> list[Action]:
    if actions is None:
        raise TargetError(
            f"version {number} of the table's log is gone",
            file=folder,
            hint="logRetentionDuration is shorter than the applier was away:"
            f" raise it, and {reset_table()}",
        )
    return actions


def last_user_metadata(folder: str, version: int, app: str) -> str | None:
    """Return userMetadata of the newest commit of ``app``; None if that commit is no longer in the
    log."""
    for number in range(version, -1, -1):
        actions = read_commit(folder, number)
        if actions is None:
            return None
        if any(action.get("txn", {}).get("appId") == app for action in actions):
            infos = [a["commitInfo"] for a in actions if "commitInfo" in a]
            return infos[0].get("userMetadata") if infos else None
    return None
