"""The control table, ``<target>/_repl/control``: owner, histories, tables and cuts.

A small Delta table of its own, written through delta-rs: a commit takes 3 ms where a Spark job
takes 200, and the status needs no Spark at all. Every commit carries the ``txn`` of the owner epoch
and is made on the version that we saw last, so that Delta's conflict check is the fence: an applier
that slept through a takeover can't publish anything.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from ..errors import FencedError, HistoryError, TargetError
from ..gtid import GtidSet
from .layout import Layout

_OWNER_APP = "spark_repl:owner"
_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),  # owner, history, table, cut, skip, xa
        ("epoch", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("position", pa.int64()),
        ("gtid_executed", pa.string()),
        ("detail", pa.string()),  # JSON
    ]
)
_CHECKPOINT_EVERY = 64
_HINT = "give the folder that apply or run was given as its target"


@dataclass(frozen=True)
class Owner:
    """Who applies: ``started`` is the process's start in clock ticks, so no pid is reused."""

    host: str
    pid: int
    started: int
    since: str
    released: bool = False

    @classmethod
    def me(cls) -> Owner:
        pid = os.getpid()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), pid, _started(pid), since)

    @property
    def is_dead(self) -> bool:
        """Released the target, or known to be dead: only this host's processes can be looked at."""
        if self.released:
            return True
        return self.host == socket.gethostname() and _started(self.pid) != self.started


def _started(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return -1
        try:  # no /proc on this system: all that can be known is whether there is such a process
            os.kill(pid, 0)
        except ProcessLookupError:
            return -1
        return 0
    return -1 if fields[0] == "Z" else int(fields[19])


@dataclass(frozen=True)
class TableVersion:
    """A table at a cut: ``path`` is relative to the target, ``position`` its own, packed."""

    path: str
    version: int
    metadata_id: str
    position: int


@dataclass(frozen=True)
class Cut:
    """All tables at one point of the source's history: together one committed state."""

    position: int
    gtid_executed: str
    log_id: str
    source: Mapping[str, Any]
    tables: Mapping[str, TableVersion]
    at: datetime | None = None
    counts: Mapping[str, int] | None = None
    prepared: tuple[Mapping[str, Any], ...] = ()  # XA branches (apply/xa), as JSON has them

    def to_detail(self) -> str:
        tables = {name: asdict(version) for name, version in self.tables.items()}
        counts = dict(self.counts or {})
        detail = {"log_id": self.log_id, "source": dict(self.source), "tables": tables}
        return json.dumps({**detail, "counts": counts, "prepared": list(self.prepared)})

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Cut:
        detail = json.loads(row["detail"])
        tables = {name: TableVersion(**found) for name, found in detail["tables"].items()}
        return cls(
            row["position"],
            row["gtid_executed"],
            detail["log_id"],
            detail["source"],
            tables,
            row["at"],
            detail["counts"],
            tuple(detail.get("prepared", ())),
        )


class Control:
    """Reads the control table; writes it after ``claim``. Safe to call from several threads."""

    def __init__(self, path: str, channel: str = "default") -> None:
        self.path, self.channel, self.epoch = path, channel, 0
        self._handle: DeltaTable | None = None
        self._read: tuple[int, list[dict[str, Any]]] = (-1, [])  # version, all its rows
        self._lock = threading.Lock()

    @classmethod
    def existing(cls, target: str) -> Control:
        """Of a target that an applier has worked on. Raises TargetError for any other folder."""
        control = cls(Layout(target).control)
        if not control.exists():
            raise TargetError(
                "nothing has been applied to this target yet", file=target, hint=_HINT
            )
        return control

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self.path)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """All rows of one kind, oldest first. Empty when there is no control table yet."""
        try:
            table = DeltaTable(self.path)
        except TableNotFoundError:
            return []
        version, rows = self._read
        if version != table.version():  # a start asks for every kind, and each row is a file
            rows = table.to_pyarrow_table().to_pylist()
            rows.sort(key=lambda row: (row["at"], row["position"]))
            self._read = table.version(), rows
        return [row for row in rows if row["kind"] == kind]

    def owner(self) -> tuple[int, Owner] | None:
        rows = self.rows("owner")
        if not rows:
            return None
        newest = max(rows, key=lambda row: (row["epoch"], row["at"]))
        return newest["epoch"], Owner(**json.loads(newest["detail"]))

    def cuts(self) -> list[Cut]:
        """All cuts in the order of the log; of two at one position (an XA branch ended by hand) the
        later one last."""
        found = [Cut.of(row) for row in self.rows("cut")]
        return sorted(found, key=lambda cut: cut.position)

    def skipped(self) -> GtidSet:
        """The transactions that somebody told the applier to leave out."""
        found = GtidSet()
        for row in self.rows("skip"):
            found = found.union(GtidSet.parse(row["gtid_executed"]))
        return found

    def claim(self, *, take_over: bool = False) -> int:
        """Makes this process the owner; returns the new epoch.

        Raises FencedError, naming the first, when another one is or may be alive.
        """
        os.makedirs(self.path, exist_ok=True)
        if not self.exists():
            try:
                write_deltalake(self.path, _SCHEMA.empty_table(), mode="error")
            except Exception as error:
                if not self.exists():
                    raise HistoryError(f"can't create the control table: {error}") from error
        self._handle = DeltaTable(self.path)
        held = self.owner()
        if held is not None and not (take_over or held[1].is_dead):
            first = held[1]
            raise FencedError(
                f"another applier owns this target: pid {first.pid} on host {first.host},"
                f" since {first.since}",
                file=self.path,
                hint="stop it first; if that host is gone for good, use --take-over",
            )
        self.epoch = (held[0] if held else 0) + 1
        self.write("owner", detail=json.dumps(asdict(Owner.me())))
        return self.epoch

    def release(self) -> None:
        """Lets the next one in, also in this process; nothing can be written any more."""
        if not self.epoch:  # never claimed, or fenced off when it tried
            return
        with contextlib.suppress(FencedError):  # taken over meanwhile: nothing to release
            self.write("owner", detail=json.dumps(asdict(replace(Owner.me(), released=True))))
        self._handle = None

    def write(
        self, kind: str, *, position: int = 0, gtid_executed: str = "", detail: str = "{}"
    ) -> None:
        """Appends one row as the owner. Raises FencedError when another one took over."""
        with self._lock:
            self._read = (-1, [])
            if self._handle is None:
                raise FencedError("this process does not own the target", file=self.path)
            row = {
                "kind": kind,
                "epoch": self.epoch,
                "at": datetime.now(UTC),
                "position": position,
                "gtid_executed": gtid_executed,
                "detail": detail,
            }
            fence = CommitProperties(
                app_transactions=[Transaction(_OWNER_APP, self.epoch, int(time.time() * 1000))],
                max_commit_retries=0,
            )
            try:
                write_deltalake(
                    self._handle,
                    pa.Table.from_pylist([row], schema=_SCHEMA),
                    mode="append",
                    commit_properties=fence,
                )
            except CommitFailedError as error:
                raise FencedError(
                    "another applier has taken this target over",
                    file=self.path,
                    hint="only one applier may work on a channel",
                ) from error
            if self._handle.version() % _CHECKPOINT_EVERY == 0:
                self._handle.create_checkpoint()

    def decide(self, kind: str, detail: Mapping[str, Any], **place: Any) -> None:
        """Records what somebody decided by hand, and who it was: as the target's owner, so its
        applier must be stopped. Raises FencedError when it is not."""
        by = {"user": getpass.getuser(), "host": socket.gethostname()}
        self.claim()
        try:
            self.write(kind, detail=json.dumps({**detail, **by}), **place)
        finally:
            self.release()

    def publish(self, cut: Cut) -> None:
        """Publishes a cut: after the last table of its group has landed."""
        self.write(
            "cut", position=cut.position, gtid_executed=cut.gtid_executed, detail=cut.to_detail()
        )
