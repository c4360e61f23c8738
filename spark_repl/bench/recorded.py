"""Benchmarks of recorded logs: speed on this machine, with the share of each phase. No tests."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..alter.schema_history import SchemaHistory
from ..binlog.types.forms import Forms
from ..config import Config
from ..control.table.layout import Layout
from ..decode.read_changes import read_changes
from ..decode.stage_task import StageTask
from ..decode.stage_worker import stage
from ..delta.store.storage import remove_folder
from ..position import RelayPosition
from ..relay.index import build_index, file_indexes
from ..relay.log import RelayLog, open_log
from ..relay.logged_query import read_statement
from ..relay.record import Flag, Kind
from ..runtime.store_requests import request_counts
from ..runtime.target_uri import canonical, is_remote
from ..schedule.group import Group
from ..schedule.tasks import stage_tasks
from .memory import Memory

if TYPE_CHECKING:
    from ..relay.index import TransactionIndex
    from ..schedule.until import Until
    from ..tables.source_table import SourceTable

_ROUNDS = 5


def bench_decode(files: Sequence[str]) -> dict[str, Any]:
    """Measure the decoding of a log to Arrow: one core, no Spark, checksums verified.

    ``rows``: row images (an UPDATE has two), all decoded into columns by ``read_changes``, which
    also reads the log's index; zero and impossible dates are NULL. ``net_changes``: a worker's
    result for the same transactions, with one image per key, written to a file; without the index.
    """
    with tempfile.TemporaryDirectory() as folder:
        tasks, size = _tasks(files, folder)
        work: dict[str, Callable[[], int]] = {
            "index_s": lambda: sum(_transactions(path) for path in files),
            "decode_s": lambda: sum(_images(path) for path in files),
            "net_s": lambda: sum(sum(stage(task).changes.values()) for task in tasks),
        }
        counts, best = dict[str, int](), dict.fromkeys(work, float("inf"))
        for _ in range(_ROUNDS):
            for phase, run in work.items():
                began = time.perf_counter()
                counts[phase] = run()
                best[phase] = min(best[phase], time.perf_counter() - began)
    rows, changes = counts["decode_s"], counts["net_s"]
    return {
        "rows": rows,
        "rows_per_s": round(rows / best["decode_s"]),
        "mb_per_s": round(size / best["decode_s"] / 1e6, 1),
        "transactions": counts["index_s"],
        "net_changes": changes,
        "net_changes_per_s": round(changes / best["net_s"]),
        "phases": {name: round(seconds, 3) for name, seconds in best.items()},
    }


def _tasks(files: Sequence[str], folder: str) -> tuple[list[StageTask], int]:
    """Return (a worker's tasks, bytes) of all transactions in the files."""
    tasks, size = list[StageTask](), 0
    for path in files:
        log = open_log(path)
        records = build_index(log, folder).records
        size += int(records["length"].sum())
        group = Group.of(records, np.zeros(len(records), np.int32), len(records))
        definitions = _definitions(log, records)
        forms = Forms(zero_dates="null")
        template = StageTask(0, (), 1, folder, forms=forms, definitions=definitions)
        tasks += stage_tasks(log, 0, group, {}, template)
    return tasks, size


def _definitions(log: RelayLog, records: np.ndarray) -> Mapping[str, SourceTable]:
    """Return the tables as the log's statements leave them, for maps without column names."""
    history = SchemaHistory()
    for record in records[records["kind"] == Kind.QUERY]:
        position = RelayPosition.unpack(int(record["position"]))
        checksum = bool(record["flags"] & Flag.CHECKSUM)
        path = log.file(position.file_no).path
        history.see(read_statement(path, position.offset, checksum=checksum, start=b""))
    return history.definitions


def _transactions(path: str) -> int:
    return sum(len(index.records) for index in file_indexes(open_log(path)))


def _images(path: str) -> int:
    count = 0
    for batch in read_changes(path, zero_dates="null"):
        for side in ("before", "after"):
            count += len(batch) - batch.column(side).null_count
    return count


@dataclass(frozen=True)
class Recording:
    """A relay log to apply.

    ``settings``: keys of the section [apply]; ``prepared``: the position up to which the log is
    applied before the measurement; ``do_table``: the only tables that filters keep.
    """

    relay: str
    settings: Mapping[str, Any]
    prepared: Until | None = None
    do_table: tuple[str, ...] = ()

    def config(self) -> Config:
        """Return the configuration, without a target."""
        filters = {"do_table": list(self.do_table)}
        return Config.from_mapping(
            {"relay": {"path": self.relay}, "apply": self.settings, "filters": filters}
        )


def requests_per_group(before: Mapping[str, int], groups: int) -> dict[str, Any]:
    """Return this process's requests to the object store since ``before``, by kind, per group.
    Return an empty dict if there were none."""
    counts = Counter(request_counts())
    counts.subtract(before)
    shares = {kind: round(count / max(1, groups), 2) for kind, count in counts.items() if count}
    return {"requests_per_group": shares} if shares else {}


def _log_bytes(index: TransactionIndex, begin: int, end: int) -> int:
    """Return the bytes of the log between two packed positions."""
    size = sum(int(records["length"].sum()) for records in index.slices(begin, end))
    index.forget_pages()  # else they count as memory of the next run
    return size


def bench_apply(
    recording: Recording, runs: int, *, fresh_index: bool = False, below: str = "", master: str = ""
) -> dict[str, Any]:
    """Apply a recording into new targets, ``runs`` times in one session. Report the last run.

    ``fresh_index``: first remove the tables' key indexes, so that their rebuild is included in the
    time. ``below``: folder of the targets, also in a bucket; by default a temporary folder.
    ``master``: URL of the Spark master; by default ``local[workers]``.
    """
    from ..apply.start.replica import Replica
    from ..runtime.spark_session import build_session

    base = recording.config()
    spark = build_session(master=master or f"local[{base.apply.workers}]", delta=False)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder, Memory() as memory:
        for number in range(max(1, runs)):
            target = os.path.join(folder, str(number))
            state = {"target.state_path": f"{target}_state"}
            if below:
                target = canonical(os.path.join(below, f"bench-{uuid.uuid4()}"))
            config = base.override({"target.path": target, **(state if is_remote(target) else {})})
            # Twice: Spark ends Python processes that were idle for a minute, as after a long load.
            # The second run, with nothing to do, starts them again.
            for _ in range(2 if recording.prepared else 0):
                with Replica(spark, config, until=recording.prepared) as replica:
                    replica.apply()
            if fresh_index:
                shutil.rmtree(Layout.of(config.target).keys(""))
            began = time.perf_counter()
            with Replica(spark, config) as replica:
                started = time.perf_counter() - began
                requests = request_counts()
                begin = replica.opened.position
                result = replica.apply()
            size = _log_bytes(replica.index, begin, replica.opened.position)
            figures = {
                "rows": result.counters.row_changes,
                "rows_per_s": round(result.counters.row_changes / result.seconds),
                "mb_per_s": round(size / result.seconds / 1e6, 1),
                "seconds": round(result.seconds, 3),
                "groups": result.counters.groups,
                "waves": result.counters.waves,
                **requests_per_group(requests, result.counters.groups),
                "phases": {"start_s": round(started, 3), **replica.opened.phases()},
                "peak_pss_mib": memory.peak_mib,
            }
            remove_folder(target)
    return figures
