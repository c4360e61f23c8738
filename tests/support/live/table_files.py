"""The files of Delta tables, as their logs name them: data files and deletion vectors."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from spark_repl.delta.files.deletion_vector import _relative_path
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.store import storage

_LONG_AGO_S = 7200


def files_of(action: dict[str, Any]) -> set[str]:
    """Of an ``add`` or ``remove``: paths relative to the table."""
    vector = action.get("deletionVector")
    own = vector is not None and vector["storageType"] == "u"
    return {action["path"]} | ({_relative_path(vector["pathOrInlineDv"])} if own else set())


def live(folder: str, version: int) -> set[str]:
    found = live_files(folder, version)
    assert found is not None, f"{folder} at {version}"
    return {path for action in found.values() for path in files_of(action)}


def missing(folder: str, version: int) -> set[str]:
    return {path for path in live(folder, version) if not storage.is_file(f"{folder}/{path}")}


def make_old(folder: str) -> None:
    """Files that some version has named get a date of two hours ago, as if it had been committed
    then: what VACUUM passes by for an hour it looks at now."""
    then = time.time() - _LONG_AGO_S
    for version in range(len(list(Path(folder, "_delta_log").glob("*.json")))):
        for action in read_commit(folder, version) or []:
            made = action.get("add") or action.get("remove")
            for path in files_of(made) if made else ():
                with suppress(FileNotFoundError):
                    os.utime(f"{folder}/{path}", (then, then))
