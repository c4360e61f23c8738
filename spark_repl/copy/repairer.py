"""Repairer: carries out requests to repair rows, beside a running applier.

Rows are read while the applier continues. When it has applied all that the source had executed, it
writes them between two groups (apply/start/repair_rows). Rows that were changed meanwhile are read
again.
"""

from __future__ import annotations

import logging
import shutil
import time
from typing import TYPE_CHECKING

from ..control.records.copies import standing
from ..control.records.repair_results import RepairResult, record_result
from ..errors import (
    FormatError,
    NoTableError,
    RowsFailed,
    RowsOutdated,
    RowsRefused,
    SchemaError,
    SourceError,
    SourceLostError,
    Stopped,
)
from ..runtime.private_files import make_private_folder
from ..runtime.retry import until_stopped
from ..runtime.workers import Workers, disk_of
from .read_repair_rows import read
from .repair_request import READ, RepairRequest, left

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from ..apply.start.replica import Replica
    from ..config import Config
    from ..control.table.control import Control
    from ..control.table.cut import Cut
    from ..gtid import GtidSet
    from ..runtime.retry import Wait
    from ..runtime.starting_session import Session
    from ..write.rows.row_repair import RowsToRepair

logger = logging.getLogger(__name__)

_ATTEMPTS, _POLL_S = 8, 0.1
_APPLIED_S = 120.0


class Repairer:
    """A queue of repairs, made one after the other. ``stop`` ends it between two steps; ``reads``
    reads the source's rows."""

    def __init__(
        self,
        spark: Session,
        config: Config,
        applier: Replica,
        stop: threading.Event,
        *,
        reads: Callable[..., RowsToRepair] = read,
        wait: Wait = until_stopped,
    ) -> None:
        self._reads, self._pass = reads, wait
        self._config, self._applier, self._stop = config, applier, stop
        self._folder = applier.requests
        self._run = Workers(spark, config.apply.workers).run
        self._spark = spark

    def waits(self) -> bool:
        """Return whether a request waits."""
        return bool(left(self._folder))

    def carry_out(self) -> None:
        """Answer the oldest request. Raise SourceLostError and other temporary errors, Stopped,
        FencedError."""
        request, *_ = left(self._folder)
        control = self._applier.control
        answer = answer_to(request, lambda folder: self._rows(request, folder))
        record_result(control, answer)
        request.unlink(missing_ok=True)

    def fail(self, error: str) -> None:
        """Answer the oldest request with the error that ended it. Raise FencedError."""
        for request in left(self._folder)[:1]:
            record_result(self._applier.control, RepairResult(request.name, "", failed=error))
            request.unlink(missing_ok=True)

    def _rows(self, request: Path, folder: Path) -> RowsToRepair:
        """Return the rows that the applier has written. Raise RowsRefused if they are outdated at
        each attempt."""
        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                logger.warning("%s: %s: its rows are read again", request.name, reason)
                self._pause(attempt / 2)
            try:
                rows = self._read(request, folder)
                self._wait_for(rows.until)
            except RowsOutdated as again:
                reason = str(again)
                continue
            self._applier.take_rows(rows)
            self._applier.take_in()
            while not rows.outcome.done():
                self._pause(_POLL_S)
            if not isinstance(rows.refused, RowsOutdated):
                return rows
            reason = str(rows.refused)
        raise RowsRefused(f"{reason}, at each of {_ATTEMPTS} attempts")

    def _read(self, request: Path, folder: Path) -> RowsToRepair:
        cut = last_cut(self._applier.control)
        try:
            written = None if disk_of(self._spark, self._config) else folder
            return self._reads(self._config, self._run, request, cut, written)
        except SourceLostError:
            raise
        except (SchemaError, SourceError, NoTableError) as error:  # a statement changes the table
            raise RowsOutdated(str(error)) from error

    def _wait_for(self, until: GtidSet) -> None:
        last = time.monotonic() + _APPLIED_S
        while not until.issubset(self._applier.executed):
            if time.monotonic() > last:
                raise RowsRefused(f"the applier was {_APPLIED_S:.0f} s and more behind the source")
            self._pause(_POLL_S)

    def _pause(self, seconds: float) -> None:
        if self._pass(self._stop, seconds):
            raise Stopped


def last_cut(control: Control) -> Cut:
    """Return the cut after which rows are read. Raise RowsOutdated while a copy is in progress."""
    standing_copy = standing(control)
    if standing_copy.copy is not None or standing_copy.cut is None:
        raise RowsOutdated("a copy is under way")
    return standing_copy.cut


def answer_to(request: Path, taken_in: Callable[[Path], RowsToRepair]) -> RepairResult:
    """Return the outcome of a request. Until there is an outcome, the request's staged files are in
    a folder next to it."""
    folder = request.with_suffix(READ)
    make_private_folder(folder)
    table, keys = "", 0
    try:
        wanted = RepairRequest.read(request)
        table, keys = wanted.table, len(wanted.digests)
        rows = taken_in(folder)
        version = rows.outcome.result(timeout=0)
    except (RowsRefused, FormatError) as refused:
        logger.warning("%s: its rows are not repaired: %s", table or request.name, refused)
        return RepairResult(request.name, table, keys, refused=str(refused))
    except RowsFailed as failed:
        return RepairResult(request.name, table, keys, failed=str(failed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    count = sum(part.rows for part in rows.parts)
    logger.warning("%s: %d rows are as the source has them", table, count)
    return RepairResult(request.name, table, keys, count, version)
