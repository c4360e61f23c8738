"""ChannelRuns: several channels in one process, each with a thread and a Spark session, in one JVM.

A channel that an error stops does not affect the others. It begins again as a service manager would
restart its process: after a pause, with its file read again, or at once at SIGHUP. After a fault of
its configuration it begins only at SIGHUP. The end of the JVM ends all channels.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ..config.side_by_side import check_side_by_side
from ..errors import (
    ConfigError,
    FencedError,
    JvmEndedError,
    SetupError,
    SparkReplError,
    TakenFirstError,
)
from ..observe.reports.run_report import report_of
from ..runtime.java import jvm_end
from ..runtime.threads import thread, under_channel

if TYPE_CHECKING:
    from ..config import Config
    from ..observe.reports.applier_status import Result
    from .channel_run import ChannelRun

logger = logging.getLogger(__name__)

_AGAIN_S, _AGAIN_MOST_S = 10.0, 600.0
"""pause before a failed channel begins again: at first, and at most. It doubles after each
failure, and is the first one again after a run that lasted as long as the second."""
_POLL_S = 0.2
_END_S = 30.0
"""wait for the work that an ended run left, when all channels end"""
_LASTING = (ConfigError, SetupError)
"""errors that a person has to correct: a new start does not help"""

Begin = Callable[["Config", str, bool], "ChannelRun"]
"""configuration, its file, whether --take-over counts -> a run"""


class ChannelRuns:
    """Runs of several channels. Raise ConfigError if the files contradict each other.

    ``read`` reads a file's configuration; ``begin`` creates its run; ``failed`` is called with each
    error of a channel, which restarts after ``again_s`` seconds.
    """

    def __init__(
        self,
        files: Mapping[str, Config],
        read: Callable[[str], Config],
        begin: Begin,
        failed: Callable[[SparkReplError], None],
        again_s: float = _AGAIN_S,
    ) -> None:
        check_side_by_side(files)
        self._configs, self._read = dict(files), read
        self._reading = threading.Lock()
        self._channels = {
            config.channel: _Channel(config, file, self._read_again, begin, failed, again_s)
            for file, config in files.items()
        }
        if len(self._channels) < len(files):
            raise ConfigError(
                "two files have one channel: what is said of them could not be told apart",
                hint='give each its own: channel = "eu"',
            )

    def run(self) -> dict[str, Result]:
        """Return each channel's result after all have ended: by ``stop``, or because none can
        continue. If a channel failed, raise the error that
        ranks first (``_rank``)."""
        for channel in self._channels.values():
            channel.thread.start()
        while any(channel.thread.is_alive() for channel in self._channels.values()):
            channels = self._channels.values()
            if all(c.is_at_rest for c in channels) or any(c.jvm_ended for c in channels):
                self.stop()
            time.sleep(_POLL_S)  # Python handles signals in between
        errors = [c.error for c in self._channels.values() if c.error is not None]
        if errors:
            raise min(errors, key=_rank)
        return {name: c.result for name, c in self._channels.items() if c.result is not None}

    def stop(self) -> None:
        """Stop all channels. Safe in a signal's handler."""
        for channel in self._channels.values():
            channel.stop()

    def reload(self) -> None:
        """Read all files again. Safe in a signal's handler."""
        for channel in self._channels.values():
            channel.reload()

    def _read_again(self, file: str) -> Config:
        """Return a file's new configuration. Raise ConfigError if it is faulty, or contradicts the
        other channels' current ones."""
        with self._reading:
            former, config = self._configs[file], self._read(file)
            if config.channel != former.channel:
                raise ConfigError(
                    f"{file}: channel is {config.channel!r} now, and was {former.channel!r}",
                    hint="a channel can't be renamed; start this process again for another one",
                )
            now = {**self._configs, file: config}
            check_side_by_side(now)
            self._configs[file] = config
            return config


def _rank(error: SparkReplError) -> int:
    """Return the rank of an error; the process ends with that of the lowest rank.

    A service manager does not restart after a configuration's fault (exit code 2), so errors that a
    restart may cure come first.
    """
    return 0 if isinstance(error, JvmEndedError) else 2 if isinstance(error, _LASTING) else 1


class _Channel:
    """One channel, which begins again after errors, in ``thread``. ``error``: of its last run."""

    def __init__(
        self,
        config: Config,
        file: str,
        read: Callable[[str], Config],
        begin: Begin,
        failed: Callable[[SparkReplError], None],
        again_s: float,
    ) -> None:
        self._config, self._file, self._read = config, file, read
        self._begin, self._failed, self._again_s = begin, failed, again_s
        self._name = config.channel
        self._stopping, self._again = threading.Event(), threading.Event()
        self._run: ChannelRun | None = None
        self._take_over = True
        self.result: Result | None = None
        self.error: SparkReplError | None = None
        self.is_at_rest = False
        """whether the channel waits for SIGHUP, or has ended"""
        with under_channel(self._name):
            self.thread = thread(self._keep, f"channel {self._name}")

    @property
    def jvm_ended(self) -> bool:
        return isinstance(self.error, JvmEndedError)

    def stop(self) -> None:
        self._stopping.set()
        self._again.set()
        if (run := self._run) is not None:
            run.stop()

    def reload(self) -> None:
        if (run := self._run) is not None:
            run.reload()
        else:
            self._again.set()

    def _keep(self) -> None:
        wait_s, config, attempts, taken = self._again_s, self._config, 0, False
        while not self._stopping.is_set():
            began = time.monotonic()
            self.error = self._attempt(config)
            if self.error is None:
                break
            if isinstance(self.error, TakenFirstError) and not taken:
                taken = True  # perhaps by another channel of this process: try again at once
                continue
            taken = False
            if time.monotonic() - began > _AGAIN_MOST_S:
                wait_s, attempts = self._again_s, 0
            attempts += 1
            config = self._wait(config, self.error, wait_s, attempts) or config
            wait_s = min(2 * wait_s, _AGAIN_MOST_S)
        self.is_at_rest = True

    def _attempt(self, config: Config) -> SparkReplError | None:
        """Run once, and return the error that ended the run."""
        self.error = None
        try:
            self._again.clear()
            self._run = run = self._begin(config, self._file, self._take_over)
            if self._again.is_set():  # it was set right before the run existed
                self._again.clear()
                run.reload()
            if self._stopping.is_set():
                return None
            try:
                self.result = run.run()
            finally:
                self._take_over = self._take_over and not run.has_claimed
                self._wait_for_threads(run)
        except SparkReplError as error:
            return error
        except BaseException as error:  # otherwise the channel would stop unnoticed
            logger.exception("channel %s", self._name)
            return jvm_end(error) or SparkReplError(f"{type(error).__name__}: {error}")
        finally:
            self._run = None
        return None

    def _wait_for_threads(self, run: ChannelRun) -> None:
        """Wait until no thread of an ended run works.

        A copy may wait an hour for its source. The end of the process waits only _END_S seconds.
        """
        ends = None
        while run.is_at_work(_POLL_S):
            if self._stopping.is_set():
                ends = ends or time.monotonic() + _END_S
                if time.monotonic() > ends:
                    return

    def _wait(
        self, config: Config, error: SparkReplError, wait_s: float, attempt: int
    ) -> Config | None:
        """Report the error, and wait until the channel begins again. Return its configuration, None
        if the channel ends."""
        while True:
            lasting = isinstance(error, _LASTING)
            ends = self._stopping.is_set() or self.jvm_ended
            when = "at SIGHUP" if lasting else f"in {wait_s:.0f} s, or at SIGHUP"
            again = "" if ends else f", is begun again {when}"
            logger.warning("channel %s stopped by an error%s", self._name, again)
            if not isinstance(error, FencedError):  # the other one has a report of its own
                report_of(config).failed(error, None if lasting else wait_s, 0 if ends else attempt)
            with suppress(OSError):  # standard error is closed
                self._failed(error)
            if ends:
                self._stopping.set()
                return None
            self.is_at_rest = lasting
            self._again.wait(None if lasting else wait_s)
            self._again.clear()
            self.is_at_rest = False
            if self._stopping.is_set():
                return None
            try:
                return self._read(self._file)
            except SparkReplError as faulty:
                self.error = error = faulty
