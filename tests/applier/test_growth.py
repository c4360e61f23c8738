"""A table that is updated a little at a time for a week: what it has of each kind of file stays
below what docs/files.md says, and so does what a look-up opens."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from spark_repl.control.records.channels import channel_at
from spark_repl.delta.log.checkpoint_schedule import EVERY
from spark_repl.write.files import key_segments
from spark_repl.write.upkeep import table_maintenance
from tests.applier.test_many_files import LOOKS
from tests.applier.test_promised_cuts import hours_pass
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import HERE, LocalDelta, applier, apply_without_stream, rows
from tests.support.tended import finish, hurry
from tests.support.written_files import DATA, KEY_INDEX, below_target

A = Table("a")
ROWS, ENOUGH, OPENED, CHECKPOINT = 1000, 4, 4, "T/_delta_log/*.checkpoint.parquet"
KEYS = {
    "every_cut_hours": 1, "minute_cut_hours": 2, "cut_retention_hours": 6, "vacuum_hours": 1,
    "commit_retention_hours": 2, "compact_files": ENOUGH,
}  # fmt: skip
LIVE = ENOUGH * (math.ceil(math.log2(ROWS)) + 1)
"""docs/files.md: so many for each doubling of the table's rows"""


class Week:
    """``values`` of the rows; ``vectors``: deletion vectors of live files."""

    def __init__(self, log: LogWriter, target: Path) -> None:
        self.log, self.target, self.dice = log, target, random.Random(7)
        self.values = dict.fromkeys(range(ROWS), "0")
        log.transaction(insert(A, *self.values.items()))

    def day(self, number: int, groups: int) -> None:
        """So many groups that change three rows each, all over the table; then upkeep, and a day
        goes by."""
        for _ in range(groups):
            keys = self.dice.sample(range(ROWS), 3)
            pairs = [((key, self.values[key]), (key, f"{number}")) for key in keys]
            self.values |= dict.fromkeys(keys, f"{number}")
            self.log.transaction(update(A, *pairs))
        self._apply()
        hours_pass(24, self.target)
        self.log.transaction(insert(A, (ROWS + number, "more")))
        self.values[ROWS + number] = "more"
        self._apply()

    def _apply(self) -> None:
        how = {"keys": KEYS, "parts": HERE, "group_max_transactions": 1}
        with applier(self.log.folder, self.target, **how) as found:  # type: ignore[arg-type]
            apply_without_stream(found)
            upkeep = found.opened.pipeline.writer._upkeep
            for _ in range(3):
                upkeep.schedule(found.tracking.tables)
                finish(upkeep)

    def live(self) -> tuple[int, int]:
        """Data files of t.a that the newest version names, and their deletion vectors."""
        delta = LocalDelta()
        snapshot = delta.snapshot(str(self.target / "t" / "a"))
        assert snapshot is not None
        files = delta.files(snapshot).values()
        return len(files), sum(bool(add.get("deletionVector")) for add in files)

    def opened_by_a_look_up(self) -> int:
        """Files of the key index that one more group, of three keys, opens."""
        keys = self.dice.sample(range(ROWS), 3)
        pairs = [((key, self.values[key]), (key, "looked up")) for key in keys]
        self.values |= dict.fromkeys(keys, "looked up")
        folder = self.target / "_repl" / "keys" / "t" / "a"
        with applier(self.log.folder, self.target, keys={**KEYS, "compact_files": 0}) as found:
            apply_without_stream(found)
            self.log.transaction(update(A, *pairs))
            found.opened.applied.refresh()
            with LOOKS.below(folder) as looks:
                apply_without_stream(found)
        return sum(name.startswith("open ") and not name.endswith(".part") for name in looks)


@pytest.mark.parametrize(
    ("days", "groups"), [(3, 40), pytest.param(7, 110, marks=pytest.mark.slow)]
)
def test_a_week_of_small_updates(
    log: LogWriter, target: Path, monkeypatch: pytest.MonkeyPatch, days: int, groups: int
) -> None:
    clean = table_maintenance._CLEAN_EVERY
    hurry(monkeypatch, often=False)
    monkeypatch.setattr(key_segments, "ENOUGH", OPENED)
    week = Week(log, target)
    for number in range(1, days + 1):
        week.day(number, groups)
        found, (live, vectors) = below_target(target), week.live()
        assert live <= LIVE and vectors <= live
        assert week.opened_by_a_look_up() <= OPENED, "segments, and indexes that are in none"
        # Whose time VACUUM's is not yet: what this day's last groups have made.
        assert found[DATA] <= 2 * LIVE
        assert found["T/deletion_vector_*.bin"] <= LIVE + 8
        assert found[KEY_INDEX] <= found[DATA] and found["keys/S/*/*.segment.arrow"] <= OPENED
        assert found["index/*.idx"] == 1
        assert found["T/_delta_log/*.json"] <= clean + 2 * groups + 20
        kept = len(channel_at(str(target)).control.rows("cut"))
        assert found[CHECKPOINT] <= found["T/_delta_log/*.json"] // EVERY + 4 + kept
    assert sorted(rows(target, A)) == sorted(week.values.items())
