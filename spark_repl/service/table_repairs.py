"""Repairs of tables that differ from the source, by rows if possible, else by a copy.

The applier that owns the target repairs rows; if none runs, this process does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..apply.start.replica import Replica
from ..control.records.channels import control_of, layout_of
from ..control.records.repair_results import RepairResult, repair_results
from ..control.table.owner_lease import has_ended
from ..copy.read_repair_rows import read
from ..copy.recopy import check_answers, running_owner
from ..copy.repair_request import leave
from ..copy.repairer import answer_to, last_cut
from ..errors import HistoryError, LogError, RowsRefused, TargetError
from ..runtime.workers import Workers, disk_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..config import Config
    from ..control.table.control import Control
    from ..copy.repair_request import RepairRequest
    from ..write.rows.row_repair import RowsToRepair

logger = logging.getLogger(__name__)

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
    """Repair tables, and copy tables whose rows can't be repaired. Return fields of the result.

    ``repairs``: by table a request, or the reason why its rows can't be repaired; ``copy`` copies
    tables.

    Tables that are ``outliving`` have rows or columns that the source lacks, which a copy would
    remove. They are not copied, nor is a table whose repair ended with an error. Raise SourceError,
    TargetError or FencedError.
    """
    rows, copied, wrong = dict[str, int](), dict[str, str](), dict[str, str]()
    for name, request in repairs.items():
        if isinstance(request, str):
            done = RepairResult("", name, refused=request)
        else:
            done = repair_table(config, request, session, pause)
        if done.failed:
            wrong[name] = done.failed
        elif done.refused and name in outliving:
            wrong[name] = f"{done.refused}, and a copy would remove rows or columns that it keeps"
        elif done.refused:
            copied[name] = done.refused
        else:
            rows[name] = done.rows
    for name, reason in copied.items():
        logger.warning("%s is copied as a whole: %s", name, reason)
    if copied:
        copy(tuple(copied))
    repaired = [name for name in repairs if name not in wrong]
    return {"repaired": repaired, "repaired_rows": rows, "copied": copied, "not_repaired": wrong}


def repair_table(
    config: Config,
    request: RepairRequest,
    session: Callable[[], SparkSession],
    pause: Callable[[float], object] = time.sleep,
) -> RepairResult:
    """Let a running applier carry out a request, or carry it out in this process if none runs.

    Raise TargetError if the applier ended before it did so; SourceError; FencedError.
    """
    control = control_of(config)
    runs = running_owner(config, control) is not None
    folder = Path(layout_of(config).requests)
    name = leave(folder, request)
    path = folder / name
    if not runs:
        try:
            return _stopped(config, control, path, session)
        finally:
            path.unlink(missing_ok=True)
    while True:
        pause(_POLL_S)
        if answer := repair_results(control).get(name):
            return answer
        owner = control.owner()
        if owner is None or has_ended(control.path, owner[1]):
            raise TargetError(
                "the applier has ended before it has repaired the rows", file=config.target.path,
                hint="start it again: it does so then",
            )  # fmt: skip
        check_answers(config, owner[0], name)


def _stopped(
    config: Config, control: Control, request: Path, session: Callable[[], SparkSession]
) -> RepairResult:
    """Repair while no applier runs: the tables have to hold all that the source has executed."""
    spark = session()

    def taken_in(folder: Path) -> RowsToRepair:
        run = Workers(spark, config.apply.workers).run
        written = None if disk_of(spark, config) else folder
        rows = read(config, run, request, last_cut(control), written)
        applier = Replica(spark, config)
        applier.take_rows(rows)
        try:
            with applier:
                return rows
        except (LogError, HistoryError, TargetError) as error:  # a copy does not need the log
            raise RowsRefused(str(error)) from error

    return answer_to(request, taken_in)
