"""A server of Spark Connect, from the installed pyspark, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from .live.server import free_port
from .standalone import is_up
from .wait_until import wait_until

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_UP_S = 240.0


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str] = {}) -> Iterator[str]:
    """The address of a server with two cores, whose Python is this one. It logs into ``folder``."""
    port, home = free_port(), Path(pyspark.__file__).parent
    (jar,) = (home / "jars").glob("spark-connect_*.jar")
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", _SERVER]
    whole = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false", **settings}
    for name, value in whole.items():
        command += ["--conf", f"{name}={value}"]
    environment = {
        **os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    with (folder / "connect.log").open("w") as log:
        server = subprocess.Popen([*command, str(jar)], stdout=log, stderr=log, env=environment)
        try:
            wait_until(lambda: is_up(port), _UP_S)
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()
