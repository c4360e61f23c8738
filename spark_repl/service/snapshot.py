"""Copies by themselves: the first one, and new ones of some tables."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..control.records.channels import check_unowned, control_of
from ..control.records.copies import standing
from ..errors import SourceError
from ..rules.table_rules import TableRules
from .first_copy import copy_tables
from .older_log import clear_older

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..config import Config
    from ..copy.first_copy import CopyResult

log = logging.getLogger(__name__)

_COPIES = 4
"""how often a first copy begins, where statements change its tables"""


def snapshot(
    config: Config,
    only: tuple[str, ...] = (),
    *,
    master: str | None = None,
    take_over: bool = False,
) -> CopyResult:
    """Makes the first copy, alone, or a new copy of some tables that the target has.

    Raises SourceError, SchemaError, TargetError, FencedError, LogError.
    """
    from ..copy.copy_plan import plan_copy

    def session() -> SparkSession:
        from ..runtime.session import build_session

        return build_session(master=master or f"local[{config.apply.workers}]", delta=False)

    control = control_of(config)
    if only and standing(control).cut is not None:
        from ..copy.copy_plan import refuse_shards
        from ..copy.recopy import ask_and_wait, copy_stopped

        refuse_shards(only, TableRules(config.tables))
        owner = control.owner()
        if owner and not owner[1].is_dead and not take_over:
            return ask_and_wait(config, only)
        return copy_stopped(config, only, session, take_over=take_over)
    check_unowned(config, take_over=take_over)
    plan_copy(config, only)
    clear_older(config)
    return _first_copy(session(), config, only, take_over=take_over)


def _first_copy(
    spark: SparkSession, config: Config, only: tuple[str, ...], *, take_over: bool
) -> CopyResult:
    """Copies what is planned, and all of it anew when statements have changed tables meanwhile.
    Raises SourceError when they do so each time."""
    from ..copy.copy_plan import plan_copy

    control = control_of(config)
    for attempt in range(_COPIES):
        done = copy_tables(spark, config, take_over=take_over, lenient=True)
        copy = standing(control).copy
        if copy is None or not copy.unfinished:
            return done
        changed = ", ".join(sorted(copy.unfinished))
        log.warning("%s: changed while it was copied: all is copied anew", changed)
        if attempt < _COPIES - 1:
            plan_copy(config, only, anew=True)
    raise SourceError(
        f"statements changed tables during each of {_COPIES} copies: {changed}",
        hint="start it again when no statements change tables; or spark-repl run, which copies"
        " these tables alone again",
    )
