"""Cuts that are told since others show what they showed when they were published, whatever is
pruned, pinned, held back, lost and taken over meanwhile, to who has read before and who has not."""

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
from unittest.mock import patch

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_repl.config.renaming import whole_of
from spark_repl.control.cuts.cut_reader import find_cut
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.replaced_tables import CutPaths
from spark_repl.control.records.retention import Retention, pin, pins, unpin
from spark_repl.control.table import cut_encoding
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConcurrentChangeError, TargetError
from spark_repl.write.upkeep.file_retention import PromisedVersions

Tables = dict[str, TableVersion]
NAMES = [f"t.{letter}" for letter in "abcdef"]
WHAT = ["publish"] * 6 + ["later", "prune", "prune", "pin", "unpin", "restart", "beside", "compact",
                          "fails", "lost", "unknown", "back"]  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 2**16)), min_size=1, max_size=25)


class Storage:
    """delta-rs' writing: ``next`` it ``fails``, or lands and the answer is ``lost``."""

    def __init__(self) -> None:
        self.next = ""

    def __call__(self, table: DeltaTable, *args: Any, **options: Any) -> None:
        how, self.next = self.next, ""
        if how == "lost":
            write_deltalake(DeltaTable(table.table_uri), *args, **options)
        if how:
            raise DeltaError("Input/output error (os error 5)")
        write_deltalake(table, *args, **options)


class Owned(Control):
    """``blind``: the next look at the table fails."""

    blind = False

    def _open(self) -> DeltaTable:
        if self.blind:
            self.blind = False
            raise OSError(errno.EIO, "Input/output error")
        return super()._open()


class Dice(Retention):
    """What is promised by chance."""

    def until(self, at: Sequence[datetime], now: datetime) -> list[datetime]:
        return [now + timedelta(hours=random.choice([-1, 1])) for _ in at]


@dataclass
class Target:
    folder: Path
    shown: dict[int, Tables] = field(default_factory=dict)
    """what each cut was published with, by a number of its own"""

    def __post_init__(self) -> None:
        self.layout, self.storage = Layout(str(self.folder)), Storage()
        self.numbers, self.position, self.tables = itertools.count(1), 1, Tables()
        self._claim()
        self.reader = Control(self.layout.control)
        self.paths = CutPaths(self.reader)

    def _claim(self) -> None:
        self.owner = Owned(self.layout.control, append=self.storage)
        self.owner.claim()

    def step(self, what: str, number: int) -> None:
        dice = random.Random(number)
        random.seed(number)
        with suppress(TargetError) if what in ("pin", "unpin") else _nothing():
            getattr(self, f"_{what}", lambda one: self._cut(one, what))(dice)

    def _cut(self, dice: random.Random, what: str) -> None:
        """A few tables are other ones, one may go, one may be made again at another path."""
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
        self.shown[cut.counts["number"]] = dict(cut.tables)
        if what in ("fails", "lost", "unknown"):
            self.storage.next = "fails" if what == "fails" else "lost"
            self.owner.blind = what == "unknown"
            try:
                self.owner.publish(cut)
            except OSError:
                if dice.randrange(2):  # else it is given up, there or not
                    self.owner.publish(cut)
        else:
            self.owner.publish(cut, later=what == "later")

    def _back(self, dice: random.Random) -> None:
        """As an applier goes back to an earlier place."""
        self.position = max(1, self.position - dice.randrange(3))
        self._cut(dice, "publish")

    def _prune(self, dice: random.Random) -> None:
        retention = Dice(1, 1, 1) if dice.randrange(3) else Retention(0, 0, 0)
        settle = DurabilityBarrier(self.owner, self.layout)
        try:
            self.owner.prune(PruneBy(retention), settle, due=True)
        except ConcurrentChangeError:  # once: then it knows what others have written
            self.owner.prune(PruneBy(retention), settle, due=True)

    def _pin(self, dice: random.Random) -> None:
        if kept := self.reader.cuts():
            pin(Control(self.layout.control), dice.choice(kept), dice.choice("xyz"))

    def _unpin(self, dice: random.Random) -> None:
        unpin(Control(self.layout.control), dice.choice("xyz"))

    def _restart(self, dice: random.Random) -> None:
        self.owner.release()
        self._claim()

    def _beside(self, dice: random.Random) -> None:
        Control(self.layout.control).write_beside("test", lambda: True)

    def _compact(self, dice: random.Random) -> None:
        DeltaTable(self.layout.control).optimize.compact()

    def check(self) -> None:
        fresh = Control(self.layout.control)
        held = fresh.snapshot()
        cuts = fresh.cuts()
        for cut in cuts:
            assert cut.counts and cut.tables == self.shown[cut.counts["number"]]
        for one in (self.reader, self.owner):
            assert one.cuts() == cuts and one.last_cut() == fresh.last_cut()
            assert one.snapshot().version == held.version
        each = [held.cut_of(row) for row in held.cut_rows(newest_first=True)]
        assert each == cuts[::-1]
        paths = {(whole_of(at.path), at.version) for cut in cuts for at in cut.tables.values()}
        kept = PromisedVersions(fresh).retained
        assert {(path, version) for path, of in kept.items() for version in of} == paths
        everywhere = {f"t/{name[2:]}{end}" for name in NAMES for end in ("", "@2")}
        assert self.paths.among(everywhere) == {path for path, _ in paths}
        for name, one in pins(fresh).items():
            assert find_cut(fresh, name).position == one.position


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@given(STEPS)
@example([("publish", 1)] * 9 + [("prune", 1), ("publish", 2), ("publish", 3)])
@example([("publish", 1), ("unknown", 3), ("prune", 3), ("publish", 4), ("prune", 3)])
@example([("publish", 1), ("later", 2), ("prune", 3), ("later", 4), ("publish", 5), ("back", 6)])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_cut_shows_what_it_was_published_with(steps: list[tuple[str, int]]) -> None:
    with (
        TemporaryDirectory() as folder,
        patch.object(cut_encoding, "LEAST_TABLES", 2),
        patch.object(cut_encoding, "MOST_SINCE", 3),
    ):
        target = Target(Path(folder))
        for what, number in steps:
            target.step(what, number)
            if what in ("prune", "restart", "compact"):
                target.check()
        target.check()
