"""YARN on this machine: Hadoop's MiniYARNCluster in a JVM of its own.

Its containers are processes below that JVM. The cluster's classes are of pyspark's Hadoop; Ivy
fetches what pyspark lacks (70 MB) into the user's cache.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from spark_repl.runtime.java import fetched_jars
from spark_repl.user_cache import cache_folder

from .live.killing import children

_JARS = Path(pyspark.__file__).parent / "jars"
_NODES_MS = 120_000
_SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.enable": "false",
    # Even so, containers get no folder on a disk that is fuller.
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.nodemanager.delete.debug-delay-sec": "3600",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
    "yarn.resourcemanager.am.max-attempts": "4",
}


def cluster_jars() -> list[str]:
    """Return the jars of MiniYARNCluster that pyspark lacks. Its own POM names neither JUnit nor
    Mockito nor Bouncy Castle, whose classes it loads."""
    hadoop = next(_JARS.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    package = f"org.apache.hadoop:hadoop-client-minicluster:{hadoop}"
    others = (
        "org.junit.jupiter:junit-jupiter-api:5.13.3",
        "org.mockito:mockito-core:4.11.0",
        "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    )
    folder = cache_folder() / "jars" / package.replace(":", "_")
    shipped = "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"
    return fetched_jars(folder, [package, *others], without=shipped)


class Yarn:
    """A running cluster. ``folder``: of its containers, their logs, and the client's files."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.folder, self.pid = folder, pid

    def submit(
        self, deploy_mode: str, job: Path, *words: str, settings: dict[str, str]
    ) -> subprocess.Popen[str]:
        """Start spark-submit. Containers load Spark's jars from pyspark's folder."""
        whole = {
            "spark.yarn.jars": f"local:{_JARS}/*",
            "spark.yarn.stagingDir": f"file://{self.folder}/staging",
            "spark.yarn.submit.waitAppCompletion": "true",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            **settings,
        }
        options = [word for name, value in whole.items() for word in ("--conf", f"{name}={value}")]
        with (self.folder / "submit.log").open("a") as log:
            return subprocess.Popen(
                [f"{sys.prefix}/bin/spark-submit", "--master", "yarn", "--deploy-mode", deploy_mode,
                 *options, str(job), *words],
                stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "HADOOP_CONF_DIR": str(self.folder), "PYSPARK_PYTHON":
                     sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            )  # fmt: skip

    def processes(self, name: str) -> list[int]:
        """Return the programs of containers, without their shells, that have ``name`` in their
        command line, oldest first."""
        programs = ("/java", sys.executable)
        found = children(self.pid).items()
        return sorted(
            pid for pid, line in found
            if line.split(" ", 1)[0].endswith(programs) and name in line
        )  # fmt: skip

    def executors(self) -> list[int]:
        """Return the JVMs of executors."""
        return self.processes("YarnCoarseGrainedExecutorBackend")

    @staticmethod
    def container(pid: int) -> str:
        """Return the id of the container of a process."""
        variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
        return dict(line.split("=", 1) for line in variables if "=" in line)["CONTAINER_ID"]

    def kill_container(self, pid: int) -> None:
        """Kill all processes of the container of a process."""
        group = os.getpgid(pid)
        assert group != os.getpgid(self.pid)
        os.killpg(group, signal.SIGKILL)

    def logs(self) -> str:
        """Return what spark-submit and the containers have printed."""
        files = [self.folder / "submit.log", *sorted(self.folder.rglob("container_*/std*"))]
        return "\n".join(
            f"== {file.parent.name}/{file.name}\n{file.read_text(errors='replace')[-6000:]}"
            for file in files
        )


@contextmanager
def yarn(folder: Path) -> Iterator[Yarn]:
    """A cluster of two NodeManagers. ``folder`` has the client's yarn-site.xml."""
    folder.mkdir()
    classes = os.pathsep.join([*cluster_jars(), f"{_JARS}/*"])
    (jar,) = _JARS.glob("py4j-*.jar")
    with (folder / "cluster.log").open("w") as log:
        port, token, process = launch_gateway(
            jarpath=str(jar), classpath=classes, die_on_exit=True, enable_auth=True, cwd=folder,
            redirect_stdout=log, redirect_stderr=log, return_proc=True,
            javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"],
        )  # fmt: skip
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            _start(gateway.jvm, folder)
            yield Yarn(folder, process.pid)
        finally:
            for pid in children(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait()
            gateway.shutdown(raise_exception=False)


def _start(jvm: Any, folder: Path) -> None:
    settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in _SETTINGS.items():
        settings.set(name, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", 2, 1, 1)
    cluster.init(settings)
    cluster.start()
    assert cluster.waitForNodeManagersToConnect(_NODES_MS)
    out = jvm.java.io.FileOutputStream(str(folder / "yarn-site.xml"))
    cluster.getConfig().writeXml(out)
    out.close()
