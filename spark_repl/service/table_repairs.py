"""Repairs of tables that a verify has found to differ: of single rows where that can be, by the
applier that owns the target, or here where none runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..apply.start.replica import Replica
from ..control.records.channels import control_of, layout_of
from ..control.records.repair_results import Repair, answers
from ..copy.copy_requests import check_answers
from ..copy.read_repair_rows import read
from ..copy.repair_request import leave
from ..copy.repairer import answer_to, last_cut
from ..errors import HistoryError, LogError, RowsRefused, TargetError
from ..runtime.workers import Workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..apply.start.repair_rows import RowsToRepair
    from ..config import Config
    from ..control.table.control import Control
    from ..copy.repair_request import RepairRequest

log = logging.getLogger(__name__)

_POLL_S = 0.2


def repair_tables(
    config: Config,
    repairs: Mapping[str, RepairRequest | str],
    session: Callable[[], SparkSession],
    copy: Callable[[tuple[str, ...]], Any],
    outliving: Collection[str] = (),
    *,
    pause: Callable[[float], object] = time.sleep,
) -> dict[str, Any]:
    """Repair tables, and have ``copy`` copy those whose rows can't be repaired, for the reason that
    is given or found. Return what a result says of it.

    Tables that are ``outliving`` have what the source has no longer, which a copy would remove:
    they are not copied, nor is a table whose repair ended with an error. Raises SourceError,
    TargetError, FencedError.
    """
    rows, copied, wrong = dict[str, int](), dict[str, str](), dict[str, str]()
    for name, one in repairs.items():
        done = Repair("", name, refused=one) if isinstance(one, str) else None
        done = done or repair_table(config, cast("RepairRequest", one), session, pause)
        if done.failed:
            wrong[name] = done.failed
        elif done.refused and name in outliving:
            wrong[name] = f"{done.refused}, and a copy would remove rows or columns that it keeps"
        elif done.refused:
            copied[name] = done.refused
        else:
            rows[name] = done.rows
    for name, reason in copied.items():
        log.warning("%s is copied as a whole: %s", name, reason)
    if copied:
        copy(tuple(copied))
    mended = [name for name in repairs if name not in wrong]
    return {"repaired": mended, "repaired_rows": rows, "copied": copied, "not_repaired": wrong}


def repair_table(
    config: Config,
    request: RepairRequest,
    session: Callable[[], SparkSession],
    pause: Callable[[float], object] = time.sleep,
) -> Repair:
    """Has a request carried out by the applier that owns the target, or here where none runs.
    Raises TargetError when the applier ended before, SourceError, FencedError."""
    control = control_of(config)
    folder = Path(layout_of(config).requests)
    name = leave(folder, request)
    path = folder / name
    owner = control.owner()
    if owner is None or owner[1].is_dead:
        try:
            return _stopped(config, control, path, session)
        finally:
            path.unlink(missing_ok=True)
    while True:
        pause(_POLL_S)
        if answer := answers(control).get(name):
            return answer
        owner = control.owner()
        if owner is None or owner[1].is_dead:
            raise TargetError(
                "the applier has ended before it has repaired the rows", file=config.target.path,
                hint="start it again: it does so then",
            )  # fmt: skip
        check_answers(config, owner[0], name)


def _stopped(
    config: Config, control: Control, request: Path, session: Callable[[], SparkSession]
) -> Repair:
    """While no applier runs: the tables have to hold all that the source has executed."""
    spark = session()

    def taken_in(folder: Path) -> RowsToRepair:
        run = Workers(spark, config.apply.workers).run
        rows = read(config, run, request, last_cut(control), folder)
        applier = Replica(spark, config)
        applier.take_rows(rows)
        try:
            with applier:
                return rows
        except (LogError, HistoryError, TargetError) as error:  # a copy may do without
            raise RowsRefused(str(error)) from error

    return answer_to(request, taken_in)
