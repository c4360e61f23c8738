"""The plan of ``init``: its lines, its expected time, and what readers need."""

from __future__ import annotations

import pytest

from spark_repl.cli.command_arguments import READERS
from spark_repl.cli.init_plan import plan_fields, plan_lines, reader_values
from spark_repl.copy.planned_tables import PlannedTable, expected_s
from spark_repl.errors import ConfigError

ORDERS = PlannedTable("shop.orders", 3_600_000, 450_000_000, (("int", "integer"),) * 2)
NOTE = PlannedTable("crm.note", 0, 0, (("json", "string"), ("int", "integer")))


def test_a_plan_shows_databases_tables_types_and_time() -> None:
    lines = [line.split() for line in plan_lines([NOTE, ORDERS])]
    assert ["shop", "1", "3,600,000", "about", "450", "MB"] in lines
    assert ["crm.note", "0", "less", "than", "1", "MB", "2"] in lines
    assert ["int", "integer", "3"] in lines and ["json", "string", "1"] in lines
    assert " ".join(lines[-1]).startswith("expected time of the copy: 30 s, at 180,000 rows/s")


def test_a_plan_names_the_largest_tables() -> None:
    many = [PlannedTable(f"a.t{i:02}", i, i, ()) for i in range(25)]
    lines = list(plan_lines(many))
    assert "and 5 smaller tables" in lines
    assert sum(line.startswith("a.t") for line in lines) == 20
    assert any(line.startswith("a.t24 ") for line in lines)


@pytest.mark.parametrize(
    ("rows", "size", "said"),
    [
        (0, 0, "10 s"),
        (180_000 * 600, 0, "10 minutes"),
        (0, 34_000_000 * 36_000, "10 hours"),
    ],
)
def test_rows_or_bytes_decide_about_the_time(rows: int, size: int, said: str) -> None:
    *_, last = plan_lines([PlannedTable("a.b", rows, size, ())])
    assert f": {said}, at " in last


def test_a_plan_as_fields() -> None:
    fields = plan_fields([NOTE, ORDERS])
    assert fields["rows"] == 3_600_000 and fields["seconds"] == round(expected_s([NOTE, ORDERS]))
    assert fields["plan"]["crm.note"]["types"] == {"json": "string", "int": "integer"}


def test_readers_decide_about_features_of_the_tables() -> None:
    assert reader_values(["spark", "deltalake", "duckdb"]) == {}
    assert reader_values(["polars", "spark"]) == {"target.column_mapping": False}
    both = {"target.column_mapping": False, "target.deletion_vectors": False}
    assert reader_values(["pandas", "polars"]) == both
    with pytest.raises(ConfigError, match="'trino' is no reader"):
        reader_values(["trino"])
    assert all(isinstance(reader_values([name]), dict) for name in READERS)
