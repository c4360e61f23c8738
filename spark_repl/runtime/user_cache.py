"""The user's cache folder: what may lie there is made again when it is gone."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$SPARK_REPL_CACHE`` or the user's cache folder."""
    root = os.environ.get("SPARK_REPL_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spark_repl"
    )
    return Path(root)


def cache_index_folder(path: str) -> str:
    """Where the index of a log without a target lies: nothing is written beside the log."""
    folder = os.path.abspath(path).strip("/").replace("/", "-")
    return str(cache_folder() / "index" / folder)
