"""ChannelRuns: several channels in this process, a thread and a Spark session each, in one JVM.

A channel that stops by an error leaves the others alone. It is begun again, as a service manager
would do with a process of its own: after a while, with its file read anew; at once when that is
asked for (SIGHUP); by that alone where its configuration is at fault. What ends the JVM ends all.
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

log = logging.getLogger(__name__)

_AGAIN_S, _AGAIN_MOST_S = 10.0, 600.0
"""a failed channel is begun again after the first, each time twice as late; one that has gone on
for the second begins with the first"""
_POLL_S = 0.2
_END_S = 30.0
"""for what a run that has ended has left at work, where all are to end"""
_LASTING = (ConfigError, SetupError)
"""mended by somebody, not by another start"""

Begin = Callable[["Config", str, bool], "ChannelRun"]
"""configuration, its file, whether the target is to be taken over as the command line may say"""


class ChannelRuns:
    """``read`` reads a file's configuration; ``begin`` makes its run; ``failed`` is told of each
    error of a channel, which is begun again after ``again_s``. Raises ConfigError where the files
    can't be run side by side."""

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
        """What each channel has applied, once all have ended: by ``stop``, or since none of them
        can go on. Raises the error of one that did not end well."""
        for channel in self._channels.values():
            channel.thread.start()
        while any(channel.thread.is_alive() for channel in self._channels.values()):
            channels = self._channels.values()
            if all(c.is_at_rest for c in channels) or any(c.jvm_ended for c in channels):
                self.stop()
            time.sleep(_POLL_S)  # signals are heard in between
        errors = [c.error for c in self._channels.values() if c.error is not None]
        if errors:
            raise min(errors, key=_rank)
        return {name: c.result for name, c in self._channels.items() if c.result is not None}

    def stop(self) -> None:
        """Safe in a signal's handler."""
        for channel in self._channels.values():
            channel.stop()

    def reload(self) -> None:
        """Safe in a signal's handler."""
        for channel in self._channels.values():
            channel.reload()

    def _read_again(self, file: str) -> Config:
        """Raises ConfigError, also where it does not go with the others' as they are now."""
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
    """Which of several errors is the process's: by 2, of a configuration's fault, a service manager
    leaves it at rest, so any that another start may mend goes first."""
    return 0 if isinstance(error, JvmEndedError) else 2 if isinstance(error, _LASTING) else 1


class _Channel:
    """One channel, begun again and again, in ``thread``. ``error``: how its last run ended."""

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
        """whether it waits to be asked, or has ended"""
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
                taken = True  # by one of ours, perhaps: it goes beside that one at once
                continue
            taken = False
            if time.monotonic() - began > _AGAIN_MOST_S:
                wait_s, attempts = self._again_s, 0
            attempts += 1
            config = self._wait(config, self.error, wait_s, attempts) or config
            wait_s = min(2 * wait_s, _AGAIN_MOST_S)
        self.is_at_rest = True

    def _attempt(self, config: Config) -> SparkReplError | None:
        """One run, to its end; the error that ended it."""
        self.error = None
        try:
            self._again.clear()
            self._run = run = self._begin(config, self._file, self._take_over)
            if self._again.is_set():  # by who asked right before it was there
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
        except BaseException as error:  # unseen, it would be a channel that stands still
            log.exception("channel %s", self._name)
            return jvm_end(error) or SparkReplError(f"{type(error).__name__}: {error}")
        finally:
            self._run = None
        return None

    def _wait_for_threads(self, run: ChannelRun) -> None:
        """Until nothing of a run that has ended is at work any more; a copy's chunk may wait for
        its source for an hour, and the process's end does not wait for that."""
        ends = None
        while run.is_at_work(_POLL_S):
            if self._stopping.is_set():
                ends = ends or time.monotonic() + _END_S
                if time.monotonic() > ends:
                    return

    def _wait(
        self, config: Config, error: SparkReplError, wait_s: float, attempt: int
    ) -> Config | None:
        """Says why it has stopped, and waits until it is to be begun again; the configuration for
        that, None where it ends."""
        while True:
            lasting = isinstance(error, _LASTING)
            ends = self._stopping.is_set() or self.jvm_ended
            when = "at SIGHUP" if lasting else f"in {wait_s:.0f} s, or at SIGHUP"
            again = "" if ends else f", is begun again {when}"
            log.warning("channel %s stopped by an error%s", self._name, again)
            if not isinstance(error, FencedError):  # the other one has a report of its own
                report_of(config).failed(error, None if lasting else wait_s, 0 if ends else attempt)
            with suppress(OSError):  # nobody listens any more
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
