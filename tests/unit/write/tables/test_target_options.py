"""Table options: rules of single tables, and of the tables of online schema-change tools."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.write.tables.target_options import TargetOptions


@pytest.mark.parametrize("added", [{"extra_columns": ["gtid"]}, {"mode": "changelog"}])
@pytest.mark.parametrize("folds", [False, True])
def test_a_tools_table_with_another_tables_columns_is_not_quarantined(
    added: dict[str, Any], folds: bool
) -> None:
    """It has the columns by the rule about its table, and what an error does by its own name."""
    rules = [{"match": "t.a", "on_error": "stop", **added}, {"match": r"t.\_%"}]
    config = Config.from_mapping({"apply": {"on_error": "quarantine"}, "tables": rules})
    options = TargetOptions.of(config)
    asked = {name: options.quarantines(name, folds=folds) for name in ("t.a", "t._a_gho", "t._b")}
    assert asked == {"t.a": False, "t._a_gho": False, "t._b": True}
