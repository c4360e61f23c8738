"""A MySQL replica that writes its relay log, and a wire that holds the source's bytes back, so that
the replica can be stopped inside of a transaction."""

from __future__ import annotations

import shutil
import socket
from contextlib import suppress
from pathlib import Path
from threading import Condition
from typing import Any

from tests.support.wait_until import wait_until

from .server import Proxy, Server, copy_of

_WAIT_S = 180.0


class Dam(Proxy):
    """Forwards what the source sends up to a number of bytes, then holds the rest back."""

    def __init__(self, target: int) -> None:
        self._left, self._held, self._changed = 1 << 62, False, Condition()
        super().__init__(target)

    def let(self, count: int) -> None:
        """So many bytes more, of all connections together."""
        with self._changed:
            self._left, self._held = count, False
            self._changed.notify_all()

    def wait_until_held(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._held, _WAIT_S), "nothing is held back"

    def _pump(self, source: socket.socket, sink: socket.socket, left: int) -> None:
        if left == 1 << 62 and source.getpeername()[1] != self.target:
            super()._pump(source, sink, left)  # what the replica says
            return
        with suppress(OSError):
            while data := source.recv(65536):
                while data:
                    with self._changed:
                        if not self._left:
                            self._held = True
                            self._changed.notify_all()
                        self._changed.wait_for(lambda: self._left > 0)
                        part, data = data[: self._left], data[self._left :]
                        self._left -= len(part)
                    sink.sendall(part)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class RelayingReplica:
    """A replica of a source that receives only: its relay log keeps all that it is sent."""

    def __init__(self, template: Server, source: Server, data: Path, *options: str) -> None:
        self.source, self.dam = source, Dam(source.port)
        self.server = copy_of(
            template, data, 900, "--relay-log=relay", "--relay-log-index=relay.index",
            "--relay-log-purge=OFF", "--skip-replica-start", "--sync-relay-log=0", *options,
        ).start()  # fmt: skip

    def __enter__(self) -> RelayingReplica:
        return self

    def __exit__(self, *args: object) -> None:
        self.server.stop()
        self.dam.__exit__()
        self.dam.let(1 << 62)

    def follow(self, *, auto_position: bool) -> None:
        place = ", SOURCE_LOG_FILE = 'binlog.000001', SOURCE_LOG_POS = 4"
        self.server.query(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_USER = 'repl',"
            f" SOURCE_PASSWORD = 'repl', SOURCE_PORT = {self.dam.port}, SOURCE_CONNECT_RETRY = 1,"
            f" GET_SOURCE_PUBLIC_KEY = 1, SOURCE_AUTO_POSITION = {int(auto_position)}"
            + ("" if auto_position else place)
        )

    def query(self, *statements: str) -> Any:
        return self.server.query(*statements)

    def received(self) -> tuple[str, int]:
        """File and position of the source's log up to which events were received."""
        connection = self.server.connect()
        with connection, connection.cursor() as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            names = [column[0] for column in cursor.description]
            row = dict(zip(names, cursor.fetchone(), strict=True))
        return str(row["Source_Log_File"]), int(row["Read_Source_Log_Pos"])

    def wait_for_position(self, least: int) -> None:
        """Until so much of the source's present file was received."""
        wait_until(lambda: self.received()[1] >= least, _WAIT_S, each_s=0.05)

    def wait_for_all(self) -> None:
        """Until everything that the source has logged was received."""
        want = tuple(self.source.query("SHOW BINARY LOG STATUS")[0][:2])
        wait_until(lambda: self.received() == want, _WAIT_S, each_s=0.05)

    def folder(self, to: Path) -> Path:
        """A copy of the relay log, as it lies there now."""
        to.mkdir(parents=True)
        for path in self.server.data.glob("relay.*"):
            if path.suffix != ".info":
                shutil.copy(path, to)
        return to
