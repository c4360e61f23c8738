"""Supervisor: keeps the receiver's process running beside the applier."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import LogError, SourceError, SparkReplError
from ..relay.log import open_log
from ..runtime.companion import Companion
from .command_process import Start, end, read_refusal, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config
    from .command_process import CommandProcess

logger = logging.getLogger(__name__)

_POLL_S = 0.1
_STEADY_S = 60.0
_STOP_S = 30.0
# Exit codes after an error that a new start would meet again.
_REFUSED = (1, 2)


class Supervisor:
    """Keeps the receiver's process running. ``error``: set when the receiver refused to continue.

    ``ending``: set if this process was asked to end; the receiver may have got the same signal.
    ``start`` starts the receiver.
    """

    def __init__(
        self,
        config: Config,
        config_file: str,
        *options: str,
        ending: threading.Event | None = None,
        start: Start = start,
    ) -> None:
        self.config, self.config_file, self.options = config, config_file, options
        self._ending, self._start = ending or threading.Event(), start
        self.error: SparkReplError | None = None
        self.starts = 0
        self._wait_s = float(config.source.connect_retry_s)
        self._process: CommandProcess | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="spark_repl-")
        self._refused = os.path.join(self._folder.name, "refusal.json")
        self._companion = Companion(
            "thread that keeps the receiver", self._keep, self._fail, pause_s=0.0,
            attempts=config.apply.transaction_retries,
        )  # fmt: skip

    def __enter__(self) -> Supervisor:
        self._companion.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self._companion.stop.set()
        end(self._process, _STOP_S)
        self._companion.join(_STOP_S)
        self._folder.cleanup()

    def reload(self, config: Config) -> None:
        """Use the new settings of source and relay log."""
        self.config = replace(self.config, source=config.source, relay=config.relay)

    def restart(self) -> None:
        """End the process. It is then started again, and reads the configuration."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _fail(self, error: SparkReplError) -> None:
        self.error = error

    def _keep(self) -> bool:
        began, source = time.monotonic(), self.config.source
        code = self._run_once()
        if self._companion.stop.is_set():
            return False
        if code in _REFUSED:
            self.error = self._refusal(code)
            return False
        if code == 0 and self._ending.wait(_POLL_S):
            return False
        logger.warning("the receiver ended with %s: it is started again", code)
        if time.monotonic() - began > _STEADY_S:
            self._wait_s = float(source.connect_retry_s)
        self._companion.stop.wait(self._wait_s)
        self._wait_s = min(self._wait_s * 2, source.connect_retry_max_s)
        return True

    def _refusal(self, code: int) -> SparkReplError:
        """Return the error by which the receiver ended. The text of a source's error says that it
        stopped the receiver."""
        error = read_refusal(self._refused)
        if error is None:
            return SourceError(
                f"the receiver ended with {code}",
                hint=f"spark-repl receive --config {self.config_file} shows why",
            )
        if isinstance(error, SourceError):
            error.message = f"the receiver stopped: {error.message}"
        return error

    def _run_once(self) -> int:
        command = ["receive", "--config", self.config_file]
        command += ["--log-format", self.config.observe.log_format, "--refusal", self._refused]
        with suppress(FileNotFoundError):
            os.unlink(self._refused)
        process = self._start(command, self.options)
        self._process = process
        self.starts += 1
        if self._companion.stop.is_set():  # it may have been checked before this process existed
            end(process, _STOP_S)
        return process.wait()


def wait_for_log(
    config: Config, receiver: Supervisor, stop: threading.Event, begins: Callable[[str], None]
) -> bool:
    """Wait until the receiver has begun the relay log. Return False if stopped.

    Call ``begins`` before a wait. Raise the receiver's error if it ended without a log.
    """
    is_waiting = False
    while not stop.is_set():
        try:
            open_log(config.relay.path)
            return True
        except LogError:
            if receiver.error is not None:
                raise receiver.error from None
            if not is_waiting:
                begins(f"waiting for {config.source.host}:{config.source.port}")
            is_waiting = True
            stop.wait(_POLL_S)
    return False
