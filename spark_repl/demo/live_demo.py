"""Live demo: a shop on a MySQL server, a running ``run``, and a prompt for statements.

Without an address it starts a server of its own, and removes everything at its end. On the server
of an address it creates one database, and names it at its end. ``run`` is a process of its own, as
users start it, and the rows that the prompt shows are read from a cut.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ..config import Config, Observe, Source, toml
from ..control.cuts.cut_head import cell, head
from ..control.cuts.cut_wait import wait_at
from ..control.records.channels import Channel, opened
from ..copy.survey import survey
from ..errors import ConfigError, DemoError, SourceError, SparkReplError, Stopped
from ..observe.screen import columns, summary
from ..observe.status.status import status
from ..observe.web.endpoint import check_free
from ..runtime.private_files import private_opener
from ..service.command_process import end, ends_with_parent
from .own_server import VARIABLE, OwnServer, mysqld
from .shop import Load, Shop, quoted, session

_DATABASE = "shop"
_OWN_PER_S, _FOREIGN_PER_S = 10.0, 4.0
_CUT_S = 30.0
_START_S = 300.0
_STOP_S = 60.0
_PAUSE_S = 0.1
_ROWS_MOST = 5
_PORTS = range(8470, 8490)
_ATTEMPTS, _PORT_IS_TAKEN = 3, "observe.listen: can't listen"
_FOLDER, _LOCK = "spark-repl-demo-", "lock"
_SERVER_IDS = range(100_000, 2**32)
_EXECUTED = "SELECT @@GLOBAL.gtid_executed"
_HELP = """\
Type a statement on one line. It runs on the MySQL server, in the database {database}:
  INSERT INTO customer (name, city) VALUES ('Ada', 'London')
  UPDATE product SET price = 9.50 WHERE id = 3
  ALTER TABLE customer ADD COLUMN mail VARCHAR(80)
The rows below it are those of the Delta table, from the first cut that has the transaction.
help, status, quit (or Ctrl-D)"""
_CHANGE = re.compile(
    r"(?P<verb>INSERT|REPLACE|UPDATE|DELETE|TRUNCATE|CREATE|ALTER)\b"
    r"(?:\s+(?:IGNORE|LOW_PRIORITY|INTO|FROM|TABLE|IF|NOT|EXISTS)\b)*"
    r"\s+(?P<table>(?:`[^`]+`|[\w$]+)(?:\s*\.\s*(?:`[^`]+`|[\w$]+))?)",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\bWHERE\b(?P<condition>.*?)(?:\bORDER\s+BY\b.*|\bLIMIT\b.*)?$", re.I | re.S)


@dataclass(frozen=True)
class LiveOptions:
    """What the user chose. ``source``: the server, None for an own one; ``database``: to create
    there; ``keep``: a folder that keeps the tables, "" for a temporary one."""

    source: Source | None = None
    database: str = ""
    keep: str = ""


@dataclass
class _Signals:
    """Ctrl-C, SIGTERM and SIGHUP end the demo where it waits, and nowhere else."""

    came: bool = False
    _waits: bool = field(default=False, repr=False)

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._at_signal)

    def _at_signal(self, *_: Any) -> None:
        self.came = True
        if self._waits:
            self._waits = False  # a second signal does not interrupt the end
            raise Stopped("a signal came")

    @contextmanager
    def may_come(self) -> Iterator[None]:
        """Raise Stopped in the block at a signal, and before it after one."""
        self.check()
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def check(self) -> None:
        if self.came:
            raise Stopped("a signal came")


class LiveDemo:
    """A run of the demo. ``carry_out`` ends at the end of its input, ``quit`` or a signal, and then
    ends what it started. ``lock``: descriptor of the folder's lock, which ``run`` also holds."""

    def __init__(
        self, options: LiveOptions, folder: Path, signals: _Signals, lock: int | None = None
    ) -> None:
        self._options, self._folder, self._signals, self._lock = options, folder, signals, lock
        self._database = options.database or _DATABASE
        self._token = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "run.log"
        self._url = ""

    def carry_out(self) -> None:
        """Raise DemoError, and what the source and the target raise."""
        with ExitStack() as ended, suppress(Stopped):
            source = self._options.source or self._own_server(ended)
            shop = self._shop(source, ended)
            at = self._followed(source, ended)
            load = Load(shop, _FOREIGN_PER_S if self._options.source else _OWN_PER_S)
            ended.callback(load.stop)
            self._say("Load", f"{load.per_s:g} transactions a second")
            connection = session(source)
            ended.callback(connection.close)
            prompt = _Prompt(connection, at, self._database)
            with self._signals.may_come():
                prompt.begin()
            print("\n" + _HELP.format(database=self._database), flush=True)
            self._prompt(prompt, load)
        print("\nEnded.", flush=True)

    def _own_server(self, ended: ExitStack) -> Source:
        program = mysqld()
        if program is None:
            raise DemoError(
                f"there is no MySQL server: {VARIABLE} names none, and PATH has no mysqld",
                hint="spark-repl demo --live --host HOST --user USER --database NAME; or"
                f" {VARIABLE}=FOLDER, where FOLDER/bin has mysqld",
            )
        server = OwnServer(program, self._folder / "server")
        ended.callback(shutil.rmtree, self._folder / "server", ignore_errors=True)
        ended.callback(server.stop)
        self._say("Server", "starting one for this demo")
        with self._signals.may_come():
            server.start()
        return server.source

    def _shop(self, source: Source, ended: ExitStack) -> Shop:
        """Create the shop on a server that can be followed. Raise SourceError, and ConfigError if
        the database exists."""
        self._check(source)
        with self._signals.may_come():
            shop = Shop(source, self._database)
        with ExitStack() as failed:
            failed.callback(shop.close)
            if shop.query("SHOW DATABASES LIKE %s", (self._database,)):
                raise ConfigError(
                    f"the server has a database {self._database} already",
                    hint="give the name of a new one: --database NAME",
                )
            (version,) = shop.query("SELECT VERSION()")[0]
            self._say("Server", f"MySQL {version}")
            try:
                shop.create()
                if self._options.source:
                    ended.callback(self._name_database)
                rows = shop.fill()
            except shop.connection.Error as error:
                number, text = (*error.args, "", "")[:2]
                raise DemoError(
                    f"the shop can't be created: MySQL error {number}: {text}",
                    hint=f"as an administrator: GRANT ALL ON {quoted(self._database)}.*"
                    f" TO {source.user}",
                ) from error
            failed.pop_all()
        self._say("Shop", f"database {self._database}, {rows:,} rows")
        return shop

    def _name_database(self) -> None:
        assert self._options.source is not None
        print(
            f"The demo created the database {self._database} on {self._options.source.host}."
            f" Remove it with: DROP DATABASE {quoted(self._database)}",
            flush=True,
        )

    def _check(self, source: Source) -> None:
        only = {"filters.do_db": (self._database,), "source.server_id": _free_server_id()}
        for finding in survey(replace(Config(), source=source).override(only)).errors:
            raise SourceError(str(finding), hint=finding.hint)

    def _followed(self, source: Source, ended: ExitStack) -> Channel:
        """Start ``run``, with another port if somebody takes the free one meanwhile. Return the
        target's channel as soon as the source is followed. Raise DemoError."""
        failures = 0
        while True:
            try:
                return self._first_cut(self._start_run(source, ended))
            except DemoError:
                failures += 1
                text = self._log.read_text("utf-8", "replace")
                if _PORT_IS_TAKEN not in text or failures == _ATTEMPTS:
                    raise

    def _start_run(self, source: Source, ended: ExitStack) -> Config:
        """Start ``run`` in a session of its own, so that Ctrl-C does not reach it. It ends when
        this process ends."""
        file, token = self._folder / "replica.toml", self._folder / "token"
        _write(token, self._token + "\n")
        listen = _free_address()
        _write(file, _toml(source, self._database, listen))
        self._url = f"http://{listen}/#token={self._token}"
        command = [sys.executable, "-m", "spark_repl", "run", "--config", str(file)]
        self._process = self._started(command)
        ended.callback(self._stop_run)
        return Config.from_mapping({"target": {"path": str(self._folder / "lake")}})

    def _started(
        self, command: list[str], stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        environment = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1", **os.environ}
        with open(self._log, "wb", opener=private_opener) as log:
            return subprocess.Popen(
                command, stdin=stdin, stdout=log, stderr=log, env=environment,
                start_new_session=True, preexec_fn=ends_with_parent(signal.SIGTERM),
                pass_fds=() if self._lock is None else (self._lock,),
            )  # fmt: skip

    def _first_cut(self, config: Config) -> Channel:
        """Return the target's channel as soon as it has a cut. Raise DemoError."""
        began = time.monotonic()
        self._say("Run", f"starting; its log is {self._log}")
        with open(self._log, encoding="utf-8", errors="replace") as log:
            while time.monotonic() - began < _START_S:
                for line in log:
                    self._say_of_run(line.rstrip())
                self._check_run()
                with suppress(SparkReplError):
                    at = opened(config)
                    if at.control.last_cut() is not None and _is_running(config, at):
                        return at
                with self._signals.may_come():
                    time.sleep(_PAUSE_S)
        raise self._failed("run has no cut")

    def _say_of_run(self, line: str) -> None:
        """Print a line of run's log; its address of the page with the token."""
        if "the page: " in line:
            self._say("Page", self._url)
        elif line and not line.startswith("Picked up "):
            self._say("Run", line)

    def _prompt(self, prompt: _Prompt, load: Load) -> None:
        while True:
            print(flush=True)
            with self._signals.may_come():
                line = _line(f"{self._database}> ")
            if line is None or line.strip().lower().rstrip(";") in ("quit", "exit", r"\q"):
                return
            self._check_run()
            if load.error:
                print(f"The load has ended: {load.error}", flush=True)
            statement = line.strip().rstrip(";").strip()
            if statement.lower() == "help":
                print(_HELP.format(database=self._database), flush=True)
            elif statement.lower() == "status":
                at = prompt.at
                relay = str(self._folder / "relay")
                current = status(at.layout.target, relay, at=at, each_table=False)
                print(summary(current), end="", flush=True)
            elif statement:
                with self._signals.may_come():
                    prompt.carry_out(statement)

    def _check_run(self) -> None:
        self._signals.check()
        if self._process is not None and self._process.poll() is not None:
            raise self._failed("run has ended")

    def _failed(self, message: str) -> DemoError:
        lines = self._log.read_text("utf-8", "replace").splitlines()[-15:]
        return DemoError("\n".join([f"{message}; its last lines:", *lines]))

    def _stop_run(self) -> None:
        process, self._process = self._process, None
        end(process, _STOP_S)
        if process is not None:
            process.wait()

    def _say(self, name: str, text: str) -> None:
        print(f"{name:8}{text}", flush=True)


class _Prompt:
    """Statements of the user, and the rows of the cuts that have them."""

    def __init__(self, connection: Any, at: Channel, database: str) -> None:
        self._connection, self.at, self._database = connection, at, database

    def begin(self) -> None:
        """Choose the database, and wait for a cut that has what the server has now. Raise
        TargetError if none comes."""
        with self._connection.cursor() as cursor:
            cursor.execute(f"USE {quoted(self._database)}")
            cursor.execute(_EXECUTED)
            executed = cursor.fetchone()[0].replace("\n", "")
        wait_at(self.at.control, self.at.layout.target, executed, _START_S)

    def carry_out(self, statement: str) -> None:
        """Run a statement, and print its rows: of the server for a query, else of the first cut
        that has it."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                rows, names = cursor.fetchall(), [column[0] for column in cursor.description or ()]
                changed, first = cursor.rowcount, cursor.lastrowid
                cursor.execute(_EXECUTED)
                executed = cursor.fetchone()[0].replace("\n", "")
        except self._connection.Error as error:
            number, text = (*error.args, "", "")[:2]
            print(f"MySQL error {number}: {text}", flush=True)
            return
        if names:
            _print_rows(names, [tuple(row) for row in rows])
            return
        self._print_from_cut(statement, executed, changed, first)

    def _print_from_cut(self, statement: str, executed: str, changed: int, first: int) -> None:
        began = time.monotonic()
        try:
            cut = wait_at(self.at.control, self.at.layout.target, executed, _CUT_S)
            seconds = time.monotonic() - began
            affected = f"{changed:,} row{'s' * (changed != 1)} on the server; "
            print(f"{affected}in a cut {seconds:.1f} s later", flush=True)
            if change := _changed_rows(statement, changed, first):
                table, where = change
                name = table if "." in table else f"{self._database}.{table}"
                rows = head(self.at.layout, cut, name, _ROWS_MOST, where)
                values = [tuple(row.values()) for row in rows.to_pylist()]
                _print_rows(rows.column_names, values)
        except SparkReplError as error:
            print(f"{error}" + (f"\nTry: {error.hint}" if error.hint else ""), flush=True)


def _changed_rows(statement: str, changed: int, first: int) -> tuple[str, str] | None:
    """Return the table of a statement, and the condition of the rows to show; None if the statement
    names no table."""
    change = _CHANGE.match(statement)
    if change is None:
        return None
    table = re.sub(r"[`\s]", "", change["table"])
    where = ""
    if change["verb"].upper() in ("INSERT", "REPLACE"):
        where = f"id BETWEEN {first} AND {first + max(changed, 1) - 1}" if first else ""
    elif condition := _WHERE.search(statement):
        where = condition["condition"].strip().replace("`", '"')
    return table, where


def _print_rows(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    for line in columns(tuple(names), [tuple(cell(value) for value in row) for row in rows]):
        print(f"  {line}")
    if not rows:
        print("  no rows")
    sys.stdout.flush()


def _line(prompt: str) -> str | None:
    """Return a line of the user's; None at the end of the input."""
    if sys.stdin.isatty():
        with suppress(ImportError):
            import_module("readline")  # it gives ``input`` its history
        try:
            return input(prompt)
        except EOFError:
            return None
    print(prompt, end="", flush=True)
    return sys.stdin.readline() or None


def _free_address() -> str:
    """Return an address for the page. Raise ConfigError if no port of the first twenty is free."""
    for port in _PORTS:
        listen = f"127.0.0.1:{port}"
        with suppress(ConfigError):
            check_free(Observe(listen=listen))
            return listen
    raise ConfigError(f"no port from {_PORTS[0]} to {_PORTS[-1]} is free", hint="stop who has one")


def _is_running(config: Config, at: Channel) -> bool:
    """Return whether the applier follows the source."""
    current = status(config.target.path, None, at=at, each_table=False)
    return bool(current["state"] == "running")


def _free_server_id() -> int:
    return random.SystemRandom().choice(_SERVER_IDS)


def _toml(source: Source, database: str, listen: str) -> str:
    """Return the configuration of ``run``, with the source's values that are not defaults."""
    usual = Source()
    given = {
        name: value
        for name, value in vars(replace(source, server_id=_free_server_id())).items()
        if value != getattr(usual, name)
    }
    sections: Mapping[str, Mapping[str, Any]] = {
        "source": given,
        "relay": {"path": "relay"},
        "target": {"path": "lake"},
        "filters": {"do_db": (database,)},
        "observe": {"listen": listen, "token_file": "token", "rows": True},
    }
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())
        for name, keys in sections.items()
    )


def _lock(folder: Path) -> int:
    """Lock the folder of this demo until this process and ``run`` end, even by SIGKILL. Return the
    descriptor of the lock."""
    file = os.open(folder / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.replace(folder / f"{_LOCK}.new", folder / _LOCK)
    return file


def _remove_abandoned() -> None:
    """Remove the temporary folders of this account's demos that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError), open(folder / _LOCK, "rb") as lock:
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its demo or run still runs
            print(f"Removed {folder}: the demo that created it was killed", flush=True)
            shutil.rmtree(folder, ignore_errors=True)


def _write(file: Path, text: str) -> None:
    with open(file, "w", encoding="utf-8", opener=private_opener) as stream:
        stream.write(text)


def run(options: LiveOptions) -> int:
    """Run the demo in a new folder, or in ``keep``, which keeps the tables."""
    signals = _Signals()
    signals.install()
    lock = None
    if options.keep:
        folder = Path(options.keep).absolute()
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            raise DemoError("the folder exists", file=str(folder), hint="name a new one") from None
    else:
        _remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        lock = _lock(folder)
    try:
        LiveDemo(options, folder, signals, lock).carry_out()
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
            _remove_abandoned()  # one whose ``run`` still ran at the start
    if options.keep:
        print(f"Kept: spark-repl cut list --target {folder / 'lake'}")
    return 0
