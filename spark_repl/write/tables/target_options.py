"""Target options: the configuration of the target's tables, as metadata of new Delta tables, rules
and policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from ...binlog.types.forms import USUAL, Forms
from ...control.records.retention import Retention
from ...delta.files import partitions
from ...delta.files.corrected_statistics import CORRECT, PROPERTY
from ...delta.files.delta_columns import schema_json
from ...delta.log import checkpoint_schedule
from ...delta.log.retention_properties import retention_properties
from ...delta.log.table_snapshot import NewTable
from ...rules.column_rules import ColumnRules
from ...rules.masking import mask_key
from ...rules.replication_filters import ReplicationFilters
from ...rules.table_rules import TableRules
from ...sql.policy import Policies, Policy
from ...tables.case_folding import fold
from .source_description import described

if TYPE_CHECKING:
    from ...config import Config
    from ...config.tables import TableRule
    from ...tables.target_table import TargetTable


@dataclass(frozen=True)
class TargetOptions:
    """How new tables are created, whether other writers' changes of rows are accepted, and what
    statements may do to existing tables."""

    column_mapping: bool = True
    deletion_vectors: bool = True
    inline_vector_bytes: int = 0
    """a commit contains its deletion vectors of at most so many bytes; larger ones are in a file"""
    retention_hours: int = 168
    """longest time for which a cut is promised, in hours"""
    forms: Forms = USUAL
    accept_foreign: bool = False
    change_data_feed: bool = False
    partition_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """table -> columns"""
    lower_case_table_names: int = -1
    """the source's; -1: not configured"""
    system_time_zone: str = ""
    """the source's; "": not configured"""
    policies: Policies = field(default_factory=Policies)
    on_error: str = "stop"
    """for tables whose rule has no value"""
    online_tools: str = "follow"
    filters: ReplicationFilters = field(default_factory=ReplicationFilters)
    columns: ColumnRules = field(default_factory=ColumnRules)

    @classmethod
    def of(cls, config: Config) -> TargetOptions:
        target = config.target
        return cls(
            target.column_mapping,
            target.deletion_vectors,
            target.inline_vector_bytes,
            Retention.of(target).longest,
            Forms.of_target(target),
            target.on_foreign_change == "accept",
            target.change_data_feed,
            target.partitions(),
            lower_case_table_names=config.source.lower_case_table_names,
            system_time_zone=config.source.system_time_zone,
            policies=Policies.of(
                config.ddl.policy, folds=config.source.lower_case_table_names != 0
            ),
            on_error=config.apply.on_error,
            online_tools=config.ddl.online_tools,
            filters=ReplicationFilters.of(config),
            columns=ColumnRules(TableRules(config.tables), mask_key(config.target)),
        )

    def policy(self, name: str, *, folds: bool) -> Policy:
        """Return what statements may do to the table. ``folds``: whether names are in lower
        case."""
        given = self.rules_of(name, folds=folds).on_ddl
        return Policy(given) if given else self.policies.of_table(name)

    def quarantines(self, name: str, *, folds: bool) -> bool:
        """Return whether the table goes into quarantine if a change can't be applied to it. A table
        with metadata columns about a row's last change never does, because kept changes do not have
        the values of these columns. With its own rule this combination is an error of the
        configuration, but a table of an online schema-change tool has another table's rule."""
        if self.columns_of(folds=folds).rules.shaping(name).added_columns:
            return False
        return (self.rules_of(name, folds=folds).on_error or self.on_error) == "quarantine"

    def rules_of(self, name: str, *, folds: bool) -> TableRule:
        """Return the rule of the table in ``[[tables]]``."""
        return self.columns_of(folds=folds).rules.of_table(name)

    def differs_folded(self, name: str) -> bool:
        """Return whether another rule applies to the table if the source folds names."""
        return self.columns.rules.differs_folded(name)

    def columns_of(self, *, folds: bool) -> ColumnRules:
        """Return the rules of excluded and masked columns."""
        return self.columns.folded() if folds else self.columns

    def new_table(self, definition: TargetTable, own: Mapping[str, str]) -> NewTable:
        """Return the metadata of a table. ``own``: its own properties. Raise SchemaError."""
        by, schema = self._partitions(definition.name), definition.arrow_schema()
        if (number := definition.shard_column) >= 0:
            by = (definition.columns[number].name,)
            schema = pa.schema([field.with_nullable(True) for field in schema])
        partitions.check(definition, by)
        properties = {**self.properties(), **own}
        if by:
            properties |= partitions.PROPERTIES
        return described(NewTable(schema_json(schema), properties, by), definition)

    def _partitions(self, name: str) -> tuple[str, ...]:
        """Return the table's columns in ``partition_by``. Its name may be written there in another
        case than the source logs it."""
        if name in self.partition_by or self.lower_case_table_names == 0:
            return self.partition_by.get(name, ())
        meant = [by for other, by in self.partition_by.items() if fold(other) == fold(name)]
        return meant[0] if meant else ()

    def properties(self) -> dict[str, str]:
        configuration = {
            "delta.enableDeletionVectors": str(self.deletion_vectors).lower(),
            "delta.checkpointInterval": checkpoint_schedule.NEVER,
            PROPERTY: CORRECT,
            **retention_properties(self.retention_hours),
        }
        if self.change_data_feed:
            configuration["delta.enableChangeDataFeed"] = "true"
        if self.column_mapping:
            configuration["delta.columnMapping.mode"] = "name"
        return configuration
