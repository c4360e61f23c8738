"""Checks whether a source can be followed: what it logs, which replicas it has, which GTIDs it
still has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import PurgedError, SourceError
from ..gtid import GtidSet
from .dump import LOST_LOGS

if TYPE_CHECKING:
    from ..config import Source
    from .connection import Server

# What the source must be set to for rows to be complete: variable -> (values, what to do).
_SETTINGS = {
    "log_bin": (
        ("ON",),
        "in [mysqld] of the source's my.cnf, add log_bin = binlog and remove skip_log_bin and"
        " disable_log_bin, then restart the source",
    ),
    "binlog_format": (("ROW",), "SET PERSIST binlog_format = 'ROW', then reconnect all clients"),
}
_GTID_MODES = ("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
"""values of gtid_mode, in the order in which a server is switched"""


def check_source(server: Server, source: Source) -> None:
    """Raise one SourceError that names each insufficient setting and its remedy."""
    faults, hints = [], []
    for name, (values, hint) in _SETTINGS.items():
        value = server.variables.get(name)
        if value is not None and value not in values:
            faults.append(f"{name} = {value or 'OFF'}")
            hints.append(hint)
    if not source.auto_position and server.variables.get("binlog_row_metadata") == "MINIMAL":
        faults.append("binlog_row_metadata = MINIMAL without a first copy, which reads the names")
        hints.append("SET PERSIST binlog_row_metadata = 'FULL', or auto_position = true here")
    mode = server.variables.get("gtid_mode", "OFF")
    if source.auto_position and mode not in _GTID_MODES[-2:]:
        faults.append(f"gtid_mode = {mode}")
        hints.append(
            f"{_gtid_steps(mode)}; or source.auto_position = false here, without a first copy"
        )
    if server.server_id == source.server_id:
        faults.append(f"server_id = {server.server_id}, which is ours too")
        hints.append("give source.server_id another value: each server and replica has its own")
    if faults:
        raise SourceError(
            f"the source {server.host} can't be followed: {', '.join(faults)}",
            number=1593 if server.server_id == source.server_id else None,
            hint="; ".join(hints),
        )


def _gtid_steps(mode: str) -> str:
    """Return the statements that switch gtid_mode from ``mode`` to ON."""
    at = _GTID_MODES.index(mode) if mode in _GTID_MODES else 0
    steps = [f"SET PERSIST gtid_mode = {step}" for step in _GTID_MODES[at + 1 :]]
    return "; ".join(["SET PERSIST enforce_gtid_consistency = ON", *steps])


def check_identity(replicas: list[dict[str, Any]], server_id: int, replica_uuid: str) -> None:
    """Raise SourceError if another replica has the receiver's server id."""
    for row in replicas:
        replica = {name.lower(): value for name, value in row.items()}
        other = str(replica.get("replica_uuid", replica.get("slave_uuid", "")))
        if int(replica.get("server_id", 0)) == server_id and other != replica_uuid:
            raise SourceError(
                f"another replica of this source has our server_id {server_id}: {other} on host"
                f" {replica.get('host') or '?'}",
                hint="give source.server_id another value: each server and replica has its own;"
                " if it was an earlier receiver of yours, end its connection on the source, or wait"
                " until SHOW REPLICAS no longer lists it",
            )


def check_same_server(server: Server, known_uuid: str) -> None:
    """Raise SourceError if file and position belong to another server, because both servers may
    have a file of that name. ``known_uuid``: server_uuid of the server that was followed, or ""."""
    if known_uuid and server.uuid and server.uuid != known_uuid:
        raise SourceError(
            f"{server.host} is another server now: its server_uuid is {server.uuid}, and the log"
            f" was received from {known_uuid}. Files and positions differ between servers",
            number=1236,
            hint="point to the server that has that UUID; or set gtid_mode = ON there and"
            " source.auto_position = true here, then spark-repl reset --all, and run copies all"
            " tables. By GTID a receiver follows to another server without a copy",
        )


def check_gtids(server: Server, have: GtidSet, skip: str = "") -> None:
    """Raise PurgedError or SourceError if the source can't continue from ``have``. ``skip``: the
    beginning of a command that leaves out a GTID set."""
    if missing := server.purged.subtract(have):
        raise PurgedError(
            "Cannot replicate because the source purged required binary logs: the GTID set"
            f" {missing} is missing here",
            number=1236,
            hint=f"{LOST_LOGS}; or, if no table needs {missing}, leave it out: {skip} {missing}"
            if skip
            else LOST_LOGS,
        )
    own = GtidSet.parse(f"{server.uuid}:1-9223372036854775806") if server.uuid else GtidSet()
    if extra := have.intersect(own).subtract(server.executed):
        raise SourceError(
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID: the source"
            f" {server.host} lacks {extra} of its own. It was RESET, restored from a backup, or its"
            " last binary log was lost in a crash",
            number=1236,
            hint="point to a server that has them, or begin with a new target and relay folder:"
            " GTIDs that are given out again would name other rows in the cuts that are there",
        )
