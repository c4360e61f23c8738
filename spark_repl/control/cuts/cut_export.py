"""Cut export: a cut as a manifest for other engines, with each table's place, version, schema and
data files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ...config.renaming import is_shared, whole_of
from ...delta.files.corrected_statistics import CORRECT, PROPERTY
from ...delta.log.add_actions import live_files
from ...delta.store.delta_rs_read import opened
from ...runtime.target_uri import is_remote
from ..records.channels import channels
from ..records.shared_tables import shared_shards
from ..records.table_notes import checked_versions
from ..table.control_rows import ControlRows
from ..table.cut import reader_tables

if TYPE_CHECKING:
    from ..table.cut import Cut, TableVersion
    from ..table.layout import Layout

FORMAT = 1


def manifest(layout: Layout, cut: Cut, *, quarantined: bool = False) -> dict[str, Any]:
    """Return what a reader needs to read the cut: per table ``path`` and ``version`` for engines
    that read Delta, and the version's files with their sizes and rows.

    ``plain``: whether a reader of the Parquet files, with the schema's column names, gets exactly
    the table's rows. This is false if a row is marked as deleted, or a column is mapped to another
    name or is only in the path. ``sound_statistics``: whether delta-rs, DuckDB and Polars find all
    rows that match a condition. ``quarantined``: include tables in quarantine, as they were before.
    Raise TargetError if a table's version can't be read.
    """
    marked, shards = () if quarantined else cut.quarantined, shared_shards(cut)
    checked = _checked(layout, cut)
    return {
        "format": FORMAT,
        "gtid_executed": cut.gtid_executed,
        "at": cut.at and cut.at.isoformat(),
        "tables": {
            name: _table(name, layout.table(at.path), at, shards.get(name), checked)
            for name, at in reader_tables(cut).items()
            if name not in marked
        },
        "quarantined": {name: why.reason for name, why in cut.quarantined.items()},
        "waiting": {name: why.reason for name, why in cut.waiting.items()},
    }


def _checked(layout: Layout, cut: Cut) -> dict[str, int]:
    """Return the versions from which on tables have sound statistics, by their paths. Another
    channel may have checked a table that several channels feed."""
    shared = any(is_shared(at.path) for at in cut.tables.values())
    controls = [channel.control for channel in channels(layout.target)] if shared else []
    versions = checked_versions(ControlRows(layout.control))
    for control in controls:
        versions |= checked_versions(control)
    return versions


def _table(
    name: str, folder: str, at: TableVersion, shards: list[str] | None, checked: dict[str, int]
) -> dict[str, Any]:
    """Return a table's entry. ``shards``: whose files count, in a table that other channels feed
    also; ``checked``: see ``_checked``."""
    version = at.version
    folder = folder if is_remote(folder) else os.path.abspath(folder)
    files = live_files(folder, version)
    with opened(folder, version) as table:
        schema = json.loads(table.schema().to_json())
        by = list(table.metadata().partition_columns)
        properties = dict(table.metadata().configuration)
    mapped = properties.get("delta.columnMapping.mode", "none") != "none"
    own = [add for add in files.values() if shards is None or _is_of(add, shards)]
    listed = [_file(folder, add) for add in own]
    marked = any(file["deleted_rows"] for file in listed)
    return {
        "path": folder,
        "version": version,
        "schema": schema,
        "partition_columns": by,
        "plain": not (mapped or by or marked),
        "sound_statistics": properties.get(PROPERTY) == CORRECT
        or checked.get(whole_of(at.path), version + 1) <= version,
        "files": listed,
    }


def _is_of(add: dict[str, Any], shards: list[str]) -> bool:
    """Return whether a file belongs to one of the ``shards``. Its table has one partition
    column."""
    (value,) = add["partitionValues"].values()
    return value in shards


def _file(folder: str, add: dict[str, Any]) -> dict[str, Any]:
    stats = json.loads(add.get("stats") or "{}")
    vector = add.get("deletionVector")
    return {
        "path": os.path.join(folder, unquote(add["path"])),
        "size": add["size"],
        "rows": stats.get("numRecords"),
        "deleted_rows": vector["cardinality"] if vector else 0,
        "partition_values": add.get("partitionValues", {}),
    }
