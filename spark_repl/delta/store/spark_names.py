"""SparkNames: names and paths in Spark's syntax."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a name in backquotes, for Spark's SQL and its column expressions."""
    return "`" + name.replace("`", "``") + "`"
