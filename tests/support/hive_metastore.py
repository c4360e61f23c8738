"""A Hive metastore as a process of its own, from the Hive jars of pyspark, with Derby on disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import pyspark

from tests.support.live.server import free_port
from tests.support.wait_until import wait_until

_START_S = 240
_CLASS = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.e.ref = e
appender.e.type = Console
appender.e.name = e
appender.e.layout.type = PatternLayout
appender.e.layout.pattern = %d %p %c{1}: %m%n
"""


class HiveMetastore:
    """A metastore on 127.0.0.1. What it has outlives ``kill`` and ``start``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.uri = f"thrift://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(folder / "warehouse"),
            # pyspark has no jar that Hive's asynchronous log needs.
            "hive.async.log.enabled": "false",
        }
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in settings.items()
        )
        (folder / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
        (folder / "log4j2.properties").write_text(_LOGGING)

    def start(self) -> Self:
        """Start it, and return when it accepts connections."""
        jars = Path(pyspark.__file__).parent / "jars"
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else shutil.which("java")
        assert java
        command = [
            java, "-Xmx256m", f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties",
            f"-Dderby.stream.error.file={self.folder}/derby.log",
            "-cp", f"{self.folder}:{jars}/*", _CLASS, "-p", str(self.port),
        ]  # fmt: skip
        with (self.folder / "metastore.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        wait_until(self._answers, _START_S, each_s=0.2)
        return self

    def _answers(self) -> bool:
        assert self._process and self._process.poll() is None, self._log()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def _log(self) -> str:
        return (self.folder / "metastore.log").read_text()[-2000:]

    def kill(self) -> None:
        """Kill it, as a machine that goes down."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def hive_metastore(folder: Path) -> Iterator[HiveMetastore]:
    """A metastore that runs, with its files below ``folder``."""
    process = HiveMetastore(folder / "metastore")
    try:
        yield process.start()
    finally:
        process.kill()
