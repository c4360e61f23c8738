"""RunReport: what a ``run`` says of itself while it has no applier, for `status`.

That is what it begins (it asks the source, waits for its log, starts Spark, copies), which error
has stopped it, and when it is begun again. A file of the working state, which a run that has ended
well removes; a run goes on where it can't be written.
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
from ...runtime.private_files import opener
from .worker_status import now

if TYPE_CHECKING:
    from ...config import Config

_FORMAT = 1
_EVERY_S = 1.0


class RunReport:
    """The report of this process's run of a channel. ``path``: its file; may raise SparkReplError
    where that can't be told."""

    def __init__(self, channel: str, path: Callable[[], str]) -> None:
        self._channel, self._path = channel, path
        self._copied = float("-inf")

    def begins(self, doing: str) -> None:
        """What it does from now on, until there is an applier, or the next word."""
        self._write(doing=doing)

    def copies(self, rows: int, expected: int) -> None:
        """Record how far the first copy is, once a second at most."""
        moment = time.monotonic()
        if moment - self._copied >= _EVERY_S or rows >= expected:
            self._copied = moment
            self.begins(f"copying the tables: {rows:,} of about {expected:,} rows")

    def failed(self, error: BaseException, again_s: float | None = None, attempt: int = 0) -> None:
        """By which error it was stopped. It is begun again for the ``attempt``-th time in
        ``again_s`` seconds; None: when it is asked to. 0: never by this process."""
        at = None
        if attempt and again_s is not None:
            at = (datetime.now(UTC) + timedelta(seconds=again_s)).isoformat(timespec="seconds")
        hint = getattr(error, "hint", None) or ""
        self._write(error=str(error), hint=hint, again_at=at, attempt=attempt)

    def ended(self) -> None:
        """It has ended well."""
        with suppress(SparkReplError, OSError):
            path = self._path()
            if (said := _read(path)) and _owner(said).is_this_process:
                os.remove(path)

    def _write(self, **said: Any) -> None:
        with suppress(SparkReplError, OSError):
            path = self._path()
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fields = {"process": asdict(Owner.me(self._channel)), "at": now(), **said}
            work = f"{path}.{os.getpid()}.new"
            with open(work, "w", encoding="utf-8", opener=opener) as file:
                file.write(formats.stamp(json.dumps(fields), _FORMAT))
            os.replace(work, path)


def read_run_report(path: str, owner: Owner | None) -> dict[str, Any]:
    """Return what the run says that has no applier, {} if none does. ``owner``: the target's last
    one, which counts if it came after a run that is gone, or if another process is it: a first copy
    owns the target before there is an applier. ``alive``: whether the run's process is there."""
    said = _read(path)
    if not said:
        return {}
    process = _owner(said)
    if owner is not None and not owner.is_dead:
        copies = _is_same(process, owner) and _at(said) >= owner.since
        if not copies:
            return {}
    since = owner.since if owner else ""
    if process.is_dead and _at(said) < since:
        return {}
    empty = {"doing": "", "error": "", "hint": "", "again_at": None, "attempt": 0}
    return {**empty, **said, "alive": not process.is_dead}


def _is_same(process: Owner, owner: Owner) -> bool:
    """Return whether both are one process."""
    return (process.host, process.pid) == (owner.host, owner.pid)


def _at(said: Mapping[str, Any]) -> str:
    """When that was said, as exact as an owner's ``since``."""
    at: str = datetime.fromisoformat(said["at"]).isoformat(timespec="seconds")
    return at


def _owner(said: Mapping[str, Any]) -> Owner:
    return Owner(**known_fields(Owner, said["process"]))


def _read(path: str) -> dict[str, Any] | None:
    """None where there is none, or none that this version can read."""
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
