"""Old targets: turn a new target into one that has followed a load for a number of hours.

The entries are real. Commits, which Delta and delta-rs read, are dated as a load of a given rate
would have dated them. Objects can't be dated, so they have their real age. Cuts of the commits are
written, as many as the tiers keep.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import write_deltalake

from ..control.records.durability_barrier import DurabilityBarrier
from ..control.records.retention import Retention
from ..control.table.control import Control
from ..control.table.layout import Layout
from ..delta.log.add_actions import live_files
from ..delta.log.log_replay import commit_path, read_commit
from ..delta.store.delta_table import opened
from ..delta.store.storage import open_input, open_output, options
from ..runtime.object_store import is_remote

if TYPE_CHECKING:
    from ..config import Config
    from ..control.table.cut import Cut, TableVersion


def make_old(config: Config, hours: float, rate: float) -> int:
    """Add the commits of ``hours`` to each table, as far as its log retains them, and their cuts.

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
    rows = [{**row, "at": at, "detail": cut.to_detail()} for at, cut in cuts]
    schema = _schema(control.path)
    write_deltalake(
        control.path, pa.Table.from_pylist(rows, schema), mode="append",
        storage_options=options(control.path),
    )  # fmt: skip
    DurabilityBarrier(control, layout)()  # an applier that followed the load would have synced
    return count


def _promised(retention: Retention, hours: float, rate: float) -> list[timedelta]:
    """Return the ages of the cuts that are retained after ``hours``, the oldest first."""
    tiers = ((retention.every, 1 / rate), (retention.minute, 60.0), (retention.hour, 3600.0))
    ages = set[float]()
    for kept, apart in tiers:
        ages |= {number * apart for number in range(1, int(min(hours, kept) * 3600 / apart) + 1)}
    return [timedelta(seconds=age) for age in sorted(ages, reverse=True)]


def _schema(folder: str) -> pa.Schema:
    with opened(folder) as table:
        return pa.schema(table.schema().to_arrow())


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
