"""A connection to a MySQL server: opened and authenticated by PyMySQL, then read by our own code.

Receiver, copies and ``verify`` use it. ``connect`` returns a session for queries, with the password
read again at each call. ``DumpConnection`` asks a server for its binary log: after ``start`` the
bytes come from ``read_into``, and ``send`` sends acknowledgements. Nothing on the server is changed
but the session's own variables, and the session's own thread is ended.

Faults of the source are found here, before anything is received, and reported with their remedy.
Raises SourceLostError if a retry may help (network, shutdown, too many connections), SourceError if
it will not, and SecretError if a password, key or certificate can't be read. The packets are in
``source.dump``. Design: docs/design/setting-up.md, docs/design/relay-log.md.
"""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql

from ..errors import SecretError, SourceError, SourceLostError
from ..gtid import GtidSet
from . import source_settings
from .account import password_of, password_place, tls_of
from .dump import dump_file, dump_gtid, error_of, register
from .grants import account_of

if TYPE_CHECKING:
    from io import BufferedReader

    from ..config import Source

_READ_BYTES = 1 << 18
_CONNECT_TIMEOUT_S = 10
_NOT_ALLOWED = 1227
_ACCESS_DENIED = 1045
_CLEAR = "mysql_clear_password"
_PLUGIN_CANNOT_LOAD = 2059
_RECEIVE_BUFFER_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Server:
    """What a source reports about itself."""

    host: str
    uuid: str
    server_id: int
    version: str
    variables: dict[str, str]
    executed: GtidSet
    purged: GtidSet


class _ClearPassword:
    """The client's side of mysql_clear_password, by which cloud services receive tokens.

    PyMySQL would send the password over any connection, to any server that asks for it.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, _: Any) -> Any:
        """Send the password, and return the server's answer. Raise SourceError without TLS."""
        connection = self._connection
        if not connection._secure:
            raise SourceError(
                f"{connection.host} asks for the password in the clear, and the connection has no"
                " TLS: nothing was sent",
                number=_PLUGIN_CANNOT_LOAD,
                hint='set source.tls_ca and source.tls = "verify_identity"',
            )
        connection.write_packet(connection.password + b"\0")
        answer = connection._read_packet()
        answer.check_error()
        return answer


def connect(source: Source) -> Any:
    """Open a PyMySQL connection, and apply the session settings. The password is read again each
    time. Raise SourceError, SourceLostError, SecretError."""
    address: dict[str, Any] = {"host": source.host, "port": source.port}
    if source.socket:
        address["unix_socket"] = source.socket
    try:
        connection = pymysql.connect(
            user=source.user, password=password_of(source), charset="utf8mb4", autocommit=True,
            connect_timeout=_CONNECT_TIMEOUT_S, read_timeout=source.net_timeout_s,
            program_name="spark_repl", auth_plugin_map={_CLEAR: _ClearPassword},
            ssl_disabled=True, defer_connect=True, **address,
        )  # fmt: skip
        if (mode := tls_of(source)) != "disabled":  # PyMySQL's own context takes 40 ms to create
            connection.ssl, connection.ctx = True, _tls_context(source, mode)
            connection._ssl_required = mode != "preferred" or bool(source.tls_cert)
        connection.connect()
        source_settings.apply_settings(connection)
        return connection
    except pymysql.err.MySQLError as error:
        raise _connect_error(source, error) from error
    except RuntimeError as error:  # PyMySQL: no library for RSA, which only plain connections need
        raise SourceError(
            f"can't log in to {source.host} without TLS: {error}",
            hint='source.tls = "preferred" or "required" needs nothing more; without TLS:'
            " pip install 'spark-repl[rsa]'",
        ) from error


class _Answer:
    """The bytes of an answer: first those in PyMySQL's buffer ``stream``, then those of the socket,
    without a copy."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream: BufferedReader | None = stream
        self._raw, self._first = stream.raw, memoryview(b"")

    def readinto1(self, space: memoryview) -> int:
        """Return the number of bytes that one read at most wrote into ``space``, 0 at the end of
        the stream. Raise OSError."""
        if self._stream is not None:  # its own readinto1 would wait for more than is in the buffer
            buffered = len(self._stream.peek())  # read below: the next answer must not find them
            self._first, self._stream = memoryview(self._stream.read(buffered)), None
        count = min(len(self._first), len(space))
        if not count:
            return self._raw.readinto(space) or 0
        space[:count] = self._first[:count]
        self._first = self._first[count:]
        return count


def begin_query(connection: Any, statement: str) -> tuple[Any, list[int]]:
    """Send a query. Return a stream, from which ``readinto1`` reads its rows as packets, and the
    collation of each column. Texts come in that collation's character set, as the server stores
    them. If the server converted them, it would replace each character that it can't convert by a
    question mark.

    Raise SourceError, SourceLostError.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION character_set_results = NULL")
        connection._execute_command(0x03, statement)
        result = pymysql.connections.MySQLResult(connection)
        result.init_unbuffered_query()
        result.unbuffered_active = False  # its rows are ours to read
        return _Answer(connection._rfile), [field.charsetnr for field in result.fields]
    except pymysql.err.MySQLError as error:
        number, text = (*error.args, "", "")[:2]
        raise error_of(number if isinstance(number, int) else 2013, str(text)) from error


def _tls_context(source: Source, mode: str) -> ssl.SSLContext:
    """Return the context of a TLS connection. Load the system's CA certificates, which takes 40 ms,
    only if the server's certificate is checked and ``tls_ca`` is empty. Raise SecretError."""
    checks = mode not in ("preferred", "required")
    try:
        if checks:
            context = ssl.create_default_context(cafile=source.tls_ca or None)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if source.tls_ca:
                context.load_verify_locations(source.tls_ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates that servers make themselves
        context.check_hostname = mode == "verify_identity"
        if not checks:
            context.verify_mode = ssl.CERT_NONE
        if source.tls_cert:
            context.load_cert_chain(source.tls_cert, source.tls_key)
        return context
    except (OSError, ssl.SSLError) as error:
        given = {"tls_ca": source.tls_ca, "tls_cert": source.tls_cert, "tls_key": source.tls_key}
        named = ", ".join(f'source.{key} = "{value}"' for key, value in given.items() if value)
        raise SecretError(
            f"can't use {named}: {error.strerror or error}",
            hint="each names a file in PEM format, that this account may read",
        ) from error


def _connect_error(source: Source, error: pymysql.err.MySQLError) -> SourceError:
    number, text = (*error.args, "", "")[:2]
    address = source.socket or f"{source.host}:{source.port}"
    cause = getattr(error, "original_exception", None)
    cut_off = isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    if (isinstance(cause, ssl.SSLError) or number == 2026) and not cut_off:
        hint = (
            "renew the certificate on the source, and there: ALTER INSTANCE RELOAD TLS; or the"
            " authority's in source.tls_ca"
            if "has expired" in str(text)
            else "check source.tls_ca (the authority that signed the source's certificate) and that"
            " source.host is a name in it, or choose another source.tls"
        )
        return SourceError(f"no TLS connection to {address}: {text}", number=2026, hint=hint)
    if not isinstance(number, int):
        return SourceLostError(f"can't connect to {address}: {error}")
    refused = error_of(number, f"can't connect to {address}: {text}")
    if isinstance(refused, SourceLostError):
        where = "source.socket" if source.socket else "source.host and source.port"
        refused.hint = f"is the source up, and {where} right?"
    elif number == _ACCESS_DENIED:
        refused.hint = f"{refused.hint}. If the password is new: {password_place(source)}"
    return refused


class DumpConnection:
    """A connection that requests a server's binary log. Close it; do not use it again after its
    stream broke."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._mysql = connect(source)
        self._socket: socket.socket | ssl.SSLSocket = self._mysql._sock
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)

    def close(self) -> None:
        with suppress(OSError, AttributeError):
            self._socket.close()
        self._mysql._sock = None

    def end_dump(self) -> None:
        """Close the connection and end the source's thread, which otherwise would notice this only
        at its next event."""
        self.close()
        with suppress(SourceError, SecretError, pymysql.err.MySQLError):
            other = connect(self.source)
            with other.cursor() as cursor:
                cursor.execute(f"KILL {self._mysql.thread_id()}")

    def query(self, statement: str) -> list[dict[str, Any]]:
        """Return the rows of the answer, by column name. Raise SourceError, SourceLostError."""
        try:
            with self._mysql.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except pymysql.err.MySQLError as error:
            raise self._error(error) from error

    def _error(self, error: pymysql.err.MySQLError) -> SourceError:
        """Return the server's error; one of a missing privilege names the account."""
        number, text = (*error.args, "", "")[:2]
        if number != _NOT_ALLOWED:
            return error_of(number if isinstance(number, int) else 2013, str(text))
        return error_of(number, str(text), self.account())

    def account(self) -> str:
        """Return the account that the server uses for this connection, in the form for
        statements."""
        try:
            with self._mysql.cursor() as cursor:
                cursor.execute("SELECT CURRENT_USER()")
                return account_of(str(cursor.fetchone()[0]))
        except pymysql.err.MySQLError:
            return account_of(f"{self.source.user}@%")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return rows as tuples, in the order of their columns. Raises as ``query``."""
        return [tuple(row.values()) for row in self.query(statement)]

    def server(self) -> Server:
        rows = self.query("SHOW GLOBAL VARIABLES")
        variables = {row["Variable_name"]: row["Value"] for row in rows}
        gtids = {"executed": "", "purged": ""}
        if "gtid_mode" in variables:  # SHOW cuts long values off
            (gtids,) = self.query(
                "SELECT @@GLOBAL.gtid_executed AS executed, @@GLOBAL.gtid_purged AS purged"
            )
        return Server(
            self.source.socket or f"{self.source.host}:{self.source.port}",
            variables.get("server_uuid", ""),
            int(variables["server_id"]),
            variables["version"],
            variables,
            GtidSet.parse(gtids["executed"]),
            GtidSet.parse(gtids["purged"]),
        )

    def replicas(self) -> list[dict[str, Any]]:
        """Return the registered replicas. Raise SourceError without the privilege REPLICATION
        SLAVE."""
        try:
            return self.query("SHOW REPLICAS")
        except SourceError as error:
            if error.number != 1064:
                raise
            return self.query("SHOW SLAVE HOSTS")  # before 8.0.22

    def start(self, replica_uuid: str, have: GtidSet | tuple[str, int]) -> None:
        """Start the dump of the transactions that are not in a GTID set, or of everything after
        (file, position)."""
        heartbeat = self.source.net_timeout_s * 500_000_000
        pairs = {"heartbeat_period": heartbeat, "binlog_checksum": "@@GLOBAL.binlog_checksum"}
        assignments = [
            f"@{who}_{name} = {value}"
            for name, value in pairs.items()
            for who in ("source", "master")
        ]
        assignments += [f"@{who}_uuid = '{replica_uuid}'" for who in ("replica", "slave")]
        if self.source.semi_sync:
            assignments += [f"@rpl_semi_sync_{who} = 1" for who in ("replica", "slave")]
        self.query("SET " + ", ".join(assignments))
        server_id = self.source.server_id
        request = (
            dump_gtid(server_id, have) if isinstance(have, GtidSet) else dump_file(server_id, *have)
        )
        try:
            # Its answer is one OK packet; an account without the privilege is refused here.
            self._mysql._execute_command(0x15, register(server_id, socket.gethostname())[1:])
            self._mysql._read_ok_packet()
            self._mysql._execute_command(request[0], request[1:])
        except pymysql.err.MySQLError as error:
            raise self._error(error) from error

    def read_into(self, space: memoryview, timeout_s: float) -> int:
        """Read into the buffer and return the number of bytes, or 0 if none arrived in time. Raises
        SourceLostError at the end of the stream."""
        self._socket.settimeout(max(timeout_s, 0.0))
        try:
            count = self._socket.recv_into(space)
            if count == 0:
                raise SourceLostError("Lost connection to the source", number=2013)
            if isinstance(self._socket, ssl.SSLSocket):
                count += self._read_more(space[count:])
            return count
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise SourceLostError(f"Lost connection to the source: {error}", number=2013) from error

    def _read_more(self, space: memoryview) -> int:
        """Read without waiting and return the number of bytes: TLS returns 16 KB at a time."""
        count = 0
        self._socket.settimeout(0)
        while count < _READ_BYTES and count < len(space):
            try:
                received = self._socket.recv_into(space[count:])
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            if received == 0:
                break
            count += received
        return count

    def has_more(self) -> bool:
        """Return whether bytes are waiting to be read."""
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        return pending or bool(self._poll.poll(0))

    def send(self, payload: bytes) -> None:
        """Send one packet while the stream runs: an acknowledgement."""
        self._socket.settimeout(_CONNECT_TIMEOUT_S)
        try:
            self._socket.sendall(len(payload).to_bytes(3, "little") + b"\0" + payload)
        except OSError as error:
            raise SourceLostError(f"Lost connection to the source: {error}", number=2013) from error


def present_gtids(source: Source) -> tuple[GtidSet, GtidSet]:
    """Return (the source's executed GTID set, its purged one). Raise SourceError."""
    connection = DumpConnection(source)
    try:
        server = connection.server()
        return server.executed, server.purged
    finally:
        connection.close()
