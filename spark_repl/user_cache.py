"""The user's cache folder: everything in it is created again if it no longer exists."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$SPARK_REPL_CACHE``, or ``spark_repl`` in the user's cache folder."""
    root = os.environ.get("SPARK_REPL_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spark_repl"
    )
    return Path(root)


def cache_index_folder(path: str) -> str:
    """Return the folder of the index of a log without a target. Nothing is written into the log's
    own folder."""
    folder = os.path.abspath(path).strip("/").replace("/", "-")
    return str(cache_folder() / "index" / folder)
