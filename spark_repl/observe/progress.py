"""Progress of long work: bars on a terminal, and lines without one."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ..config import Config
from ..position import RelayPosition
from ..runtime.threads import channel_here, thread

if TYPE_CHECKING:
    from ..apply.start.replica import Replica
    from .reports.applier_status import Counters


logger = logging.getLogger(__name__)

_LINE_S = 30.0
"""seconds from one line about the first copy to the next, where there is no bar"""


def print_progress(config: Config, text: str) -> None:
    """Print one line to standard error, or log it at level INFO if the log is JSON.

    The channel's name comes first if the channel is not the default one, or if the process runs
    several channels.
    """
    here, as_json = channel_here(), config.observe.log_format == "json"
    if config.channel != Config().channel or here:
        text = text if here and as_json else f"{config.channel}: {text}"
    if as_json:
        logger.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)


class CopyProgress:
    """Progress of the first copy: rows, rows a second, remaining time.

    On a terminal, if ``shown``, it is a bar. Otherwise a thread prints a line every 30 seconds,
    also while a long chunk is read.
    """

    def __init__(
        self, config: Config, *, shown: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        console = Console(stderr=True)
        self._config, self._clock = config, clock
        self._bar = Bar(
            TextColumn("copying"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not (shown and console.is_terminal and config.observe.log_format != "json"),
        )
        self._task: Any = self._bar.add_task("copying", total=None, text="starting")
        self._began, self._text, self._ended = clock(), "starting", threading.Event()

    def __enter__(self) -> CopyProgress:
        self._bar.start()
        if self._bar.disable:
            thread(lambda: self.print_lines(self._ended.wait), "copy-lines", daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self._ended.set()
        self._bar.stop()

    def print_lines(self, wait: Callable[[float], bool]) -> None:
        """Print a line after each wait, until ``wait`` returns True."""
        while not wait(_LINE_S):
            print_progress(self._config, f"copying: {self._text}")

    def update(self, rows: int, expected: int) -> None:
        """Show how many rows are copied of those expected."""
        seconds = max(1e-3, self._clock() - self._began)
        self._text = f"{rows:,} of about {expected:,} rows, {rows / seconds:,.0f} rows/s"
        self._bar.update(self._task, completed=rows, total=expected, text=self._text)


class Progress:
    """The applier's progress bar on standard error.

    It prints nothing unless ``shown``, and nothing if standard error is not a terminal or the log
    is JSON.
    """

    def __init__(self, config: Config, *, shown: bool = True) -> None:
        self._console = Console(stderr=True)
        shown = shown and self._console.is_terminal and config.observe.log_format != "json"
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not shown,
        )
        self._task: Any = self._bar.add_task("applying", total=None, text="starting")
        self._began = time.perf_counter()
        self._replica: Replica | None = None

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._bar.stop()

    def begin(self, replica: Replica) -> None:
        """Show how many transactions the replica has to apply."""
        self._replica = replica
        self._began = time.perf_counter()
        count, _ = replica.index.count_behind(replica.opened.position)
        self._bar.update(self._task, total=count, text=f"{count} transactions to apply")

    def group(self, counters: Counters, position: int) -> None:
        """Show the counts and the position after a committed group."""
        seconds = max(1e-3, time.perf_counter() - self._began)
        replica = self._replica
        end = replica.index.end if replica else position
        source = replica.opened.source_of(position) if replica else {}
        of_source = f", source {source['file']}:{source['position']}" if source.get("file") else ""
        text = (
            f"{counters.transactions} transactions,"
            f" {counters.row_changes / seconds:,.0f} changes/s,"
            f" applied {RelayPosition.unpack(position)} of {RelayPosition.unpack(end)}"
            f"{of_source}"
        )
        self._bar.update(self._task, completed=counters.transactions, text=text)
