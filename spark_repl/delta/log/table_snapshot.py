"""Snapshot: one version of a Delta table, and the metadata of a table to create or alter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log_state import LogState

CATALOG_MANAGED = "catalogManaged"
"""feature of a table whose commits a catalog decides"""


@dataclass(frozen=True)
class Snapshot:
    """One version of one table."""

    folder: str
    version: int
    metadata_id: str
    schema_string: str
    configuration: dict[str, str]
    state: LogState = field(repr=False, compare=False)
    """the log's state at this version, without files"""
    features: frozenset[str] = frozenset()
    partition_columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: str, state: LogState) -> Snapshot:
        """Return the snapshot of the table at ``folder`` whose log has the state ``state``."""
        metadata, protocol = state.metadata, state.protocol
        listed = [*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())]
        return cls(
            folder,
            state.version,
            metadata["id"],
            metadata["schemaString"],
            metadata["configuration"],
            state,
            frozenset(listed),
            tuple(metadata["partitionColumns"]),
        )

    @property
    def is_managed(self) -> bool:
        """Return whether a catalog manages the table, which then forbids upkeep by others: VACUUM,
        clean-up of the log, rewritten files."""
        return CATALOG_MANAGED in self.features

    def has(self, property_name: str) -> bool:
        """Return whether a property is true."""
        return self.configuration.get(property_name, "").lower() == "true"


@dataclass(frozen=True)
class NewTable:
    """A table's metadata. ``partition_columns``: names as in the schema. ``comment``: None if it
    does not change."""

    schema_string: str
    configuration: dict[str, str]
    partition_columns: tuple[str, ...] = ()
    comment: str | None = None
