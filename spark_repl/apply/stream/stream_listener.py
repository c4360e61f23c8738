"""StreamListener: passes Spark's progress of the stream's batches to the status and metrics."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from ...observe.reports.applier_status import ApplierStatus


class StreamListener(StreamingQueryListener):
    """Receives the events of all streams of the session. ``name``: the name of this applier's
    stream; events of other streams are ignored. Spark keeps the listener longer than the stream
    (``BatchFunction``)."""

    def __init__(self, status: ApplierStatus) -> None:
        self.name = f"spark_repl {uuid.uuid4().hex[:8]}"
        self._status: ApplierStatus | None = status

    def release(self) -> None:
        """Drop the status, which Spark would otherwise keep alive."""
        self._status = None

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress, status = event.progress, self._status
        if status is not None and progress.name == self.name and progress.numInputRows:
            status.streams(
                {
                    "batch": progress.batchId,
                    "rows": progress.numInputRows,
                    "seconds": round(progress.batchDuration / 1000, 3),
                    "at": progress.timestamp,
                }
            )

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass
