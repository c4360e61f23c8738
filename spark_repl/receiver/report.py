"""Report: the receiver's status, in a file beside the relay log. Names are those of
performance_schema.replication_connection_status."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import formats
from ..errors import FormatError, SparkReplError
from ..gtid import GtidSet
from ..position import RelayPosition
from ..relay.published_end import read_end
from ..runtime.private_files import private_opener

if TYPE_CHECKING:
    from ..source.connection import Server
    from .archiver import Archiver
    from .intake import Intake
    from .writer import RelayWriter

NAME = "receiver.json"
_FORMAT = 1


@dataclass
class Report:
    folder: Path
    channel: str
    server: Server | None = None
    source_uuid: str = ""
    """server_uuid of the source that answered last, also before this process"""
    received_heartbeats: int = 0
    last_heartbeat: float = 0.0
    next_attempt: float = 0.0  # to connect; 0 once there is a connection
    archiver: Archiver | None = None
    error: dict[str, Any] = field(default_factory=lambda: _no_error())
    _counted: int = 0

    def connected(self, server: Server) -> None:
        """Record that the source has answered. As on a replica of MySQL, this clears the previous
        error."""
        self.server, self._counted, self.error = server, 0, _no_error()
        self.source_uuid = server.uuid

    def heartbeats(self, intake: Intake) -> None:
        self.received_heartbeats += intake.heartbeats - self._counted
        self._counted = intake.heartbeats
        self.last_heartbeat = max(self.last_heartbeat, intake.last_heartbeat)

    def failed(self, error: SparkReplError) -> None:
        self.error = _error_columns(error, type(error).__name__, datetime.now(UTC).timestamp())

    def write(self, state: str, writer: RelayWriter, doing: str = "") -> None:
        """Write the report if possible: a failure must not stop the receiver.

        ``state``: ON, CONNECTING or OFF, as in SERVICE_STATE.
        """
        columns = {
            "CHANNEL_NAME": self.channel,
            "SOURCE_UUID": self.source_uuid,
            "SOURCE_HOST": self.server.host if self.server else "",
            "THREAD_ID": os.getpid() if state != "OFF" else None,
            "SERVICE_STATE": state,
            "SERVICE_DOING": doing,
            "COUNT_RECEIVED_HEARTBEATS": self.received_heartbeats,
            "LAST_HEARTBEAT_TIMESTAMP": _text(self.last_heartbeat),
            "RECEIVED_TRANSACTION_SET": str(writer.received),
            **self.error,
            "NEXT_ATTEMPT": _text(self.next_attempt if state == "CONNECTING" else 0.0),
            "SOURCE_LOG_FILE": writer.source_file,
            "READ_SOURCE_LOG_POS": writer.source_position,
            "RELAY_LOG_ID": writer.log_id,
            "RELAY_LOG_FILE": writer.number,
            "RELAY_LOG_POS": writer.whole,
            "RELAY_LOG_SPACE": writer.total_bytes(),
            **(self.archiver.columns if self.archiver else {}),
        }
        text = formats.stamp(json.dumps(columns), _FORMAT)
        part, path = self.folder / f"{NAME}.{os.getpid()}.part", self.folder / NAME
        try:
            with open(part, "w", encoding="utf-8", opener=private_opener) as file:
                file.write(text)
            part.replace(path)
        except OSError:  # a full disk: overwrite the previous report, which has its space
            with suppress(OSError), open(path, "r+", encoding="utf-8") as file:
                file.write(text)
                file.truncate()


def _no_error() -> dict[str, Any]:
    return _error_columns(SparkReplError(""), "", 0.0)


def _error_columns(error: SparkReplError, kind: str, at: float) -> dict[str, Any]:
    return {
        "LAST_ERROR_NUMBER": error.number,
        "LAST_ERROR_MESSAGE": str(error),
        "LAST_ERROR_KIND": kind,
        "LAST_ERROR_HINT": error.hint or "",
        "LAST_ERROR_TIMESTAMP": _text(at),
    }


def read_report(folder: str | Path) -> dict[str, Any] | None:
    """Return the receiver's last report. Return None if no receiver ever ran, or for a report of a
    later version. If the process is dead, its state is OFF."""
    path = Path(folder) / NAME
    try:
        text = formats.unstamp(path.read_text("utf-8"), _FORMAT, "the receiver's report", path)
        columns: dict[str, Any] = json.loads(text)
    except (OSError, ValueError, FormatError):
        return None
    pid = columns["THREAD_ID"]
    if pid is not None and not _alive(pid):
        columns |= {"THREAD_ID": None, "SERVICE_STATE": "OFF"}
    return columns


def has_received(folder: str | Path, gtids: GtidSet) -> bool:
    """Return whether the relay log in ``folder`` has published these transactions. Raise LogError
    if the record of its end is damaged."""
    report = read_report(folder)
    if report is None:
        return False
    whole = RelayPosition(report["RELAY_LOG_FILE"], report["RELAY_LOG_POS"])
    end = read_end(folder)  # read after the report, which is ahead only briefly
    received = GtidSet.parse(report["RECEIVED_TRANSACTION_SET"])
    return end is not None and end.position >= whole and gtids.issubset(received)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds") if at else ""
