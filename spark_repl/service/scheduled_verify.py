"""Scheduled verify: every ``observe.verify_hours`` beside a running applier, as a process of its
own.

A file of the working state records when the last verify ended, so that it survives a restart. A
verify that a restart interrupts continues with what it had read. No error of it stops the applier.
"""

from __future__ import annotations

import logging
import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..control.records.channels import layout_of
from ..observe.reports.applier_status import Notice
from ..observe.reports.verify_status import read_verify_status
from ..runtime.companion import Companion
from ..runtime.private_files import make_private_folder
from .command_process import end, start

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from ..config import Config, Observe
    from ..control.table.layout import Layout
    from ..errors import SparkReplError
    from .command_process import CommandProcess

logger = logging.getLogger(__name__)

_HOUR_S = 3600.0
_STOP_S = 10.0
_POLL_S = 1.0
_CONNECTIONS = 1


class ScheduledVerify:
    """Starts a verify when one is due, and ends it at the end of the ``with`` block.

    ``note`` is called with a notice about a verify without a result, and with None after the next
    result.
    """

    def __init__(
        self,
        config: Config,
        config_file: str,
        failed: Callable[[SparkReplError], None],
        note: Callable[[Notice | None], None],
    ) -> None:
        self._config, observe = config, config.observe
        self._hours, self._rows_per_s = observe.verify_hours, observe.verify_rows_per_s
        self._file, self._set_notice = config_file, note
        self._process: CommandProcess | None = None
        self._before = ""
        attempts = config.apply.transaction_retries
        self._companion = Companion(
            "scheduled verify", self.turn, failed, pause_s=_POLL_S, attempts=attempts
        )

    @cached_property
    def _layout(self) -> Layout:
        """Return the target's layout. It reads the control table, so only if verifies are on."""
        return layout_of(self._config)

    @property
    def _last(self) -> Path:
        return Path(self._layout.verify) / "scheduled"

    def __enter__(self) -> Self:
        self._companion.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self._companion.__exit__(*args)
        self._companion.join(_STOP_S)
        end(self._process, _STOP_S)

    def reload(self, observe: Observe) -> None:
        """Use the new interval and rate."""
        self._hours, self._rows_per_s = observe.verify_hours, observe.verify_rows_per_s
        if not self._hours:
            self._set_notice(None)

    def turn(self) -> bool:
        """Handle a verify that has ended, or start one that is due. Return True."""
        try:
            if self._process is None:
                if self._is_due():
                    self._start()
            elif (code := self._process.poll()) is not None:
                self._process = None
                self._ended(code)
        except OSError as error:
            logger.warning("no scheduled verify: %s", error)
            self._set_notice(
                Notice(f"no scheduled verify: {error}", "it is tried again each second")
            )
        return True

    def _is_due(self) -> bool:
        if not self._hours:
            return False
        try:
            return time.time() - self._last.stat().st_mtime >= self._hours * _HOUR_S
        except FileNotFoundError:  # it was never on: the first one is due after the interval
            self._note(time.time())
            return False

    def _note(self, at: float) -> None:
        make_private_folder(self._last.parent)
        self._last.touch(0o600)
        os.utime(self._last, (at, at))

    def _start(self) -> None:
        logger.info("a scheduled verify begins")
        self._before = (read_verify_status(self._layout.verified) or {}).get("at", "")
        command = ["verify", "--config", self._file, "--connections", str(_CONNECTIONS)]
        rate = ["--rows-per-second", str(self._rows_per_s)] if self._rows_per_s else []
        self._process = start(command, rate)

    def _ended(self, code: int) -> None:
        now, verified = time.time(), read_verify_status(self._layout.verified)
        if verified is None or verified["at"] == self._before:  # its log says why
            soon = min(self._hours, 1) * _HOUR_S
            logger.warning("the scheduled verify ended with %s: again in %.0f s", code, soon)
            self._note(now - self._hours * _HOUR_S + soon)
            self._set_notice(Notice(
                f"the scheduled verify ended with {code}, and found nothing out: it comes again in"
                f" {soon:.0f} s",
                f"why it ended is in the log; see it: spark-repl verify --config {self._file}",
            ))  # fmt: skip
            return
        self._set_notice(None)
        self._note(now)
        level = logging.INFO if code == 0 else logging.WARNING
        logger.log(
            level, "verify: %s rows differ, %s undecided, of %s in %s tables, %s not compared, %s"
            " changed by others", verified["differing"], verified["undecided"], verified["rows"],
            verified["tables"], len(verified["not_compared"]), len(verified.get("by_others", ())),
        )  # fmt: skip
