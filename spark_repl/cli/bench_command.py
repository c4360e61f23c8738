"""``bench ddl`` and ``bench apply``: logs into fresh targets."""

from __future__ import annotations

import argparse

from ..errors import ConfigError
from . import inspect


def bench_ddl(options: argparse.Namespace) -> int:
    from ..bench import ddl

    if min(options.statements, options.tables) < 1:
        raise ConfigError("--statements and --tables must be at least 1")
    figures = ddl.bench_ddl(options.statements, options.tables, options.rows, options.workers)
    inspect.emit(figures, options.json)
    return 0


def bench_apply(options: argparse.Namespace) -> int:
    from ..bench import recorded
    from ..schedule.stops import Until

    if options.fresh_index and not options.prepared:
        raise ConfigError("--fresh-index needs --prepared: a new target has no index")
    settings = {
        "workers": options.workers,
        "writer": options.writer,
        "group_max_rows": options.group_rows,
        "group_max_transactions": options.group_transactions,
        "group_max_bytes": options.group_bytes,
    }
    prepared = Until.parse(options.prepared) if options.prepared else None
    figures = recorded.bench_apply(
        options.relay, settings, options.runs, prepared, fresh_index=options.fresh_index
    )
    inspect.emit(figures, options.json)
    return 0
