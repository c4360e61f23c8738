"""What a copy's tables are to be in the target: what the rules have no meaning for is said of all
tables at once, before the first row is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..config.tables import NO_ROWS
from ..errors import ConfigError, SettingError
from ..rules.column_rules import ColumnRules
from ..rules.row_filters import check_row_filter
from ..rules.table_mode import check_without_rows
from ..sql.case_folding import check_columns
from ..write.tables.table_options import TableOptions

if TYPE_CHECKING:
    from ..config import Config
    from ..rules.table_rules import TableRules
    from ..tables.table_definition import TableDefinition


def target_shapes(
    config: Config, tables: Iterable[TableDefinition], rules: TableRules
) -> list[TableDefinition]:
    """The source's tables as the target is to have them. Raises SettingError for a table that
    ``[[tables]]`` has no meaning for, ConfigError with all faults for several."""
    columns, forms = ColumnRules(rules), TableOptions.of(config).forms
    shapes: list[TableDefinition] = []
    faults = list[SettingError]()
    for table in tables:
        try:
            shapes.append(columns.shaped(forms.apply(table)))
            check_row_filter(shapes[-1], columns)
            check_columns(shapes[-1])
            if rules.of_table(table.name).copy == NO_ROWS:
                check_without_rows(shapes[-1])
        except SettingError as error:
            faults.append(error.at(table=table.name))
    if len(faults) == 1:
        raise faults[0]
    if faults:
        said = tuple(f"{fault.table}: {fault.message}" for fault in faults)
        refused = ConfigError("; ".join(said), hint=faults[0].hint)
        refused.faults = said
        raise refused
    return shapes
