"""Companion: a thread beside the stream whose end its owner notices.

It retries temporary errors, as the stream does, and hands other errors to its owner, which then
stops. So nothing waits for a thread that has ended.
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
    """A background thread that calls ``turn`` repeatedly, with ``pause_s`` seconds after each call.

    It ends when ``turn`` returns False, or after the current turn if ``stop`` is set, for example
    by the end of the ``with`` block. A turn waits with ``stop.wait``. If it ends otherwise,
    ``failed`` is called with the error, in this thread. ``attempts``: retries after a temporary
    error; ``wait``: see ``Retries``.
    """

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
        self._thread = thread(self._run, name, daemon=True, stop=self.stop)

    def __enter__(self) -> Companion:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait until the thread ends, if it was started. Return whether it still runs."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._retries.run(self._turn) and not self.stop.wait(self._pause_s):
                pass
        except Stopped:
            pass
        except BaseException as error:  # otherwise the thread would end unnoticed
            if self.stop.is_set():
                return  # its resources may be gone already: the error means nothing
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
