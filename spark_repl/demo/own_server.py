"""Own server: a MySQL server of the demo, which only its account reaches, through a Unix socket.

It has no network port, and its files are below one folder, which ``stop`` leaves to the caller.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ..config import Source
from ..errors import DemoError, SparkReplError
from ..service.command_process import end, ends_with_parent
from ..source.connection import connect

VARIABLE = "SPARK_REPL_MYSQL"
_START_S = 120.0
_STOP_S = 30.0
_PAUSE_S = 0.1
_SOCKET_BYTES_MAX = 100


def mysqld() -> Path | None:
    """Return the server's program: of the folder in SPARK_REPL_MYSQL, or else of PATH; None if
    there is none."""
    if folder := os.environ.get(VARIABLE):
        path = Path(folder) / "bin" / "mysqld"
        return path.absolute() if path.is_file() else None
    named = shutil.which("mysqld")
    return Path(named) if named else None


class OwnServer:
    """A server with a binary log, GTIDs, and the account ``root`` without a password. It is killed
    when this process ends.

    ``folder``: of its files, which only this account may read. ``end`` is called during waits, and
    may raise.
    """

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._data, self._log = folder / "data", folder / "error.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.source = Source(socket=str(folder / "mysql.sock"), user="root", tls="disabled")
        if len(self.source.socket.encode()) > _SOCKET_BYTES_MAX:
            raise DemoError(
                "the path is too long for a Unix socket", file=self.source.socket,
                hint="give a shorter folder: --keep DIR",
            )  # fmt: skip

    def start(self) -> None:
        """Create the server's files, start it, and return when it answers. Raise DemoError if it
        ends before."""
        self._folder.mkdir(mode=0o700)
        self._run("--initialize-insecure")
        assert self._process is not None
        if self._wait(self._process, _START_S) != 0:
            raise self._failed("the server could not create its files")
        self._run(
            "--skip-networking", f"--socket={self.source.socket}", "--mysqlx=OFF",
            "--server-id=1", "--log-bin=binlog", "--binlog-format=ROW",
            "--binlog-row-metadata=FULL", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
            "--innodb-buffer-pool-size=64M", f"--pid-file={self._folder / 'pid'}",
        )  # fmt: skip
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            with suppress(SparkReplError):
                connect(self.source).close()
                return
            if self._process.poll() is not None:
                break
            time.sleep(_PAUSE_S)
        raise self._failed("the server does not answer")

    def stop(self) -> None:
        """End the server's process."""
        process, self._process = self._process, None
        end(process, _STOP_S)
        if process is not None:
            process.wait()

    def _run(self, *options: str) -> None:
        """Start the program. Ctrl-C of the terminal does not reach it."""
        root = self._program.parent.parent
        usr = root / "root" / "usr"  # where Debian's packages were unpacked, instead of installed
        places: list[str] = []
        if usr.is_dir():
            places = [
                f"--basedir={usr}", f"--plugin-dir={usr / 'lib/mysql/plugin'}",
                f"--lc-messages-dir={usr / 'share/mysql'}",
                f"--character-sets-dir={usr / 'share/mysql/charsets'}",
            ]  # fmt: skip
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        command = [str(self._program), "--no-defaults", f"--datadir={self._data}",
                   f"--log-error={self._log}", "--innodb-redo-log-capacity=16M",
                   "--secure-file-priv=NULL", *places, *as_root, *options]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=ends_with_parent(signal.SIGKILL),
        )  # fmt: skip

    @staticmethod
    def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
        return None

    def _failed(self, message: str) -> DemoError:
        lines = list[str]()
        with suppress(OSError):
            lines = self._log.read_text("utf-8", "replace").splitlines()[-10:]
        return DemoError(
            "\n".join([message, *lines]), file=str(self._program),
            hint="or name a server: spark-repl demo --live --host HOST --user USER --database NAME",
        )  # fmt: skip
