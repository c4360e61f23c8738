"""How new tables are made: what the configuration says of the target, as Delta's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from ...binlog.types.forms import USUAL, Forms
from ...control.records.retention import Retention
from ...delta import checkpoint, partitions
from ...delta.columns import schema_json
from ...delta.corrected_statistics import CORRECT, PROPERTY
from ...delta.snapshot import NewTable
from ...rules.column_rules import ColumnRules
from ...rules.metadata_columns import shard_column
from ...rules.replication_filters import ReplicationFilters
from ...rules.table_rules import TableRules
from ...source.account import mask_key
from ...sql.case_folding import fold
from ...sql.policy import Policies, Policy
from ..upkeep import file_retention

if TYPE_CHECKING:
    from ...config import Config
    from ...config.tables import TableRule
    from ...tables.table_definition import TableDefinition


@dataclass(frozen=True)
class TableOptions:
    """How new tables are made, whether rows that others changed are accepted, and what statements
    may do to tables that are there."""

    column_mapping: bool = True
    deletion_vectors: bool = True
    retention_hours: int = 168
    """for how long a cut is promised at most"""
    forms: Forms = USUAL
    accept_foreign: bool = False
    change_data_feed: bool = False
    partition_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """table -> columns"""
    """which writer they are for"""
    lower_case_table_names: int = -1
    """the source's; -1: not said"""
    system_time_zone: str = ""
    """the source's; "": not said"""
    policies: Policies = field(default_factory=Policies)
    on_error: str = "stop"
    """of the tables whose rule says nothing else"""
    online_tools: str = "follow"
    filters: ReplicationFilters = field(default_factory=ReplicationFilters)
    columns: ColumnRules = field(default_factory=ColumnRules)

    @classmethod
    def of(cls, config: Config) -> TableOptions:
        target = config.target
        return cls(
            target.column_mapping,
            target.deletion_vectors,
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
        """What statements may do to the table; ``folds``: whether names are in lower case."""
        given = self.rules_of(name, folds=folds).on_ddl
        return Policy(given) if given else self.policies.of_table(name)

    def quarantines(self, name: str, *, folds: bool) -> bool:
        """Whether the table goes into quarantine with a change that can't be applied to it. One
        with columns that say of a row's last change what no kept change does never goes: its own
        rule would be a fault, but for that of an online schema-change tool's table, by another's
        rule."""
        if self.columns_of(folds=folds).rules.shaping(name).added_columns:
            return False
        return (self.rules_of(name, folds=folds).on_error or self.on_error) == "quarantine"

    def rules_of(self, name: str, *, folds: bool) -> TableRule:
        """What the configuration's ``[[tables]]`` say of the table."""
        return self.columns_of(folds=folds).rules.of_table(name)

    def differs_folded(self, name: str) -> bool:
        """Whether they say something else of the table where the source folds names."""
        return self.columns.rules.differs_folded(name)

    def columns_of(self, *, folds: bool) -> ColumnRules:
        """What is withheld or masked."""
        return self.columns.folded() if folds else self.columns

    def new_table(self, definition: TableDefinition, own: Mapping[str, str]) -> NewTable:
        """The metadata of a table; ``own``: properties of its own. Raises SchemaError."""
        by, schema = self._partitions(definition.name), definition.arrow_schema()
        if (number := shard_column(definition)) >= 0:
            by = (definition.columns[number].name,)
            schema = pa.schema([field.with_nullable(True) for field in schema])
        partitions.check(definition, by)
        properties = {**self.properties(), **own}
        if by:
            properties |= partitions.PROPERTIES
        return NewTable(schema_json(schema), properties, by)

    def _partitions(self, name: str) -> tuple[str, ...]:
        """The table's columns in ``partition_by``, where its name may be written in another case
        than the source logs it in."""
        if name in self.partition_by or self.lower_case_table_names == 0:
            return self.partition_by.get(name, ())
        meant = [by for other, by in self.partition_by.items() if fold(other) == fold(name)]
        return meant[0] if meant else ()

    def properties(self) -> dict[str, str]:
        configuration = {
            "delta.enableDeletionVectors": str(self.deletion_vectors).lower(),
            "delta.checkpointInterval": checkpoint.NEVER,
            PROPERTY: CORRECT,
            **file_retention.properties(self.retention_hours),
        }
        if self.change_data_feed:
            configuration["delta.enableChangeDataFeed"] = "true"
        if self.column_mapping:
            configuration["delta.columnMapping.mode"] = "name"
        return configuration
