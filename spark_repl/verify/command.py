"""One verify from beginning to end: Spark's workers, the result kept for ``status``, the repair."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from ..control.control import Control
from ..control.layout import Layout
from ..delta.public_log import PublicLog
from ..observe.verify_status import record
from ..runtime.session import build_session
from ..runtime.workers import Workers
from .table_files import files_of
from .verifier import Verifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config
    from .verifier import Found, Limits


def verify(
    config: Config,
    only: tuple[str, ...],
    limits: Limits,
    *,
    master: str | None,
    repair: Callable[[tuple[str, ...]], Any] | None,
) -> dict[str, Any]:
    """What was found, as JSON has it. ``repair``: copies tables with rows that differ anew. Raises
    SourceError, TargetError, NoTableError."""
    began = time.perf_counter()
    layout = Layout.of(config.target)
    Control.existing(config.target.path)
    spark = build_session(
        master=master or f"local[{limits.connections}]", target=config.target.path
    )
    files = partial(files_of, PublicLog(spark))
    workers = Workers(spark, limits.connections)
    found = Verifier(config, layout, files, workers, limits).verify(only)
    fields = result(found, time.perf_counter() - began)
    record(layout.verified, fields)
    tables = tuple(name for name, one in found.tables.items() if one["differing"])
    if repair and tables:
        repair(tables)
        fields["repaired"] = list(tables)
        record(layout.verified, fields)
    return fields


def result(found: Found, seconds: float) -> dict[str, Any]:
    """The fields of a result. ``differing``, ``undecided``: rows, or keys of several."""
    rows = found.total("rows")
    return {
        "tables": len(found.tables),
        "rows": rows,
        "ranges": found.total("ranges"),
        "differing": found.total("differing"),
        "undecided": found.total("undecided"),
        "looks": found.looks,
        "seconds": round(seconds, 3),
        "rows_per_s": round(rows / max(seconds, 1e-3)),
        "gtid_executed": found.gtid_executed,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{name: asdict(found)[name] for name in ("differences", "not_compared")},
        "by_table": found.tables,
        "repaired": [],
    }
