"""Throw-away MySQL servers, a load of several clients, and a proxy that cuts the wire."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pymysql

from tests.support.wait_until import wait_until

_START_S = 180
_NO_SUCH_THREAD = 1094
PLANTED = "planted-hunter2"
"""the password of the account ``planted``, which what is tested uses: nothing may show it"""
_ACCOUNTS = f"""
CREATE USER 'app'@'%' IDENTIFIED BY 'app';
GRANT ALL ON *.* TO 'app'@'%';
CREATE USER 'repl'@'%' IDENTIFIED BY 'repl';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, LOCK TABLES, XA_RECOVER_ADMIN ON *.*
  TO 'repl'@'%';
CREATE USER 'planted'@'%' IDENTIFIED BY '{PLANTED}';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, LOCK TABLES, XA_RECOVER_ADMIN ON *.*
  TO 'planted'@'%';
CREATE USER 'poor'@'%' IDENTIFIED BY 'poor';
CREATE USER 'blind'@'%' IDENTIFIED BY 'blind';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'blind'@'%';
CREATE USER 'reader'@'%' IDENTIFIED BY 'reader';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'reader'@'%';
"""


_REDO = "--innodb-redo-log-capacity=16M"  # it lies there in full size, and each server has a copy

# Below the ports that Linux gives to outgoing connections: a server that is killed finds its
# port free again, however many connections were made meanwhile.
_PORTS = range(16_000, 32_000)


def free_port() -> int:
    while True:
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", random.SystemRandom().choice(_PORTS)))
            return int(found.getsockname()[1])


class Server:
    """One mysqld on 127.0.0.1; binary log on, ROW, FULL, GTIDs."""

    def __init__(self, mysql: Path, data: Path, server_id: int, *options: str) -> None:
        self.mysql, self.data, self.server_id, self.options = mysql, data, server_id, options
        self.port = free_port()
        # A path of a Unix socket has 107 bytes at most.
        self.socket = Path(tempfile.gettempdir()) / f"mysqld-{self.port}.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _basics(self) -> list[str]:
        usr = self.mysql / "root" / "usr"
        user = ["--user=root"] if os.geteuid() == 0 else []
        return [
            str(self.mysql / "bin" / "mysqld"), "--no-defaults", f"--basedir={usr}",
            f"--datadir={self.data}", f"--plugin-dir={usr / 'lib/mysql/plugin'}",
            f"--lc-messages-dir={usr / 'share/mysql'}",
            f"--character-sets-dir={usr / 'share/mysql/charsets'}", *user,
        ]  # fmt: skip

    def initialise(self) -> None:
        self.data.mkdir(parents=True)
        sql = self.data.with_suffix(".sql")
        sql.write_text(_ACCOUNTS)
        command = [
            *self._basics, "--initialize-insecure", f"--init-file={sql}", _REDO, *self.options
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)

    def start(self) -> Server:
        command = [
            *self._basics, f"--port={self.port}", "--bind-address=127.0.0.1", "--mysqlx=OFF",
            f"--socket={self.socket}",
            f"--server-id={self.server_id}", "--log-bin=binlog", "--binlog-format=ROW",
            "--binlog-row-metadata=FULL", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
            "--innodb-buffer-pool-size=64M", _REDO,
            "--default-time-zone=+00:00", f"--log-error={self.data / 'error.log'}",
            f"--pid-file={self.data / 'pid'}", "--skip-name-resolve", "--secure-file-priv=",
            *self.options,
        ]  # fmt: skip
        self._unlock()
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            with suppress(pymysql.err.MySQLError):
                self.query("SELECT 1")
                return self
            assert self._process.poll() is None, (self.data / "error.log").read_text()[-2000:]
            time.sleep(0.05)  # between two attempts to connect
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
        self._unlock()

    def _unlock(self) -> None:
        """mysqld refuses to start where a killed server's lock names a pid that lives again."""
        for left in (self.socket, Path(f"{self.socket}.lock")):
            left.unlink(missing_ok=True)

    stop = kill

    def connect(self, user: str = "app", **options: Any) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=user, autocommit=True,
            password=PLANTED if user == "planted" else user,
            connect_timeout=60, **options,
        )  # fmt: skip

    def query(self, *statements: str) -> Any:
        """The rows of the last statement."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchall()
        finally:
            connection.close()

    def cut_off(self, user: str) -> None:
        """End the connections of an account. One of them may end by itself meanwhile."""
        of_user = f"SELECT id FROM information_schema.processlist WHERE user = '{user}'"
        for (thread,) in self.query(of_user):
            try:
                self.query(f"KILL {thread}")
            except pymysql.err.MySQLError as error:
                if error.args[0] != _NO_SUCH_THREAD:
                    raise

    @property
    def executed(self) -> str:
        return str(self.query("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")


def copy_of(template: Server, data: Path, server_id: int, *options: str) -> Server:
    """A fresh server without initialising again."""
    shutil.copytree(template.data, data)
    (data / "auto.cnf").unlink(missing_ok=True)
    return Server(template.mysql, data, server_id, *options)


class Clients:
    """Threads that each run ``_client`` until the block ends; the tables are made before."""

    def __init__(self, server: Server, clients: int = 4, seed: int = 1) -> None:
        self.server, self.transactions = server, 0
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._client, args=(random.Random(seed * 100 + i), i))
            for i in range(clients)
        ]

    def __enter__(self) -> Self:
        self._make_tables()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, transactions: int) -> None:
        """Return after the clients have committed so many more transactions."""
        before = self.transactions
        wait_until(lambda: self.transactions >= before + transactions, _START_S)

    def _make_tables(self) -> None:
        raise NotImplementedError

    def _client(self, rng: random.Random, number: int) -> None:
        raise NotImplementedError


class Load(Clients):
    """Clients that change rows of t.a (keyed) until ``stop``; errors of a server that is being
    killed are part of the game. They rest ``pause_s`` after each transaction: as fast as they can
    they take all cores from what is tested."""

    def __init__(
        self, server: Server, clients: int = 4, seed: int = 1, pause_s: float = 0.01
    ) -> None:
        super().__init__(server, clients, seed)
        self._pause_s = pause_s

    def _make_tables(self) -> None:
        self.server.query(
            "CREATE DATABASE IF NOT EXISTS t",
            "CREATE TABLE IF NOT EXISTS t.a (id INT PRIMARY KEY, n INT, v VARCHAR(400))",
            "CREATE TABLE IF NOT EXISTS t.b"
            " (id INT AUTO_INCREMENT PRIMARY KEY, v JSON, d DATETIME(3))",
        )

    def _client(self, rng: random.Random, number: int) -> None:
        while not self._stop.is_set():
            with suppress(pymysql.err.MySQLError, OSError):
                connection = self.server.connect()
                connection.autocommit(False)
                with connection.cursor() as cursor:
                    while not self._stop.is_set():
                        self._transaction(cursor, rng, number)
                        connection.commit()
                        self.transactions += 1
                        self._stop.wait(self._pause_s)
            time.sleep(0.02)  # the server is gone for a while

    @staticmethod
    def _transaction(cursor: Any, rng: random.Random, number: int) -> None:
        for _ in range(rng.randint(1, 4)):
            key = rng.randrange(200) * 8 + number
            text = "x" * rng.randrange(rng.choice((5, 400)))
            way = rng.random()
            if way < 0.6:
                cursor.execute(
                    "INSERT INTO t.a VALUES (%s, 1, %s) ON DUPLICATE KEY UPDATE n = n + 1, v = %s",
                    (key, text, text[::-1] + "y"),
                )
            elif way < 0.8:
                cursor.execute("DELETE FROM t.a WHERE id = %s", (key,))
            else:
                cursor.execute(
                    "INSERT INTO t.b (v, d) VALUES (JSON_OBJECT('k', %s), NOW(3))", (key,)
                )


class Proxy:
    """Forwards TCP to a port and cuts each connection after some bytes (0: never)."""

    def __init__(self, target: int, seed: int = 1, *, bytes_max: int = 0) -> None:
        self.target, self.bytes_max, self.cuts = target, bytes_max, 0
        self._rng = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *args: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                client.close()
                continue
            left = self._rng.randrange(2000, self.bytes_max) if self.bytes_max else 1 << 62
            for pair in ((client, server, 1 << 62), (server, client, left)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, left: int) -> None:
        with suppress(OSError):
            while left and (data := source.recv(min(left, 65536))):
                sink.sendall(data)
                left -= len(data)
            self.cuts += left == 0
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
