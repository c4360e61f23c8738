"""Progress bars of long work: transactions, changes a second, what is left, both positions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ..position import RelayPosition

if TYPE_CHECKING:
    from ..apply.start.replica import Replica
    from ..config import Config
    from .reports.applier_status import Counters


class CopyProgress:
    """Bar of the first copy: rows, rows a second, time left. Prints nothing unless ``shown``."""

    def __init__(self, config: Config, *, shown: bool = True) -> None:
        console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("copying"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not (shown and console.is_terminal and config.observe.log_format != "json"),
        )
        self._task: Any = self._bar.add_task("copying", total=None, text="starting")
        self._began = time.perf_counter()

    def __enter__(self) -> CopyProgress:
        self._bar.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._bar.stop()

    def update(self, rows: int, expected: int) -> None:
        """Show how many rows are copied of those expected."""
        seconds = max(1e-3, time.perf_counter() - self._began)
        text = f"{rows:,} of about {expected:,} rows, {rows / seconds:,.0f} rows/s"
        self._bar.update(self._task, completed=rows, total=expected, text=text)


class Progress:
    """Bar of the applier on standard error.

    It prints nothing unless ``shown``, nor if standard error is no terminal or the log is JSON.
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
        count = len(replica.index.slice(replica.opened.position, replica.index.end))
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
