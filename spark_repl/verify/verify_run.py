"""One verify from beginning to end: its workers, its result for ``status``, and the repair."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..control.cuts.cut_reader import find_cut
from ..control.records.channels import layout_of
from ..control.table.control import Control
from ..delta.log.table_log import TableLog
from ..observe.reports.verify_status import write_verify_status
from ..runtime.threads import Pool
from .between_cuts import Between, totals
from .verifier import Runs, Verifier
from .work_folder import WorkFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..config import Config
    from .verifier import VerifyLimits, VerifyResult

_TABLES = ("differences", "not_compared", "by_others", "paths", "by_kind")


def verify(
    config: Config,
    only: tuple[str, ...],
    limits: VerifyLimits,
    *,
    master: str | None,
    repair: Callable[..., dict[str, Any]] | None,
) -> dict[str, Any]:
    """Verify tables, record the result for ``status``, and return it as JSON fields.

    ``repair`` gets the ``Repairs`` of tables, and as ``outliving`` the tables that may have rows
    which the source no longer has. It returns fields of the result, and needs
    ``limits.repairs``. Raise SourceError, TargetError or NoTableError.
    """
    began = time.perf_counter()
    layout = layout_of(config)
    Control.existing(config.target.path)
    workers = _workers(config, master, limits.connections)
    comparison = Verifier(config, layout, TableLog(), workers, limits).verify(only)
    fields = result(comparison, time.perf_counter() - began) | {"sample": limits.percent}
    write_verify_status(layout.verified, fields)
    if repair and comparison.repairs:
        fields |= repair(comparison.repairs, outliving=comparison.outliving)
        write_verify_status(layout.verified, fields)
    return fields


def between(
    config: Config,
    cuts: tuple[str, str],
    only: tuple[str, ...],
    limits: VerifyLimits,
    master: str | None,
) -> dict[str, Any]:
    """Compare two cuts, named as for ``cut show --at``; return the result as JSON fields. Raise
    ConfigError or TargetError for an unknown cut, and TargetError if a table no longer exists."""
    began = time.perf_counter()
    layout = layout_of(config)
    Control.existing(config.target.path)
    control = Control(layout.control, config.channel)
    left, right = (find_cut(control, at) for at in cuts)
    workers = _workers(config, master, limits.connections)
    with WorkFolder(layout.verify, "between") as work:
        compare = Between(layout, control, TableLog(), workers.run, limits.connections)
        comparison = compare.compare(left, right, only, work, limits.shown_rows)
        work.clear()
    seconds, sums = time.perf_counter() - began, totals(comparison)
    return {
        "tables": len(comparison.tables),
        **sums,
        "seconds": round(seconds, 3),
        "rows_per_s": round(sums["rows"] / max(seconds, 1e-3)),
        "gtid_executed": [left.gtid_executed, right.gtid_executed],
        "differences": comparison.differences,
        "not_compared": comparison.not_compared,
        "by_table": comparison.tables,
        "by_kind": comparison.by_kind,
    }


class _Threads:
    """Threads of this process. They wait for servers and disks, and their computations (Arrow,
    numpy and our kernels) release the GIL. They start 5 s sooner than a JVM."""

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if len(tasks) < 2:
            return [function(task) for task in tasks]
        with Pool(len(tasks)) as pool:  # as many lists as there are connections
            return list(pool.map(function, tasks))


def _workers(config: Config, master: str | None, connections: int) -> Runs:
    """Return executors of the requested Spark master; without one, threads."""
    if master is None:
        return _Threads()
    from ..runtime.spark_session import build_session
    from ..runtime.workers import Workers
    from .store_workers import StoreWorkers

    workers = Workers(build_session(master=master, delta=False), connections, config)
    if not workers.has_own_disks():
        return workers
    return StoreWorkers(workers, os.path.dirname(layout_of(config).staging(0, in_target=True)))


def result(comparison: VerifyResult, seconds: float) -> dict[str, Any]:
    """Return the fields of a result. ``differing`` and ``undecided`` count keys; in a table without
    a key one of them may stand for several equal rows."""
    rows = comparison.total("rows")
    return {
        "tables": len(comparison.tables),
        "rows": rows,
        "ranges": comparison.total("ranges"),
        "differing": comparison.total("differing"),
        "undecided": comparison.total("undecided"),
        "looks": comparison.looks,
        "seconds": round(seconds, 3),
        "rows_per_s": round(rows / max(seconds, 1e-3)),
        "gtid_executed": comparison.gtid_executed,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{name: asdict(comparison)[name] for name in _TABLES},
        "by_table": comparison.tables,
        "repaired": [],
        "repaired_rows": {},
        "copied": {},
        "not_repaired": {},
    }
