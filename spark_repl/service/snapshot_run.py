"""Copies of tables by a process: the first copy of all tables, and new copies of some."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ..control.records.channels import check_unowned, control_of
from ..control.records.copies import standing
from ..errors import SourceError
from ..rules.table_rules import TableRules
from ..runtime.starting_session import starting
from .older_log import clear_older

if TYPE_CHECKING:
    from ..config import Config
    from ..copy.first_copy import CopyResult
    from ..runtime.starting_session import Session

logger = logging.getLogger(__name__)


def copy_tables(
    spark: Session,
    config: Config,
    *,
    take_over: bool,
    stop: threading.Event | None = None,
    lenient: bool = False,
    bar: bool = True,
    on_rows: Callable[[int, int], None] = lambda rows, expected: None,
) -> CopyResult:
    """Make the planned first copy, or finish it. Raise Stopped.

    ``lenient``: leave out tables that statements change meanwhile; ``bar``: show a progress bar;
    ``on_rows``: called with the rows copied so far and the rows expected.
    """
    from ..copy.first_copy import FirstCopy
    from ..observe.progress import CopyProgress
    from ..runtime.workers import Workers

    workers = Workers(spark, config.apply.workers)
    with CopyProgress(config, shown=bar) as progress:

        def report(rows: int, expected: int) -> None:
            progress.update(rows, expected)
            on_rows(rows, expected)

        copy = FirstCopy(spark, config, workers.run, report, stop=stop, lenient=lenient)
        return copy.copy(take_over=take_over)


@contextmanager
def copy_page(config: Config) -> Iterator[str]:
    """Serve the page and metrics during the first copy, at the applier's address.

    Yield the page's address, "" if there is no page. Raise ConfigError if ``observe.listen`` names
    an address on which nothing can listen.
    """
    from ..control.records.channels import opened
    from ..observe.web.endpoint import endpoint_snapshots, open_endpoint

    endpoint, _ = open_endpoint(config.observe, serves=True)
    if endpoint is None:
        yield ""
        return
    try:
        endpoint.serve(
            endpoint_snapshots(config, os.path.abspath(config.relay.path), opened(config))
        )
        yield endpoint.address
    finally:
        endpoint.close()


_COPIES = 4
"""attempts at a first copy whose tables statements change"""


def snapshot(
    config: Config,
    only: tuple[str, ...] = (),
    *,
    master: str | None = None,
    take_over: bool = False,
) -> CopyResult:
    """Make the first copy of all tables, or a new copy of the tables ``only``, which the target
    has.

    Raise SourceError, SchemaError, TargetError, FencedError or LogError.
    """
    from ..copy.copy_plan import plan_copy
    from ..runtime.spark_session import build_session, end_of

    master = master or f"local[{config.apply.workers}]"
    session = partial(build_session, master=master, delta=False)

    control = control_of(config)
    if only and standing(control).cut is not None:
        from ..copy.copy_plan import refuse_shards
        from ..copy.recopy import ask_and_wait, copy_stopped, running_owner

        refuse_shards(only, TableRules(config.tables))
        if not take_over and running_owner(config, control) is not None:
            return ask_and_wait(config, only)
        return copy_stopped(config, only, session, take_over=take_over)
    check_unowned(config, take_over=take_over)
    plan_copy(config, only)
    clear_older(config)
    with starting(session, end=end_of(master)) as spark:
        return _first_copy(spark, config, only, take_over=take_over)


def _first_copy(
    spark: Session, config: Config, only: tuple[str, ...], *, take_over: bool
) -> CopyResult:
    """Copy the planned tables, and all of them again if statements changed some meanwhile. Raise
    SourceError if statements did so during each attempt."""
    from ..copy.copy_plan import plan_copy

    control = control_of(config)
    for attempt in range(_COPIES):
        done = copy_tables(spark, config, take_over=take_over, lenient=True)
        copy = standing(control).copy
        if copy is None or not copy.unfinished:
            return done
        changed = ", ".join(sorted(copy.unfinished))
        logger.warning("%s: changed while it was copied: all is copied again", changed)
        if attempt < _COPIES - 1:
            plan_copy(config, only, again=True)
    raise SourceError(
        f"statements changed tables during each of {_COPIES} copies: {changed}",
        hint="start it again when no statements change tables; or spark-repl run, which copies"
        " these tables alone again",
    )
