"""Waits of a verify: for a cut that contains what was read, or for a source that is as new as a
cut.

A long wait logs what it waits for. A wait for a cut ends early if no applier is left to commit one.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from ..errors import TargetError
from ..observe.reports.applier_status import read_applier_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config
    from ..control.table.control import Control
    from ..control.table.layout import Layout
    from ..gtid import GtidSet

logger = logging.getLogger(__name__)

_POLL_S, _LOG_S = 0.2, 30.0
_GONE_S = 10.0
"""seconds in which a restarted applier claims the target, unless an error has stopped it"""
_SHOWN = 200
"""characters of a GTID set"""


class CutWait:
    """A wait of at most ``wait_s`` seconds. ``missing`` returns the GTIDs that have not arrived
    yet."""

    def __init__(self, config: Config, layout: Layout, control: Control, wait_s: float) -> None:
        self._path, self._layout, self._control = config.target.path, layout, control
        self._wait_s = wait_s

    def for_source(self, missing: Callable[[], GtidSet]) -> None:
        """Wait until the source has all GTIDs. Raise TargetError when the time is over."""
        self._wait(missing, "the source shows", lambda left: None)

    def for_cut(self, missing: Callable[[], GtidSet]) -> None:
        """Wait until a cut contains all GTIDs. Raise TargetError when the time is over, or no
        applier runs."""
        gone: tuple[int, float] | None = None

        def look(left: GtidSet) -> None:
            nonlocal gone
            owner = self._control.owner()
            if owner is not None and not owner[1].is_dead:
                gone = None
                return
            epoch, now = owner[0] if owner else 0, time.monotonic()
            self._check_error(epoch)
            if gone is None or gone[0] != epoch:
                gone = epoch, now
            elif now - gone[1] > _GONE_S:
                raise TargetError(
                    "nothing was compared, or repaired: no applier runs, and no cut holds all that"
                    f" was read: {_short(left)}",
                    file=self._path,
                    hint="start it (spark-repl run, or apply), and ask again beside it; spark-repl"
                    " status says how the last one ended",
                )

        self._wait(missing, "a cut holds", look)

    def _check_error(self, epoch: int) -> None:
        """Raise TargetError if an error has stopped the last applier."""
        status = read_applier_status(self._layout.status) or {}
        applier = status.get("coordinator", {})
        if status.get("epoch") == epoch and (error := applier.get("LAST_ERROR_MESSAGE")):
            hint = applier.get("LAST_ERROR_HINT") or "see spark-repl status"
            raise TargetError(
                "nothing was compared, or repaired: the applier was stopped by an error, and no cut"
                f" holds all that was read: {error}",
                file=self._path,
                hint=f"{hint}; once it runs, ask again",
            )

    def _wait(
        self, missing: Callable[[], GtidSet], what: str, look: Callable[[GtidSet], None]
    ) -> None:
        began = logged_at = time.monotonic()
        while left := missing():
            look(left)
            now = time.monotonic()
            if now - began > self._wait_s:
                raise TargetError(
                    f"nothing was compared: {self._wait_s:.0f} s passed before {what} all that was"
                    f" read: {_short(left)}", file=self._path,
                    hint="is the applier running, and near its source (spark-repl status)?"
                    " --wait SECONDS waits longer",
                )  # fmt: skip
            if now - logged_at >= _LOG_S:
                logged_at = now
                logger.warning("waiting until %s %s, for %.0f s", what, _short(left), now - began)
            time.sleep(_POLL_S)


def _short(gtids: GtidSet) -> str:
    text = str(gtids)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
