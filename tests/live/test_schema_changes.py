"""Statements that change tables, on a real server: behind each of them the target's tables are the
server's, columns, order and every value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.demo.expected import differences
from tests.support.live.schema_load import State, recorded
from tests.support.live.server import Server
from tests.support.local_delta import cuts, run

_SHOWN = 20  # differences that a failing test names


def assert_equal(target: Path, states: dict[int, State]) -> int:
    """Every cut shows what the server had there. Returns how many there were."""
    shown = cuts(target)
    for cut in shown:
        number = int(cut.gtid_executed.rsplit(":")[-1].rsplit("-")[-1])
        if number not in states:
            continue
        wrong = []
        want = states[number]
        assert set(cut.tables) == set(want), cut.gtid_executed
        for name, at in cut.tables.items():
            columns, rows = want[name]
            found = read(Layout(str(target)).table(at.path), at.version)
            got = [tuple(row.values()) for row in found.to_pylist()]
            wrong += [f"{name}: {d}" for d in differences(found.column_names, got, columns, rows)]
        assert not wrong, f"{cut.gtid_executed}: {wrong[:_SHOWN]}"
    return len(shown)


def apply_random_statements(
    server: Server, folder: Path, seed: int, statements: int, *, mapping: bool, **options: Any
) -> None:
    log, target = folder / "log", folder / "lake"
    load = recorded(server, log, seed, statements)
    assert run(log, target, group_max_transactions=3, keys={"column_mapping": mapping}, **options)
    assert assert_equal(target, load.states) > statements


@pytest.mark.parametrize(("seed", "mapping"), [(1, True), (2, False)])
def test_random_schema_changes_end_as_on_the_server(
    shared_server: Server, tmp_path: Path, seed: int, mapping: bool
) -> None:
    apply_random_statements(shared_server, tmp_path, seed, 70, mapping=mapping)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"feed": True, "mapping": False}, {"vectors": False, "mapping": True}],
    ids=["change data feed", "no vectors"],
)
def test_random_statements_on_tables_with_other_features(
    shared_server: Server, tmp_path: Path, options: dict[str, Any]
) -> None:
    """With a feed and a mapping Delta refuses some of them (write/alter/altered_rows)."""
    apply_random_statements(shared_server, tmp_path, 3, 40, **options)


@pytest.mark.soak
@pytest.mark.parametrize("mapping", [True, False])
@pytest.mark.parametrize("seed", range(11, 19))
def test_many_random_schema_changes_end_as_on_the_server(
    shared_server: Server, tmp_path: Path, seed: int, mapping: bool
) -> None:
    apply_random_statements(shared_server, tmp_path, seed, 250, mapping=mapping)
