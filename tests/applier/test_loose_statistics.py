"""A file's statistics are those of its rows. If some rows are marked as deleted, the statistics are
only bounds, and are declared as such. Otherwise engines would compute MIN, MAX and COUNT wrongly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import run

A = Table("a")


def live_files(folder: Path) -> list[dict[str, Any]]:
    """The ``add`` of each file of the newest version."""
    live = dict[str, dict[str, Any]]()
    for commit in sorted((folder / "_delta_log").glob("0*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for removed in [action["remove"] for action in actions if "remove" in action]:
            live.pop(removed["path"], None)
        live |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    return list(live.values())


def test_bounds_are_tight_until_a_row_goes(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(A.create)
    log.transaction(insert(A, *((key, "x") for key in range(5))))
    log.transaction(delete(A, (4, "x")), update(A, ((0, "x"), (0, "z"))))
    assert run(log.folder, target, group_max_transactions=1, keys={"compact_files": 1000})
    files = live_files(target / "t" / "a")
    marked = [add for add in files if add.get("deletionVector")]
    assert 0 < len(marked) < len(files)
    for add in files:
        stats = json.loads(add["stats"])
        assert stats["tightBounds"] == (add not in marked)
        there = pq.read_metadata(target / "t" / "a" / add["path"])
        assert stats["numRecords"] == there.num_rows
