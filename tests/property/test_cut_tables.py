"""Each cut shows the tables that it was published with, whatever is pruned, pinned, held back, lost
and taken over meanwhile. Readers that have read before, readers that have not, and SQL agree."""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_repl.config.renaming import whole_of
from spark_repl.control.cuts.cut_reader import find_cut
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import paths_at_cuts
from spark_repl.control.records.retention import Retention, pin, pins, unpin
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConcurrentChangeError, FencedError, TargetError
from spark_repl.write.upkeep.file_retention import PromisedVersions

Tables = dict[str, TableVersion]
NAMES = [f"t.{letter}" for letter in "abcdef"]
WHAT = ["publish"] * 6 + ["later", "prune", "prune", "pin", "unpin", "restart", "beside", "compact",
                          "fails", "lost", "unknown", "back", "other_row", "take_over",
                          "other_channel"]  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 2**16)), min_size=1, max_size=25)
SQL = """
SELECT table_name, path, version FROM (
    SELECT *, row_number() OVER (PARTITION BY table_name ORDER BY sequence DESC) AS age
    FROM control WHERE kind = 'cut_table' AND sequence <= ?)
WHERE age = 1 AND path IS NOT NULL
"""


class Storage:
    """Commits rows. The ``next`` call ``fails``, or its answer is ``lost``."""

    def __init__(self) -> None:
        self.next = ""

    def __call__(self, log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        how, self.next = self.next, ""
        if how == "lost":
            log.commit(rows, commit)
        if how:
            raise OSError(errno.EIO, "Input/output error")
        return log.commit(rows, commit)


class Owned(Control):
    """``blind``: the next opening of the table fails."""

    blind = False

    def _open(self) -> ControlLog:
        if self.blind:
            self.blind = False
            raise OSError(errno.EIO, "Input/output error")
        return super()._open()


class Dice(Retention):
    """A promise by chance."""

    def until(self, at: Sequence[datetime], now: datetime) -> list[datetime]:
        return [now + timedelta(hours=random.choice([-1, 1])) for _ in at]


@dataclass
class Target:
    """A control table beside a model: the tables of each cut, by a number that the cut bears."""

    folder: Path
    channel: str = ""
    published: dict[int, Tables] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout, self.storage = Layout(str(self.folder), home=self.channel), Storage()
        self.numbers, self.position, self.tables = itertools.count(1), 1, Tables()
        self._claim()
        self.reader = Control(self.layout.control)

    def _claim(self, *, take_over: bool = False) -> None:
        self.owner = Owned(self.layout.control, write_rows=self.storage)
        self.owner.claim(take_over=take_over)

    def step(self, what: str, number: int) -> None:
        dice = random.Random(number)
        random.seed(number)
        with suppress(TargetError) if what in ("pin", "unpin") else _nothing():
            getattr(self, f"_{what}", lambda _: self._publish(dice, what))(dice)

    def _cut(self, dice: random.Random) -> Cut:
        """Return a cut: a few tables change, one may go, one may be created at another path."""
        for name in dice.sample(NAMES, dice.randrange(4)):
            path = f"t/{name[2:]}" + "@2" * dice.randrange(2)
            self.tables = {**self.tables, name: TableVersion(path, dice.randrange(9), "m", 1)}
        if not dice.randrange(4):
            self.tables.pop(dice.choice(NAMES), None)
        self.position += dice.randrange(2)
        cut = Cut(
            self.position, "", "log", {}, dict(sorted(self.tables.items())),
            counts={"number": next(self.numbers)},
        )  # fmt: skip
        assert cut.counts
        self.published[cut.counts["number"]] = dict(cut.tables)
        return cut

    def _publish(self, dice: random.Random, what: str = "publish") -> None:
        cut = self._cut(dice)
        if what not in ("fails", "lost", "unknown"):
            self.owner.publish(cut, later=what == "later")
            return
        self.storage.next = "fails" if what == "fails" else "lost"
        self.owner.blind = what == "unknown"
        try:
            self.owner.publish(cut)
        except OSError:
            if dice.randrange(2):  # the row is written before it is published again
                self.owner.write("test")
            if dice.randrange(2):  # otherwise the cut is given up, whether it landed or not
                self.owner.publish(cut)

    def _back(self, dice: random.Random) -> None:
        """Publish a cut at an earlier position, as after a copy that begins again."""
        self.position = max(1, self.position - dice.randrange(3))
        self._publish(dice)

    def _prune(self, dice: random.Random) -> None:
        retention = Dice(1, 1, 1) if dice.randrange(3) else Retention(0, 0, 0)
        barrier = DurabilityBarrier(self.owner, self.layout)
        try:
            self.owner.prune(PruneBy(retention), barrier, due=True)
        except ConcurrentChangeError:  # the second time it has seen the other commits
            self.owner.prune(PruneBy(retention), barrier, due=True)

    def _pin(self, dice: random.Random) -> None:
        if kept := self.reader.cuts():
            pin(Control(self.layout.control), dice.choice(kept), dice.choice("xyz"))

    def _unpin(self, dice: random.Random) -> None:
        unpin(Control(self.layout.control), dice.choice("xyz"))

    def _restart(self, dice: random.Random) -> None:
        self.owner.release()
        self._claim()

    def _take_over(self, dice: random.Random) -> None:
        """Another owner publishes a cut, and the former one tries to."""
        former = self.owner
        self._claim(take_over=True)
        if dice.randrange(2):
            self.owner.publish(self._cut(dice))
        cut = self._cut(dice)
        with suppress(FencedError):
            former.publish(cut)
            raise AssertionError("the former owner has published a cut")

    def _beside(self, dice: random.Random) -> None:
        Control(self.layout.control).write_beside("test", lambda: True)

    def _other_row(self, dice: random.Random) -> None:
        self.owner.write("test")

    def _compact(self, dice: random.Random) -> None:
        DeltaTable(self.layout.control).optimize.compact()

    def check(self) -> None:
        fresh = Control(self.layout.control)
        snapshot, cuts = fresh.snapshot(), fresh.cuts()
        for cut in cuts:
            assert cut.counts and cut.tables == self.published[cut.counts["number"]]
        for reader in (self.reader, self.owner):
            assert reader.cuts() == cuts and reader.last_cut() == fresh.last_cut()
            assert reader.snapshot().version == snapshot.version
            assert reader.snapshot().last_tables == snapshot.last_tables
            assert reader.snapshot().shown_versions == snapshot.shown_versions
        rows = list(snapshot.cut_rows(newest_first=True))
        assert [snapshot.cut_of(row) for row in rows] == cuts[::-1]
        assert len({row["sequence"] for row in rows}) == len(rows)
        versions = {(table.path, table.version) for cut in cuts for table in cut.tables.values()}
        assert snapshot.shown_versions == versions
        whole = {(whole_of(path), version) for path, version in versions}
        kept = PromisedVersions(fresh).retained
        assert {(path, version) for path, of in kept.items() for version in of} == whole
        assert paths_at_cuts(fresh) == {path for path, _ in whole}
        for name, pinned in pins(fresh).items():
            assert find_cut(fresh, name).position == pinned.position
        self._check_sql(rows, cuts[::-1])

    def _check_sql(self, rows: list[dict[str, Any]], cuts: list[Cut]) -> None:
        control = DeltaTable(self.layout.control).to_pyarrow_table()
        with duckdb.connect() as connection:
            connection.register("control", control)
            for row, cut in zip(rows, cuts, strict=True):
                found = connection.execute(SQL, [row["sequence"]]).fetchall()
                assert {name: of for name, *of in found} == {
                    name: [table.path, table.version] for name, table in cut.tables.items()
                }


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@pytest.mark.slow
@given(STEPS)
@example([("publish", 1)] * 9 + [("prune", 1), ("publish", 2), ("publish", 3)])
@example([("publish", 1), ("unknown", 3), ("prune", 3), ("publish", 4), ("prune", 3)])
@example([("publish", 1), ("later", 2), ("prune", 3), ("later", 4), ("publish", 5), ("back", 6)])
@example(
    [("publish", number) for number in range(20)] + [("back", 5), ("prune", 3), ("take_over", 4)]
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_cut_shows_the_tables_that_it_was_published_with(
    steps: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        target, other = Target(Path(folder)), Target(Path(folder), channel="us")
        for what, number in steps:
            if what == "other_channel":
                other.step("publish", number)
            else:
                target.step(what, number)
            if what in ("prune", "restart", "compact"):
                target.check()
        target.check()
        other.check()
