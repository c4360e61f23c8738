"""The user's cache folder: all that lies there is made again when it is gone."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder ``$SPARK_REPL_CACHE``, or ours in the user's cache folder."""
    root = os.environ.get("SPARK_REPL_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spark_repl"
    )
    return Path(root)


def cache_index_folder(path: str) -> str:
    """Folder of the index of a log without a target: nothing is written beside the log."""
    folder = os.path.abspath(path).strip("/").replace("/", "-")
    return str(cache_folder() / "index" / folder)
