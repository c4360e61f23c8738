"""Receiver: follows a source and writes our relay log; one process, one connection at a time.

It never waits for the applier, except when the disk is full. What it has published survives any
failure of it. After a broken connection it continues at the end of the last whole transaction, and
drops and fetches again what follows.

``service.receiving`` runs it in a process of its own. A lost connection is retried here; raises
SourceError if a retry would not help. Design: docs/design/relay-log.md.
"""

from __future__ import annotations

import logging
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import (
    LogError,
    PurgedError,
    SecretError,
    SourceError,
    SourceLostError,
    SparkReplError,
)
from ..gtid import GtidSet
from ..position import RelayPosition
from ..source.account import addresses
from ..source.connection import DumpConnection, Server
from ..source.dump import acknowledgement, is_temporary
from ..source.source_check import (
    check_gtids,
    check_identity,
    check_same_server,
    check_source,
)
from .identity import identity
from .intake import Intake
from .report import Report, read_report
from .writer import Limits, RelayWriter

if TYPE_CHECKING:
    from ..config import Config, Source
    from ..relay.published_end import End
    from .archiver import Archiver

logger = logging.getLogger(__name__)

# While more is waiting already, ends are published in steps of at most this.
_BURST_BYTES, _BURST_S = 16 << 20, 0.02
_TICK_S = 0.5
_ARCHIVE_POLL_S = 0.005
"""between looks at the archive while acknowledgements wait for it"""
_FIRST_WAIT_S = 0.05
_FULL_CHECK_BYTES = 1 << 20
_LOOKS_IN_SPACE = 16
_ER_SPECIFIC_ACCESS_DENIED = 1227


class Receiver:
    """The receiver of one source. It runs until ``stop()``, which any thread may call, or until the
    source refuses.

    - ``start``: the GTID set after which a new relay log begins (what the target has).
    - ``place``: that start as a file and position of the source, for a receiver without
      auto_position.
    - ``keep_on``: called now and then; the receiver stops when it returns False.
    - ``on_published``: called with each end that is published.
    - ``skipped``: returns what ``spark-repl skip`` has recorded, which counts as received if the
      source has purged it.
    - ``archiver``: runs while the receiver has the folder; None: the log has no archive.
    """

    def __init__(
        self,
        config: Config,
        start: GtidSet | None = None,
        place: tuple[str, int] | None = None,
        *,
        keep_on: Callable[[], bool] = lambda: True,
        on_published: Callable[[End], None] = lambda _: None,
        skipped: Callable[[], GtidSet] = GtidSet,
        archiver: Archiver | None = None,
    ) -> None:
        self.config, self.source, self.start = config, config.source, start
        self.place = place or (config.source.log_file, config.source.log_position)
        self.folder = Path(config.relay.path)
        self.uuid = ""  # read, or made, when the folder is ours
        limits = Limits(config.relay.segment_size_bytes, config.relay.space_limit_bytes)
        self.writer = RelayWriter(self.folder, self.source.server_id, limits, on_published)
        self.report = Report(self.folder, config.channel)
        self._archiver = archiver
        self._unacknowledged = deque[tuple[RelayPosition, bytes]]()
        self._keep_on, self._skipped = keep_on, skipped
        self._stop = threading.Event()
        self._oldest = 0.0
        self._burst_from = self._since_check = 0
        self._full = False

    def stop(self) -> None:
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Wait, and return whether the receiver was stopped meanwhile."""
        return self._stop.wait(seconds) or self.stopping

    @property
    def stopping(self) -> bool:
        return self._stop.is_set() or not self._keep_on()

    def run(self) -> None:
        """Receive until stopped.

        Raise SourceError if the source refuses or can't be reached any more, SecretError if the
        account's password can't be read, LogError for the relay log.
        """
        with self.writer, self._archiver or nullcontext() as self.report.archiver:
            self.uuid = identity(self.folder)
            self.report.source_uuid = (read_report(self.folder) or {}).get("SOURCE_UUID", "")
            self._prepare()
            try:
                self._follow()
            except (SourceError, SecretError, LogError) as error:
                self.report.failed(error)
                raise
            except OSError as error:
                failure = LogError(
                    f"can't write the relay log: {error.strerror or error}",
                    file=str(error.filename or self.folder),
                    hint="make room, or give it the right to write, then start the receiver again",
                )
                self.report.failed(failure)
                raise failure from error
            finally:
                self.report.write("OFF", self.writer)

    def _prepare(self) -> None:
        """Begin a new log if there is none, or if its published part was damaged."""
        writer = self.writer
        if writer.log_id and writer.lost is None:
            return
        if writer.log_id:
            logger.warning("the relay log lost its published end: a new one is begun")
        writer.renew(self.start or GtidSet())
        if not self.source.auto_position:
            writer.begin_source(*self.place)

    def _follow(self) -> None:
        sources = addresses(self.source)
        address = failures = 0
        refused = set[int]()
        while not self.stopping:
            before = self.writer.transactions
            try:
                self._session(sources[address])
            except (SourceError, SecretError) as error:
                last: SparkReplError = error
                if not self._may_pass(error):
                    refused.add(address)
                    if len(refused) == len(sources):  # all refuse: no attempt can succeed
                        raise
            else:
                return
            finally:
                self._publish_whole()
            if self.writer.transactions > before:
                failures = 0
                refused.clear()
            failures += 1
            if failures > self.source.connect_retry_count:
                raise SourceError(
                    f"gave up after {failures - 1} attempts: {last.message}", number=last.number,
                    hint=last.hint,
                )  # fmt: skip
            wait_s = self._wait_s(failures, len(sources))
            logger.warning(
                "source %s:%d: %s; next attempt in %g s",
                sources[address].host, sources[address].port, last, wait_s,
            )  # fmt: skip
            self.report.failed(last)
            if failures > 1 or address in refused:
                address = (address + 1) % len(sources)
            self._pause(wait_s)

    def _may_pass(self, error: SparkReplError) -> bool:
        """Return whether another attempt may succeed. An account that has logged in before, for
        this relay log, may be refused while its password or privileges are replaced."""
        reconnect = bool(self.writer.log_id)
        lacks_privilege = error.number == _ER_SPECIFIC_ACCESS_DENIED
        return is_temporary(error, reconnect=reconnect) or (reconnect and lacks_privilege)

    def _wait_s(self, failures: int, places: int) -> float:
        """Return the seconds before the next attempt: few in the first round of addresses, then
        twice as many after each failed round."""
        rounds = (failures - 1) // places
        wait_s = self.source.connect_retry_s * 2.0 ** min(rounds - 1, 30)
        return min(wait_s, self.source.connect_retry_max_s) if rounds else _FIRST_WAIT_S

    def _pause(self, wait_s: float) -> None:
        until = time.monotonic() + wait_s
        self.report.next_attempt = time.time() + wait_s
        self.report.write("CONNECTING", self.writer)
        while not self.stopping and (left_s := until - time.monotonic()) > 0:
            self._stop.wait(min(left_s, _TICK_S))

    def _publish_whole(self) -> None:
        """Leave the log with whole transactions only, all published, after a connection has
        ended."""
        self.writer.drop_open()
        if self.writer.log_id and self.writer.lost is None:
            self.writer.sync()

    def _session(self, source: Source) -> None:
        """Run one connection until it is lost (SourceLostError), refused, or stopped."""
        self._await_archive()
        if self.stopping:
            return
        connection = DumpConnection(source)
        try:
            server = connection.server()
            received = self._check(connection, server)
            self.report.connected(server)
            writer = self.writer
            self._unacknowledged.clear()
            connection.start(
                self.uuid,
                received if source.auto_position else (writer.source_file, writer.source_position),
            )
            intake = Intake(writer, semi_sync=source.semi_sync, by_file=not source.auto_position)
            if self.report.next_attempt:  # the lost connection was logged
                logger.warning("source %s:%d: connected again", source.host, source.port)
                self.report.next_attempt = 0.0
            self.report.write("ON", writer)
            position = received if source.auto_position else writer.source_place
            logger.info("source %s: asked for what follows %s", server.host, position)
            self._receive(connection, intake)
            connection.end_dump()
        finally:
            connection.close()

    def _await_archive(self) -> None:
        """With ``relay.archive_before_ack``, wait until the archive has what was received: for a
        semi-synchronous source the request for a dump acknowledges what precedes it."""
        if not (self.source.semi_sync and self._archives_first and self.writer.log_id):
            return
        position, reported = RelayPosition(self.writer.number, self.writer.whole), -_TICK_S
        while not self.stopping and not self._has_archived(position):
            assert self._archiver is not None
            self._archiver.hurry(position)
            if time.monotonic() - reported >= _TICK_S:
                reported = time.monotonic()
                self.report.write("CONNECTING", self.writer, "waiting for relay.archive")
            self._stop.wait(_ARCHIVE_POLL_S)

    @property
    def _archives_first(self) -> bool:
        return self._archiver is not None and self.config.relay.archive_before_ack

    def _check(self, connection: DumpConnection, server: Server) -> GtidSet:
        """Return what counts as received. Raise SourceError, SourceLostError."""
        check_source(server, self.source)
        check_identity(connection.replicas(), self.source.server_id, self.uuid)
        accounted = received = self.writer.received
        if not self.source.auto_position:
            check_same_server(server, self.report.source_uuid)
            return received
        try:
            check_gtids(server, received)
        except PurgedError:
            accounted = received.union(self._skipped().intersect(server.purged))
            check_gtids(server, accounted, self._skip_command)
        if lacking := received.subtract(server.executed):
            self._report_lacking(server, lacking)
        return accounted

    def _report_lacking(self, server: Server, lacking: GtidSet) -> None:
        """Raise SourceLostError for a source of several: another one may have them. Only warn of a
        single source: MySQL also follows a source that lacks transactions of other servers."""
        what = (
            f"{server.host} lacks {lacking}, which was received already: it is behind, or has gone"
            " another way"
        )
        if self.source.hosts:
            hint = "let it catch up; if it never will, remove it from source.hosts"
            raise SourceLostError(what, hint=hint)
        logger.warning("%s. If it has lost these changes, the tables still have them: %s", what,
                       "spark-repl verify shows which rows differ")  # fmt: skip

    @property
    def _skip_command(self) -> str:
        channel, target = self.config.channel, shlex.quote(self.config.target.path)
        return f"spark-repl skip --target {target} --channel {channel} --gtid"

    def _receive(self, connection: DumpConnection, intake: Intake) -> None:
        last_byte = last_tick = self._oldest = time.monotonic()
        self._burst_from, self._since_check, is_waiting = 0, -_FULL_CHECK_BYTES, False
        while not self.stopping:
            if self._is_full(intake):
                if not is_waiting:
                    logger.warning("relay.space_limit_bytes is reached: waiting for a purge")
                is_waiting = True
                self._acknowledge(connection, intake)
                self._acknowledge_archived(connection)
                self.report.write("ON", self.writer, "waiting for space")
                self._stop.wait(0.1)
                last_byte = time.monotonic()  # nothing is read, so the source is not silent
                continue
            is_waiting = False
            self._acknowledge_archived(connection)
            count = connection.read_into(intake.splitter.space(), self._patience())
            now = time.monotonic()
            if count:
                last_byte = now
                intake.splitter.received(count)
                intake.write_events()
            elif now - last_byte > self.source.net_timeout_s:
                raise SourceLostError(
                    f"no event and no heartbeat for {self.source.net_timeout_s} s", number=2013
                )
            self._sync_when_due(connection, intake)
            if now - last_tick >= _TICK_S:
                last_tick = now
                self.report.heartbeats(intake)
                self.report.write("ON", self.writer)
                if self._archiver is not None and self._archiver.is_fragmented(self.writer.number):
                    self.writer.ends_file = True

    def _patience(self) -> float:
        """Return the seconds to wait for bytes: until the next publishing is due, at most a
        tick."""
        if self._unacknowledged:
            return _ARCHIVE_POLL_S
        if not self._pending():
            return _TICK_S
        due = self._oldest + self.config.relay.sync_interval_ms / 1000 - time.monotonic()
        return min(_TICK_S, max(0.0005, due))

    def _pending(self) -> int:
        return self.writer.transactions - self.writer.published_transactions

    def _sync_when_due(self, connection: DumpConnection, intake: Intake) -> None:
        pending, now = self._pending(), time.monotonic()
        if not pending and not intake.ack:  # after a rotation only the acknowledgement is due
            self._oldest = now
            if intake.bytes - self._burst_from >= _BURST_BYTES:  # inside of a large transaction
                self._burst_from = intake.bytes
                self.writer.sync_beside()
            return
        relay = self.config.relay
        every = relay.sync_every_transactions
        waited = now - self._oldest
        due = (every and pending >= every) or waited * 1000 >= relay.sync_interval_ms
        if not (due or intake.ack):
            return
        if connection.has_more() and not intake.ack:
            # More has arrived already: one fsync for a larger part keeps up with the source.
            small = intake.bytes - self._burst_from < _BURST_BYTES and waited < _BURST_S
            if small:
                return
            self.writer.sync_beside()
        else:
            self.writer.sync()
        self._oldest, self._burst_from = now, intake.bytes
        self._acknowledge(connection, intake)

    def _acknowledge(self, connection: DumpConnection, intake: Intake) -> None:
        """Acknowledge to a waiting source that its transaction is whole and published; with
        ``relay.archive_before_ack`` only after it is archived."""
        if not intake.ack:
            return
        answer = acknowledgement(self.writer.source_file, self.writer.source_position)
        if self._archiver is not None and self._archives_first:
            position = RelayPosition(self.writer.number, self.writer.whole)
            self._unacknowledged.append((position, answer))
            self._archiver.hurry(position)
        else:
            connection.send(answer)
        intake.acknowledged()

    def _acknowledge_archived(self, connection: DumpConnection) -> None:
        """Acknowledge the last transaction that was archived since the last call."""
        answer = b""
        while self._unacknowledged and self._has_archived(self._unacknowledged[0][0]):
            answer = self._unacknowledged.popleft()[1]
        if answer:
            connection.send(answer)

    def _has_archived(self, position: RelayPosition) -> bool:
        return self._archiver is not None and self._archiver.has(self.writer.log_id, position)

    def _is_full(self, intake: Intake) -> bool:
        """Return whether the log's space limit is reached; checked only after enough was
        written."""
        limit = self.config.relay.space_limit_bytes
        enough = min(_FULL_CHECK_BYTES, limit // _LOOKS_IN_SPACE)
        if not limit or (intake.bytes - self._since_check < enough and not self._full):
            return False
        self._since_check = intake.bytes
        self._full = self.writer.is_full()
        if self._full and self._pending():
            self.writer.sync()
        return self._full
