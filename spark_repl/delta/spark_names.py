"""SparkNames: names and paths as Spark takes them."""

from __future__ import annotations

import re


def quoted(name: str) -> str:
    """A name in backquotes, as Spark's SQL and its column expressions take it."""
    return "`" + name.replace("`", "``") + "`"


def literally(path: str) -> str:
    """A path whose patterns are escaped: Spark's readers would expand them."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", path)
