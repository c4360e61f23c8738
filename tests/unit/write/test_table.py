"""What a table is, and what it is at the place that is applied."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from spark_repl.binlog.definition import TableDefinition
from spark_repl.write.table import Table


@pytest.mark.parametrize("ahead", [False, True])
def test_a_table_has_its_new_name_at_its_place_too(ahead: bool) -> None:
    """Foreign keys that refer to it are looked for by that name."""
    definition = TableDefinition("t", "a", (), ())
    table = Table("t.a", "t/a", "", definition, True, MagicMock(), 1, MagicMock())
    if ahead:
        table.take_at_place(definition)
    table.rename("t.b")
    assert [table.name, table.definition.name, table.at_place.name] == ["t.b"] * 3
    assert (table.logged is not None) == ahead
