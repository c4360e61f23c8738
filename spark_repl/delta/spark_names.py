"""SparkNames: names and paths as Spark takes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name in backquotes, as Spark's SQL and its column expressions take it."""
    return "`" + name.replace("`", "``") + "`"
