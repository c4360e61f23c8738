"""Companion: a thread that runs beside the stream, and whose end somebody sees.

An error that may pass is tried again, as the stream's own are; any other is handed to the owner,
who stops by that name. So nothing waits for a thread that is gone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ..errors import SparkReplError, Stopped
from .retry import Retries, Wait, first_line, until_stopped
from .threads import thread

logger = logging.getLogger(__name__)


class Companion:
    """Calls ``turn`` again and again, ``pause_s`` after each, until it returns False or ``stop`` is
    set, as at the end of the ``with`` block. ``failed`` hears, in this thread, why it ended
    otherwise. ``attempts``: so many more after a temporary error; ``wait``: see ``Retries``."""

    def __init__(
        self,
        name: str,
        turn: Callable[[], bool],
        failed: Callable[[SparkReplError], None],
        *,
        pause_s: float,
        attempts: int,
        wait: Wait = until_stopped,
    ) -> None:
        self.name, self.stop = name, threading.Event()
        self._turn, self._failed, self._pause_s = turn, failed, pause_s
        who = f"the {name} tried again"
        self._retries = Retries(attempts, self.stop, lambda retry: None, who, wait=wait)
        self._thread = thread(self._run, name, daemon=True)

    def __enter__(self) -> Companion:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.end()

    def end(self) -> None:
        """Has it end behind the turn that is under way. Safe from any thread."""
        self.stop.set()

    @property
    def is_ending(self) -> bool:
        return self.stop.is_set()

    def wait(self, seconds: float) -> None:
        """For a turn that has to wait: returns at once when it is to end."""
        self.stop.wait(seconds)

    def join(self, timeout_s: float) -> bool:
        """Waits until it has ended, if it was begun; returns whether it goes on."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._retries.run(self._turn) and not self.stop.wait(self._pause_s):
                pass
        except Stopped:
            pass
        except BaseException as error:  # nobody else would hear of it
            if self.stop.is_set():
                return  # what it worked with is gone: nobody waits for it
            logger.exception("the %s has ended", self.name)
            self._failed(self._named(error))

    def _named(self, error: BaseException) -> SparkReplError:
        if isinstance(error, SparkReplError):
            return error
        ended = SparkReplError(
            f"the {self.name} has ended: {type(error).__name__}: {first_line(error)}",
            hint="see the traceback above; start again: what was not committed is applied then",
        )
        ended.__cause__ = error
        return ended
