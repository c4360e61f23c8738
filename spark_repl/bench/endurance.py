"""``bench endurance``: costs of a target that was followed for many days, compared with a new one.

Measured are the questions that a new process asks, and a live load.

The old target is a new one that is turned into one which has followed a load for a number of hours.
Its entries are real. Commits, which Delta and delta-rs read, are dated as a load of a given rate
would have dated them. Objects can't be dated, so they have their real age. As many cuts of the
commits are written as the tiers keep. A ``GrowingLog`` is a recorded log that is written again at
the rate of a live source.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import formats
from ..control.cuts.cut_reader import find_cut
from ..control.cuts.cut_wait import wait_for
from ..control.records.durability_barrier import DurabilityBarrier
from ..control.records.retention import Retention
from ..control.table.control import Control
from ..control.table.control_log import ControlLog, RowsCommit
from ..control.table.control_snapshot import CUT
from ..control.table.cut_tables import complete_rows
from ..control.table.layout import Layout
from ..control.table.row_formats import format_of
from ..delta.log.add_actions import live_files
from ..delta.log.log_replay import commit_path, read_commit
from ..delta.store.delta_rs_read import opened
from ..delta.store.storage import open_input, open_output, remove_folder
from ..errors import ConfigError
from ..gtid import GtidSet
from ..observe.status.status import status
from ..position import RelayPosition
from ..relay.index import build_index
from ..relay.log import open_log
from ..runtime.target_uri import canonical, is_remote
from .memory import Memory

if TYPE_CHECKING:
    from ..config import Config
    from ..control.table.cut import Cut, TableVersion
    from ..schedule.until import Until
    from .recorded import Recording

_LOOKS = 5
_PARTS = ("lake", "relay", "state")
_FIGURES = ("commit_to_cut_p50_s", "commit_to_cut_p99_s", "status_s", "rss_mib")


@dataclass(frozen=True)
class Age:
    """The age of a target: ``days`` with ``commits_per_day`` each, distributed over its tables."""

    days: float
    commits_per_day: int

    def give(self, config: Config) -> int:
        """Add the commits of this age to the target, and return the number of commits per table."""
        last = Control.existing(config.target.path).last_cut()
        assert last is not None
        return make_old(config, self.days * 24, self.commits_per_day / 86400 / len(last.tables))


def bench_endurance(recording: Recording, age: Age, rate: float, below: str = "") -> dict[str, Any]:
    """Compare a new target with an old one (``age``), alternately in one session.

    Each target gets the recording after its prepared part, at ``rate`` transactions per second.
    Times are in seconds; a transaction's time is from the log to its cut. The figures of old
    targets are the worse of two. ``below``: folder of the targets, also in a bucket; by default a
    temporary folder. Raise ConfigError.
    """
    from ..runtime.spark_session import build_session

    base = recording.config()
    spark = build_session(master=f"local[{base.apply.workers}]", delta=False)
    figures: dict[str, Any] = {"age_days": age.days, "rate": rate, "commits_per_table": 0}
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder:
        for name in ("warm_up", "new", "old", "new_again", "old_again"):
            target, relay, state = (os.path.join(folder, f"{name}_{part}") for part in _PARTS)
            target = canonical(os.path.join(below, name)) if below else target
            config = base.override({"target.path": target, "relay.path": relay})
            config = config.override({"target.state_path": state}) if is_remote(target) else config
            assert recording.prepared is not None
            growing = GrowingLog(recording.relay, relay, recording.prepared)
            _apply(spark, config)
            if name.startswith("old"):
                figures["commits_per_table"] = age.give(config)
            # Spark ends Python processes that were idle for a minute: this starts them again.
            _apply(spark, config)
            figures[name] = _looks(spark, config) | _load(spark, config, growing, rate)
            remove_folder(target)
    del figures["warm_up"]
    worse = {name: max(figures[old][name] for old in ("old", "old_again")) for name in _FIGURES}
    return worse | figures


def _apply(spark: Any, config: Config) -> None:
    """Apply all that the log holds."""
    from ..apply.start.replica import Replica

    with Replica(spark, config) as replica:
        replica.apply()


def _load(spark: Any, config: Config, growing: GrowingLog, rate: float) -> dict[str, float]:
    """Apply the first transaction, with the stream's start, and then the others as they arrive,
    until the last one's cut."""
    from ..apply.start.replica import Replica

    ends, shown, lands = list[int](), list[float](), Event()

    def on_group(_: Any, end: int) -> None:
        ends.append(end)
        shown.append(time.perf_counter())
        lands.set()
        if end >= growing.ends[-1]:
            replica.stop()

    def feed() -> None:
        growing.add()
        lands.wait()
        growing.grow(rate)

    with (
        Memory() as memory,
        ThreadPoolExecutor(1) as pool,
        Replica(spark, config, on_group) as replica,
    ):
        began = time.perf_counter()
        fed = pool.submit(feed)
        try:
            replica.apply(follow=True)
        finally:
            lands.set()
        fed.result()
    waited = np.array(shown)[np.searchsorted(ends, growing.ends[1:])] - growing.at[1:]
    seconds = {
        f"commit_to_cut_p{share}_s": round(float(np.percentile(waited, share)), 4)
        for share in (50, 99)
    }
    return {"first_group_s": round(shown[0] - began, 4), **seconds, "rss_mib": memory.peak_mib}


def _looks(spark: Any, config: Config) -> dict[str, float]:
    """Return the best times of six operations: a start, a takeover from a live owner, a status,
    reading the newest cut, reading all cuts, and a wait for transactions that a cut has."""
    target = config.target.path
    newest = Control.existing(target).last_cut()
    assert newest is not None
    asked: dict[str, Callable[[], object]] = {
        "status": lambda: status(target),
        "cut": lambda: find_cut(Control.existing(target), "latest"),
        "cuts": lambda: Control.existing(target).cuts(),
        "wait": lambda: wait_for(target, newest.gtid_executed),
    }
    seconds = {"start": _start(spark, config), "takeover": _takeover(spark, config)}
    seconds |= {name: _best(_timed(look)) for name, look in asked.items()}
    return {f"{name}_s": round(value, 4) for name, value in seconds.items()}


def _start(spark: Any, config: Config) -> float:
    from ..apply.start.replica import Replica

    def one() -> float:
        began = time.perf_counter()
        with Replica(spark, config):
            return time.perf_counter() - began

    return _best(one)


def _takeover(spark: Any, config: Config) -> float:
    from ..apply.start.replica import Replica

    def one() -> float:
        with Replica(spark, config):
            began = time.perf_counter()
            with Replica(spark, config, take_over=True):
                return time.perf_counter() - began

    return _best(one)


def _timed(look: Callable[[], object]) -> Callable[[], float]:
    def one() -> float:
        began = time.perf_counter()
        look()
        return time.perf_counter() - began

    return one


def _best(one: Callable[[], float]) -> float:
    return min(one() for _ in range(_LOOKS))


def make_old(config: Config, hours: float, rate: float) -> int:
    """Add the commits of ``hours`` hours to each table, as far as its log retains them, and their
    cuts.

    ``rate``: commits per second and table. Return the number of commits per table.
    """
    layout = Layout(config.target.path)
    control = Control(layout.control)
    last = control.last_cut()
    assert last is not None
    kept = min(hours, config.target.commit_retention_hours)
    count = int(kept * 3600 * rate)
    for version in last.tables.values():
        _add_commits(layout.table(version.path), version, count, kept * 3600)
    now, span = datetime.now(UTC), timedelta(hours=kept)
    ages = [*_promised(Retention.of(config.target), hours, rate), timedelta()]
    row = control.rows("cut")[-1]
    shares = [max(0.0, 1 - age / span) if kept else 1.0 for age in ages]
    cuts = [
        (now - age, _cut_at(last, int(count * share)))
        for age, share in zip(ages, shares, strict=True)
    ]
    detail = formats.stamp(last.row_detail(), format_of(CUT))
    rows = complete_rows(
        [({**row, "at": at}, detail, cut.tables) for at, cut in cuts],
        control.snapshot().last_tables,
    )
    log = ControlLog.newest(control.path)
    assert log is not None
    log.commit(rows, RowsCommit())
    DurabilityBarrier(control, layout)()  # an applier that followed the load would have synced
    return count


def _promised(retention: Retention, hours: float, rate: float) -> list[timedelta]:
    """Return the ages of the cuts that are retained after ``hours``, the oldest first."""
    tiers = ((retention.every, 1 / rate), (retention.minute, 60.0), (retention.hour, 3600.0))
    ages = set[float]()
    for kept, apart in tiers:
        ages |= {number * apart for number in range(1, int(min(hours, kept) * 3600 / apart) + 1)}
    return [timedelta(seconds=age) for age in sorted(ages, reverse=True)]


def _cut_at(last: Cut, behind: int) -> Cut:
    """Return a cut that is ``behind`` commits ahead of ``last`` in each table."""
    tables = last.tables.items()
    later = {name: replace(table, version=table.version + behind) for name, table in tables}
    return replace(last, tables=later)


def _add_commits(folder: str, table: TableVersion, count: int, seconds: float) -> None:
    """Add commits that do not change the table: each adds one of its files again.

    Commits of the last hour have checksums, which Delta's clean-up keeps for so long.
    """
    text, files = read_commit(folder, table.version), live_files(folder, table.version)
    assert text is not None
    now, add = time.time(), next(iter(files.values()), None)
    actions = [action for action in text if "commitInfo" in action or "txn" in action]
    if add is not None:
        actions += [{"add": {**add, "dataChange": False}}]
    entry = "\n".join(json.dumps(action) for action in actions).encode()
    checksum = _read_if_there(_checksum_path(folder, table.version))
    for number in range(1, count + 1):
        version, at = table.version + number, now - seconds * (1 - number / count)
        _put(commit_path(folder, version), entry, at)
        if checksum and at > now - 3600:
            _put(_checksum_path(folder, version), checksum, at)
    if count:
        with opened(folder) as opened_table:
            opened_table.create_checkpoint()


def _checksum_path(folder: str, version: int) -> str:
    return commit_path(folder, version).removesuffix("json") + "crc"


def _read_if_there(path: str) -> bytes:
    try:
        with open_input(path) as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _put(path: str, content: bytes, at: float) -> None:
    """Write a file, and set its time to ``at``, in seconds since 1970, if the storage can."""
    with open_output(path) as file:
        file.write(content)
    if not is_remote(path):
        os.utime(path, (at, at))


_STEP_S = 0.002


class GrowingLog:
    """A recording's files in a separate folder, up to ``prepared``; the rest is appended later.

    ``ends``: packed ends of the transactions after ``prepared``; ``at``: when each was appended, in
    seconds of ``time.perf_counter``, or 0 if it was not appended yet.
    """

    def __init__(self, recorded: str, folder: str, prepared: Until) -> None:
        """Raise LogError, or ConfigError if the log ends at ``prepared``."""
        self._log, self._folder = open_log(recorded), folder
        with tempfile.TemporaryDirectory() as work:
            records = build_index(self._log, work).records
        count = prepared.count_before(records, GtidSet(), self._log, 0)
        if count is None or count + 1 >= len(records):
            raise ConfigError("--prepared: less than two transactions of the log lie behind it")
        self.ends = records["end"][count:].astype(np.int64)
        self.at = np.zeros(len(self.ends))
        self._appended = 0
        self._number, self._offset = self._log.files[0].number, 0
        os.makedirs(folder)
        self._append(int(records["end"][count - 1]) if count else int(records["position"][0]))

    def add(self, count: int = 1) -> None:
        """Append ``count`` more transactions, or the remaining ones."""
        appended = min(self._appended + count, len(self.ends))
        if appended > self._appended:
            self._append(int(self.ends[appended - 1]))
            self.at[self._appended : appended] = time.perf_counter()
            self._appended = appended

    def grow(self, rate: float) -> None:
        """Append the remaining transactions, ``rate`` per second."""
        began, first = time.perf_counter(), self._appended
        while self._appended < len(self.ends):
            due = first + 1 + int((time.perf_counter() - began) * rate)
            self.add(due - self._appended)
            time.sleep(_STEP_S)

    def _append(self, end: int) -> None:
        """Append up to a packed position. Files that end before it are then complete."""
        place = RelayPosition.unpack(end)
        while self._number < place.file_no:
            self._copy(os.path.getsize(self._log.file(self._number).path))
            self._number, self._offset = self._number + 1, 0
        self._copy(place.offset)

    def _copy(self, upto: int) -> None:
        path = self._log.file(self._number).path
        with open(path, "rb") as source:
            source.seek(self._offset)
            data = source.read(upto - self._offset)
        with open(os.path.join(self._folder, os.path.basename(path)), "ab") as file:
            file.write(data)
        self._offset = upto
