"""BatchFunction: what Spark calls with each batch of the stream.

The JVM's side of a callback is let go when the JVM collects it, in a large heap after hours or
never: until then Py4J keeps Python's side, and with it all that hangs on it. So this one lets go of
the stream when that has ended, and the errors that Spark keeps of it have no frames of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import StoppedBetweenGroups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchFunction:
    """For ``foreachBatch``: calls ``apply`` until it is released."""

    def __init__(self, apply: Callable[[DataFrame, int], None]) -> None:
        self._apply: Callable[[DataFrame, int], None] | None = apply

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Raises what ``apply`` does as text alone, and StoppedBetweenGroups as it is."""
        failure = self._failure(frame, number)
        if failure is not None:
            raise failure

    def release(self) -> None:
        """Whoever calls it from now on is told that the stream has stopped."""
        self._apply = None

    def _failure(self, frame: DataFrame, number: int) -> Exception | None:
        apply = self._apply
        if apply is None:
            return StoppedBetweenGroups()
        try:
            apply(frame, number)
        except StoppedBetweenGroups:
            return StoppedBetweenGroups()
        except Exception as error:  # noqa: BLE001 the stream itself keeps it
            return RuntimeError(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
        return None
