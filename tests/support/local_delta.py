"""The whole applier without Spark: real groups, direct writer, control table and files, on a Delta
log that is written as the protocol says, with Python alone. A history takes a fraction of a second,
so property tests can take many, and cut them off anywhere.

What only Delta itself can show (conflicts, checkpoints) is tested below tests/spark.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pyarrow as pa

from spark_repl import Config
from spark_repl.apply.group import stager
from spark_repl.apply.start.replica import OnGroup, Parts, Replica
from spark_repl.control.records.channels import channel_at
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, reader_tables
from spark_repl.control.table.layout import Layout
from spark_repl.crash_points import listening
from spark_repl.delta.log.log_replay import Action, commit_path
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.delta.store import storage
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.errors import ConcurrentChangeError, SparkReplError
from spark_repl.observe.reports.applier_status import Result
from spark_repl.runtime.workers import Guarded, all_of
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import Table


class LocalDelta(TableLog):
    """``TableLog`` that may be cut off before and after each commit that bears a position."""

    def commit(self, planned: Snapshot, actions: list[Action], stamp: Stamp) -> int:
        CRASHES("before_put")
        version = super().commit(planned, actions, stamp)
        CRASHES("after_put")
        return version


def put(
    folder: str, version: int, actions: Sequence[Action], app: str = "", position: int = 0,
    said: str = "", *, operation: str = "OPTIMIZE",
) -> int:  # fmt: skip
    """Commit as another writer does. Without ``app`` the commit bears no position."""
    storage.make_folder(os.path.join(folder, "_delta_log"))
    info = {"operation": "STREAMING UPDATE" if app else operation, "userMetadata": said}
    txn = [{"txn": {"appId": app, "version": position}}] if app else []
    written = [{"commitInfo": info}, *actions, *txn]
    try:
        storage.put_if_absent(
            commit_path(folder, version), "\n".join(map(json.dumps, written)).encode()
        )
    except FileExistsError as error:
        raise ConcurrentChangeError(f"version {version} is there already") from error
    return version


def metadata_action(new: NewTable, identity: str = "1") -> Action:
    """The ``metaData`` action of a table whose id is ``identity``."""
    metadata = {
        "id": identity, "format": {"provider": "parquet", "options": {}},
        "schemaString": new.schema_string, "partitionColumns": list(new.partition_columns),
        "configuration": new.configuration,
    }  # fmt: skip
    return {"metaData": metadata}


class Crash(BaseException):
    """Where a run is cut off: no handler of errors sees it, as none sees SIGKILL."""


_BESIDE = ("compacted", "after_compaction")  # upkeep's own thread


class Crashes:
    """Counts the steps of a run; cuts it off at the ``at``-th (0: never). ``told`` hears of each
    step before, and may raise."""

    def __init__(self) -> None:
        self.left = 0
        self.told: Callable[[str], object] = lambda name: None

    def __call__(self, name: str) -> None:
        self.told(name)
        if self.left and name not in _BESIDE:
            self.left -= 1
            if not self.left:
                raise Crash(name)


CRASHES = Crashes()


class Here:
    """``Workers`` as threads of this process: tasks run side by side, as on executors."""

    def __init__(self, spark: Any, count: int, config: Config) -> None:
        self.count, self.task_retries = count, 0

    def has_own_disks(self, *, wait: bool = True) -> bool:
        return False

    def is_small(self, **_: int) -> bool:
        return False

    def begins(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> None:
        """These tasks are going to be done: a test may look at them, or raise."""

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any], **_: Any) -> list[Any]:
        return all_of(self.outcomes(function, tasks))

    def outcomes(self, function: Callable[[Any], Any], tasks: Sequence[Any], **_: Any) -> list[Any]:
        self.begins(function, tasks)
        outcome = Guarded(function).outcome
        if len(tasks) < 2:
            return [outcome(task) for task in tasks]
        with ThreadPoolExecutor(min(len(tasks), 4)) as pool:
            return list(pool.map(outcome, tasks))


def at_once(stopping: threading.Event, seconds: float) -> bool:
    """Waits for nothing."""
    return stopping.is_set()


HERE = Parts(Here, LocalDelta, wait=at_once)  # type: ignore[arg-type]


@contextmanager
def without_spark() -> Iterator[None]:
    """Every crash point is a step of a run, and no work is so little that it isn't handed on."""
    with ExitStack() as stack:
        stack.enter_context(listening(CRASHES))
        stack.enter_context(patch.object(stager, "_SHARD_BYTES", 0))
        yield


@contextmanager
def applier(
    log: Path, target: Path | str, *, vectors: bool = True, feed: bool = False,
    partition_by: Sequence[str] = (), keys: Mapping[str, Any] = {}, source: Mapping[str, Any] = {},
    ddl: Mapping[str, Any] = {}, filters: Mapping[str, Any] = {},
    tables: Sequence[Mapping[str, Any]] = (), take_over: bool = False,
    until: Until | None = None, on_group: OnGroup | None = None, copies: bool = False,
    parts: Parts | None = None, channel: str = Config.channel, catalog: Mapping[str, Any] = {},
    **apply: Any,
) -> Iterator[Replica]:  # fmt: skip
    """A started Replica without a stream; ``apply``, ``source``, ``ddl``, ``filters`` and
    ``catalog`` are keys of these sections, ``tables`` those of each ``[[tables]]``, ``keys`` more
    of [target]; new tables have deletion ``vectors``, Delta's change data ``feed`` and partitions;
    ``copies``: waiting tables are copied beside the applier; ``parts``: others than HERE, of a
    ``channel``."""
    # Compaction as often as it can be, to be met by everything else.
    aim = {"path": str(target), "column_mapping": False, "compact_files": 2}
    aim |= {"deletion_vectors": vectors, "change_data_feed": feed, "partition_by": partition_by}
    aim |= keys
    # No renewal comes during a test: some count requests, or steps on the disk.
    applying = {"lease_s": 3600, **apply}
    values = {"relay": {"path": str(log)}, "target": aim, "apply": applying, "source": source}
    values |= {"channel": channel}
    values |= {"ddl": dict(ddl), "filters": dict(filters), "tables": list(tables)}
    values |= {"catalog": dict(catalog)}
    config = Config.from_mapping(values)
    made = Replica(
        MagicMock(), config, on_group, take_over=take_over, until=until, copies=copies,
        parts=parts or HERE,
    )  # fmt: skip
    with without_spark(), made as found:
        yield found


def run(log: Path, target: Path | str, *, crash: int = 0, **apply: Any) -> bool:
    """Applies the whole log; False when it was cut off at its ``crash``-th step."""
    CRASHES.left = 0
    try:
        with applier(log, target, **apply) as found:
            CRASHES.left = crash
            apply_without_stream(found)
    except Crash:
        return False
    finally:
        CRASHES.left = 0
    return True


def apply_without_stream(replica: Replica) -> Result:
    """All that the log holds now, as one batch of the stream would bring it."""
    while True:
        coordinator = replica.coordinator
        try:
            replica.opened.pipeline.end_by_hand()
            coordinator.apply(replica.index.slice(coordinator.mark.position, replica.index.end))
        except SparkReplError as error:
            replica._pass_over(error)
            replica._go_back()
        else:
            return replica.result(0.0)


def rows(target: Path | str, table: Table, version: int | None = None) -> list[tuple[Any, ...]]:
    """Sorted, read by delta-rs; with the columns, and types, that the table has in the log."""
    found = read(f"{target}/{table.database}/{table.name}", version)
    assert found.column_names == [name for name, _ in table.columns]
    for kind, (_, declared) in zip(found.schema.types, table.columns, strict=True):
        assert declared != "int" or pa.types.is_int32(kind), kind
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=_order)


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """NULL comes first."""
    return tuple((value is not None, value) for value in row)


def cuts(target: Path | str, channel: str = "") -> list[Cut]:
    """All of the channel that had the target first, or of the one that is named."""
    if channel:
        return channel_at(str(target), channel).control.cuts()
    return Control(Layout(str(target)).control).cuts()


def at_cut(target: Path | str, cut: Cut) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table that a cut shows, sorted, by the table's name."""
    shown = {}
    for name, at in reader_tables(cut).items():
        found = read(f"{target}/{at.path}", at.version)
        shown[name] = sorted((tuple(row.values()) for row in found.to_pylist()), key=_order)
    return shown


def last_shown(target: Path | str) -> dict[str, Any]:
    """The same of the last cut."""
    return at_cut(target, cuts(target)[-1])


def rows_at_cuts(target: Path | str, table: Table) -> list[list[tuple[Any, ...]]]:
    """The table's rows at each cut that has it: every one must be readable."""
    found = [cut.tables.get(f"{table.database}.{table.name}") for cut in cuts(target)]
    return [rows(target, table, at.version) for at in found if at]


def at_any_port(config: Config) -> Config:
    """With metrics on a port that is free: 0, which is no setting."""
    return replace(config, observe=replace(config.observe, listen="127.0.0.1:0"))


def broken() -> OSError:
    """What storage says for a moment."""
    return OSError(errno.EIO, "Input/output error")


def stopped(log: Path, target: Path, **apply: Any) -> SparkReplError:
    """The error that stops the applier."""
    try:
        run(log, target, **apply)
    except SparkReplError as error:
        return error
    raise AssertionError("the applier did not stop")
