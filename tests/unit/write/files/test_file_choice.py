"""The choice of files to compact: orders of magnitude, full files, and dead rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_repl.delta.log.add_actions import AddActions
from spark_repl.write.files.file_choice import choose_at_rest, choose_files

MIB = 1 << 20


def add(path: str, rows: int, dead: int = 0, size: int = 1000) -> dict[str, Any]:
    made = {"path": path, "size": size, "stats": json.dumps({"numRecords": rows})}
    return made | ({"deletionVector": {"cardinality": dead}} if dead else {})


def chosen(enough: int, *files: tuple[int, ...]) -> list[int]:
    """Indexes of the files that are folded; each file: rows, dead ones, bytes."""
    adds = {str(at): add(str(at), *file) for at, file in enumerate(files)}
    found = choose_files("", AddActions(None, adds), enough)
    assert len(found) <= 1
    return sorted(int(path) for paths in found for path in paths)


@pytest.mark.parametrize(("last", "folded"), [(20, [0, 1, 2]), (21, [])])
def test_files_of_one_order_of_magnitude_are_folded_together(last: int, folded: list[int]) -> None:
    assert chosen(3, (10,), (10,), (last,)) == folded


def test_the_smallest_order_is_folded_first() -> None:
    assert chosen(2, (10,), (10,), (1000,), (1000,)) == [0, 1]
    assert chosen(3, (10,), (10,), (1000,), (1000,), (1000,)) == [2, 3, 4], "two are not enough"


def test_the_order_is_that_of_live_rows() -> None:
    """A large file of which little is left is of the order of the small ones."""
    assert chosen(3, (10,), (10,), (100, 85)) == [0, 1, 2]


@pytest.mark.parametrize(("rows", "folded"), [(500_000, [0, 1, 2, 3]), (500_001, [0, 1, 2])])
def test_a_file_is_full_at_two_million_rows(rows: int, folded: list[int]) -> None:
    assert chosen(4, (500_000,), (500_000,), (500_000,), (rows,)) == folded


@pytest.mark.parametrize(("size", "folded"), [(64 * MIB, [0, 1]), (64 * MIB + 1, [])])
def test_a_file_is_full_at_128_mib(size: int, folded: list[int]) -> None:
    assert chosen(2, (10, 0, 64 * MIB), (10, 0, size)) == folded


def test_full_files_do_not_prevent_a_fold_of_small_ones() -> None:
    assert chosen(2, (10, 0, 60 * MIB), (10, 0, 60 * MIB), (10, 0, 60 * MIB)) == [0, 1]


@pytest.mark.parametrize(("rows", "size"), [(126_000, 6 * MIB), (20_000, 9 * MIB), (700_000, 100)])
def test_files_above_a_sixteenth_of_a_full_one_are_folded(rows: int, size: int) -> None:
    """16 of them would exceed a full file, and fewer are enough if they fill half of it."""
    sizes, folds = [(rows, 0, size)] * 100, 0
    while folded := chosen(16, *sizes):
        together = sum(sizes[at][0] for at in folded), 0, sum(sizes[at][2] for at in folded)
        assert together[0] <= 2_000_000 and together[2] <= 128 * MIB
        sizes = [one for at, one in enumerate(sizes) if at not in folded] + [together]
        folds += 1
    full = max(100 * rows // 2_000_000, 100 * size // (128 * MIB)) + 1
    assert len(sizes) <= 2 * full + 15 and folds <= 2 * full


def test_a_large_file_of_few_rows_does_not_prevent_a_fold() -> None:
    assert chosen(3, (10,), (10,), (20, 0, 200 * MIB), (40,), (40,), (40,)) == [3, 4, 5]
    assert chosen(9, (10, 0, 100 * MIB), *[(10, 0, 50 * MIB)] * 3) == [1, 2]
    assert chosen(9, (10, 0, 30 * MIB), (10, 0, 30 * MIB), (10, 0, 90 * MIB)) == [], "not half"


@pytest.mark.parametrize(("dead", "folded"), [(51, [0]), (50, [])])
def test_files_with_more_dead_than_live_rows_are_folded(dead: int, folded: list[int]) -> None:
    assert chosen(9, (100, dead)) == folded


def test_the_files_with_most_dead_rows_are_folded_first() -> None:
    """Files with at least as many dead rows as live ones are folded, as many as make one file."""
    assert chosen(9, (100, 90), (100, 50), (100, 49)) == [0, 1]
    assert chosen(9, (100, 90, 100 * MIB), (100, 80, 100 * MIB)) == [0], (
        "two would exceed a full file"
    )
    assert chosen(9, (40, 30, 100 * MIB), (100, 90, 100 * MIB)) == [1], "90 to 10, not 30 to 10"
    assert chosen(9, (100, 90, 200 * MIB)) == [0], "a single file of any size is rewritten"


def test_the_footer_of_a_file_without_statistics_is_read_once(tmp_path: Path) -> None:
    folder = str(tmp_path)
    adds = {str(n): add(str(n), 10) for n in range(3)}
    for stats in (None, "{}"):
        adds["a b.parquet"] = add("a%20b.parquet", 0) | {"stats": stats}
        adds["a b.parquet"]["size"] += 1
        pq.write_table(pa.table({"id": range(1_000)}), tmp_path / "a b.parquet")
        for _ in range(2):
            assert choose_files(folder, AddActions(None, adds), 3) == [["0", "1", "2"]]
            (tmp_path / "a b.parquet").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("files", "folded"),
    [
        ([(170, 10)], [0]),
        ([(171, 10)], []),
        ([(10_000, 1_000), (1_000, 1), (500,)], [0, 1]),
        ([(10_000, 1_000), (8_000, 1)], [0]),
        ([(10_000, 5_000, 60 * MIB), (10_000, 4_000, 60 * MIB), (10_000, 3_000, 9 * MIB)], [0, 1]),
        ([(10_000, 5_000, 200 * MIB)], []),
        ([(10_000, 5_000, 200 * MIB), (100, 50), (17_000, 1)], [1]),
        ([(10,), (10,)], []),
    ],
)
def test_at_rest_files_with_dead_rows_are_folded(
    files: list[tuple[int, ...]], folded: list[int]
) -> None:
    """Up to a full file, and up to 16 live rows for each dead one."""
    adds = {str(at): add(str(at), *file) for at, file in enumerate(files)}
    paths = [path for paths in choose_at_rest("", AddActions(None, adds)) for path in paths]
    assert sorted(map(int, paths)) == folded


def test_no_file_is_chosen_of_a_table_without_files() -> None:
    assert choose_at_rest("", AddActions(None, {})) == []
    assert choose_files("", AddActions(None, {}), 1) == []
