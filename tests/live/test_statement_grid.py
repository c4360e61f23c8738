"""Each class of statement x column type x state of the table, compared with a real server: columns,
their order, types, nullability, key and every value, after the statement and after later rows.

``SPARK_REPL_SEED`` chooses which cells the short form has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.live.grid_run import Found, GridRun
from tests.support.live.server import Server, copy_of
from tests.support.live.statement_grid import STATEMENTS, STATES, TYPES, Cell, cells

from .test_ddl_definitions import OPTIONS

if TYPE_CHECKING:
    from _pytest.capture import CaptureFixture

_A_LOG = 100  # cells


@pytest.fixture(scope="module")
def server(template: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("grid") / "data"
    found = copy_of(template, folder, 100, *OPTIONS).start()
    yield found
    found.stop()


def sample(seed: int) -> list[list[Cell]]:
    """Every other class of statement, each with another type and state; by states."""
    by_state = {name: {(c.statement, c.sql_type): c for c in cells(name)} for name in STATES}
    chosen: dict[str, list[Cell]] = {name: [] for name in STATES}
    for number, statement in enumerate([*STATEMENTS][seed % 2 :: 2]):
        for step in range(len(STATES) * len(TYPES)):
            state = [*STATES][(number + step) % len(STATES)]
            sql_type = [*TYPES][(number + step + seed) % len(TYPES)]
            if found := by_state[state].get((statement, sql_type)):
                chosen[state].append(found)
                break
    return list(chosen.values())


def check(found: Found, cells: int) -> None:
    """Most of the statements were taken by the server; what waits for a copy is what no log
    tells."""
    assert not found.wrong, "\n".join(found.wrong[:40])
    assert not found.stopped, "\n".join(found.stopped[:40])
    assert found.outcomes["equal"] > cells * 0.6, found.outcomes
    for cell, why in found.copied.items():
        feeds = cell.state == "change data feed" and why.startswith(
            "Delta does not write rows again"
        )
        assert cell.is_unknown or feeds, f"{cell}: {why}"


def test_a_sample_of_statements_ends_as_on_the_server(server: Server, tmp_path: Path) -> None:
    chosen = sample(int(os.environ.get("SPARK_REPL_SEED", "1")))
    found = Found()
    for cells_of in chosen:
        GridRun(server, cells_of[0].state, tmp_path, found).run(cells_of)
    check(found, sum(map(len, chosen)))


@pytest.mark.soak
@pytest.mark.parametrize("state", STATES)
def test_the_whole_grid_of_statements_ends_as_on_the_server(
    server: Server, tmp_path: Path, state: str, capsys: CaptureFixture[str]
) -> None:
    all_cells, found = list(cells(state)), Found()
    for at in range(0, len(all_cells), _A_LOG):
        GridRun(server, state, tmp_path, found).run(all_cells[at : at + _A_LOG])
    with capsys.disabled():
        print(f"\n{state}: {dict(found.outcomes)}")
    check(found, len(all_cells))
