"""ChannelRuns: several channels in this process, a thread and a Spark session each, in one JVM.

A channel that stops by an error leaves the others alone. It is begun again, as a service manager
would do with a process of its own: after a while, with its file read anew; at once when that is
asked for (SIGHUP); by that alone where its configuration is at fault.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..config.side_by_side import check_side_by_side
from ..errors import ConfigError, JvmEndedError, SetupError, SparkReplError, TakenFirstError

if TYPE_CHECKING:
    from ..config import Config
    from ..observe.applier_status import Result
    from .channel_run import ChannelRun

log = logging.getLogger(__name__)

_AGAIN_S, _AGAIN_MOST_S = 10.0, 600.0
"""a failed channel is begun again after the first, each time twice as late; one that has gone on
for the second begins with the first"""
_POLL_S = 0.2

Begin = Callable[["Config", str, bool], "ChannelRun"]
"""configuration, its file, whether it is the first time"""


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
        self._channels = {
            config.channel: _Channel(config, file, read, begin, failed, again_s)
            for file, config in files.items()
        }
        if len(self._channels) < len(files):
            raise ConfigError(
                "two files have one channel: what is said of them could not be told apart",
                hint='give each its own: channel = "eu"',
            )

    def run(self) -> dict[str, Result]:
        """What each channel has applied, once all have ended: by ``stop``, or since none of them
        can go on. Raises the first error of those that did not end well."""
        for name, channel in self._channels.items():
            channel.thread.name = f"channel {name}"
            channel.thread.start()
        while any(channel.thread.is_alive() for channel in self._channels.values()):
            if all(channel.is_at_rest for channel in self._channels.values()):
                self.stop()
            time.sleep(_POLL_S)  # signals are heard in between
        for channel in self._channels.values():
            if channel.error is not None:
                raise channel.error
        return {name: c.result for name, c in self._channels.items() if c.result is not None}

    def stop(self) -> None:
        for channel in self._channels.values():
            channel.stop()

    def reload(self) -> None:
        for channel in self._channels.values():
            channel.reload()


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
        self.result: Result | None = None
        self.error: SparkReplError | None = None
        self.is_at_rest = False
        """whether it waits to be asked, or has ended"""
        self.thread = threading.Thread(target=self._keep)

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
        wait_s, first = self._again_s, True
        while not self._stopping.is_set():
            began = time.monotonic()
            self.error = self._attempt(first=first)
            if self.error is None or self._stopping.is_set():
                break
            if isinstance(self.error, TakenFirstError):  # by one of ours, perhaps: beside it now
                continue
            if time.monotonic() - began > _AGAIN_MOST_S:
                wait_s = self._again_s
            self._wait(self.error, wait_s)
            wait_s, first = min(2 * wait_s, _AGAIN_MOST_S), False
        self.is_at_rest = True

    def _attempt(self, *, first: bool) -> SparkReplError | None:
        """One run, to its end; the error that ended it."""
        try:
            config = self._config if first else self._read(self._file)
            if config.channel != self._name:
                raise ConfigError(
                    f"{self._file}: channel is {config.channel!r} now, and was {self._name!r}",
                    hint="a channel can't be renamed; start this process again for another one",
                )
            self._run = run = self._begin(config, self._file, first)
            if self._stopping.is_set():
                return None
            self.result = run.run()
        except SparkReplError as error:
            return error
        except (
            Exception
        ) as error:  # a thread that ended unseen would be a channel that stands still
            log.info("channel %s", self._name, exc_info=True)
            return SparkReplError(f"{type(error).__name__}: {error}")
        finally:
            self._run = None
        return None

    def _wait(self, error: SparkReplError, wait_s: float) -> None:
        """Until it is to be begun again."""
        lasting = isinstance(error, ConfigError | SetupError | JvmEndedError)
        when = "at SIGHUP" if lasting else f"in {wait_s:.0f} s, or at SIGHUP"
        if isinstance(error, JvmEndedError):
            when = "with this process, which ends when all have stopped"
        log.warning("channel %s stopped by an error, is begun again %s", self._name, when)
        self._failed(error)
        self.is_at_rest = lasting
        self._again.wait(None if lasting else wait_s)
        self._again.clear()
        self.is_at_rest = False
