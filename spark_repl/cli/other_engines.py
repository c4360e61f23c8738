"""Warnings of ``config check`` for readers of the target other than Spark: settings by which an
engine gives wrong rows, or opens no table. docs/delta-features.md has the whole list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..copy.survey import WARNING, Finding
from ..runtime.object_store import is_remote

if TYPE_CHECKING:
    from ..config import Config

_PLAIN = re.compile(r"[!-$&-~]*")
"""what every engine opens in a path: ASCII without a percent sign or space"""


def engine_findings(config: Config) -> Iterator[Finding]:
    """Yield a warning for each combination of settings that an engine does not read rightly."""
    target = config.target
    sharded = [rule.match for rule in config.tables if rule.shards_by]
    if target.column_mapping and (target.partition_by or sharded):
        tables = ", ".join([*target.partitions(), *sharded])
        yield Finding(
            WARNING,
            "DuckDB's delta_scan 1.5 gives NULL for the partition columns of tables with"
            f" target.column_mapping, which is on: {tables}",
            "set target.column_mapping = false before the tables are made, or read them in DuckDB"
            " through deltalake",
        )
    if not is_remote(target.path) and not _PLAIN.fullmatch(target.path):
        yield Finding(
            WARNING,
            f'target.path = "{target.path}": Polars, and beyond ASCII DuckDB as well, open no table'
            " in such a folder",
            "set target.path to a folder of ASCII letters without spaces and percent signs",
        )
