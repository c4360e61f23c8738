"""RunReport: what a ``run`` does while it has no applier, for `status`.

It records what the run begins (it connects to the source, waits for its log, starts Spark, copies),
which error has stopped it, and when it begins again. The report is a file of the working state. A
run that ends without an error removes it; a run continues if the file can't be written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ... import formats
from ...control.records.channels import layout_of
from ...control.table.owner import Owner
from ...control.table.row_formats import known_fields
from ...errors import FormatError, SparkReplError
from ...runtime.executor_disk import spark_scratch_folder
from ...runtime.private_files import private_opener
from .worker_status import now

if TYPE_CHECKING:
    from ...config import Config

_FORMAT = 1
_EVERY_S = 1.0


class RunReport:
    """Report of this process's run of a channel.

    ``path`` returns its file. It may raise SparkReplError if the path can't be resolved.
    """

    def __init__(self, channel: str, path: Callable[[], str]) -> None:
        self._channel, self._path = channel, path
        self._copied, self._copy_began = float("-inf"), ""

    def begins(self, doing: str) -> None:
        """Record what the run does from now on, until the next record or the applier's start."""
        self._write({"doing": doing})

    def copies(self, rows: int, expected: int) -> None:
        """Record the progress of the first copy, at most once a second."""
        moment = time.monotonic()
        self._copy_began = self._copy_began or now()
        if moment - self._copied >= _EVERY_S or rows >= expected:
            self._copied = moment
            doing = "copying the tables"
            if expected:
                doing += f": {rows:,} of about {expected:,} rows"
            copied = {"rows": rows, "expected": expected, "began": self._copy_began}
            self._write({"doing": doing, "copied": copied})

    def failed(self, error: BaseException, again_s: float | None = None, attempt: int = 0) -> None:
        """Record the error that stopped the run.

        The ``attempt``-th restart comes in ``again_s`` seconds; None: at SIGHUP. If ``attempt`` is
        0, this process does not restart the run.
        """
        at = None
        if attempt and again_s is not None:
            at = (datetime.now(UTC) + timedelta(seconds=again_s)).isoformat(timespec="seconds")
        hint = getattr(error, "hint", None) or ""
        kind = type(error).__name__
        fields = {"error": str(error), "kind": kind, "hint": hint, "again_at": at}
        self._write({**fields, "attempt": attempt})

    def ended(self) -> None:
        """Remove the report: the run has ended without an error."""
        with suppress(SparkReplError, OSError):
            path = self._path()
            if (recorded := _read(path)) and _owner(recorded).is_this_process:
                os.remove(path)

    def _write(self, fields: Mapping[str, object]) -> None:
        with suppress(SparkReplError, OSError):
            path = self._path()
            os.makedirs(os.path.dirname(path), exist_ok=True)
            process = asdict(Owner.me(self._channel))
            recorded = {"process": process, "at": now(), "scratch": spark_scratch_folder(),
                        **fields}  # fmt: skip
            work = f"{path}.{os.getpid()}.new"
            with open(work, "w", encoding="utf-8", opener=private_opener) as file:
                file.write(formats.stamp(json.dumps(recorded), _FORMAT))
            os.replace(work, path)


def read_run_report(path: str, owner: Owner | None) -> dict[str, Any]:
    """Return the report of a run without an applier, {} if there is none.

    ``owner``, the target's last one, supersedes the report if it is another process, or if it came
    after a run that no longer exists. A first copy owns the target before there is an applier. A
    run of this host may wait for the lease of an owner on another one. ``alive`` in the result:
    whether the run's process exists; ``here``: whether this process can check that.
    """
    recorded = _read(path)
    if not recorded:
        return {}
    process = _owner(recorded)
    if owner is not None and not owner.is_dead:
        copies = _is_same(process, owner) and _at(recorded) >= owner.since
        waits = process.is_here and not process.is_dead and not owner.is_here
        if not (copies or waits):
            return {}
    since = owner.since if owner else ""
    if process.is_dead and _at(recorded) < since:
        return {}
    empty = {"doing": "", "error": "", "kind": "", "hint": "", "again_at": None, "attempt": 0}
    seen = {"alive": not process.is_dead, "here": process.is_here}
    return {**empty, **recorded, **seen}


def _is_same(process: Owner, owner: Owner) -> bool:
    """Return whether both are one process."""
    return (process.host, process.pid) == (owner.host, owner.pid)


def _at(recorded: Mapping[str, Any]) -> str:
    """Return the time of a report, rounded as an owner's ``since``."""
    at: str = datetime.fromisoformat(recorded["at"]).isoformat(timespec="seconds")
    return at


def _owner(recorded: Mapping[str, Any]) -> Owner:
    return Owner(**known_fields(Owner, recorded["process"]))


def _read(path: str) -> dict[str, Any] | None:
    """Return the file's fields; None if there is no file that this version can read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = formats.unstamp(file.read(), _FORMAT, "the run's report", path)
        fields: dict[str, Any] = json.loads(text)
    except (FileNotFoundError, FormatError, ValueError):
        return None
    return fields


def report_of(config: Config) -> RunReport:
    """Return the report of this process's run. Its path is resolved when it is written."""
    return RunReport(config.channel, lambda: layout_of(config).run)
