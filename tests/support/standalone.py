"""A standalone master of Spark's and two workers, as processes that don't see the driver's files.

Each process of a worker is in a mount namespace of its own, in which an empty read-only folder
replaces the driver's folder.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from .live.server import free_port
from .wait_until import wait_until

_DEPLOY = "org.apache.spark.deploy"
NAMESPACE = ("unshare", "--mount") if os.getuid() == 0 else ("unshare", "-Ur", "--mount")
_UP_S = 180.0


def missing() -> str:
    """Why there are no mount namespaces here, "" where there are."""
    try:
        command = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "no unshare"
    return tried.stderr.strip() if tried.returncode else ""


@contextmanager
def standalone(folder: Path, hidden: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The URL of a master with two workers of one core each. Their files are in ``folder``, and
    ``hidden`` is what they don't see."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    whole = {**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1"}
    with ExitStack() as running:
        address = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        _start(running, folder / "master.log", _java("master.Master", *address), whole)
        wait_until(lambda: is_up(port), _UP_S)
        for number in (1, 2):
            place = folder / f"worker-{number}"
            place.mkdir()
            options = ["--cores", "1", "--memory", "1g", "--host", "127.0.0.1"]
            options += ["--webui-port", "0", "--work-dir", str(place / "work"), url]
            hides = [*NAMESPACE, "sh", "-c", 'mount -t tmpfs -o ro none "$0" && exec "$@"']
            command = [*hides, str(hidden), *_java("worker.Worker", *options)]
            own = {"SPARK_LOCAL_DIRS": str(place / "local"), "TMPDIR": str(place)}
            _start(running, folder / f"worker-{number}.log", command, {**whole, **own})
        yield url


def _java(name: str, *options: str) -> list[str]:
    home = Path(pyspark.__file__).parent
    script = home / "bin" / "spark-class"
    return [str(script), f"{_DEPLOY}.{name}", *options]


def _start(
    running: ExitStack, log: Path, command: list[str], environment: Mapping[str, str]
) -> None:
    out = running.enter_context(log.open("w"))
    process = subprocess.Popen(command, stdout=out, stderr=out, env=dict(environment))
    running.callback(process.wait)
    running.callback(process.terminate)


def is_up(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
