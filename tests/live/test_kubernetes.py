"""The pod of ``init --on kubernetes`` as a process: its arguments, its environment and the files of
its mounts. Nothing of Kubernetes runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_repl.cli.main import main
from spark_repl.config import Config, load
from spark_repl.observe.status.status import status
from tests.live.test_run import check_tables
from tests.support.live.receiving import Command, processes
from tests.support.live.server import PLANTED, Load, Server
from tests.support.wait_until import wait_until


class Pod:
    """Processes of one pod. ``volumes``: a folder for what its mounts hold."""

    def __init__(self, manifest: Path, volumes: Path) -> None:
        settings, pod = yaml.safe_load_all(manifest.read_text("utf-8"))
        self.spec: dict[str, Any] = pod["spec"]["template"]["spec"]
        (self.container,) = self.spec["containers"]
        self.mounts = {
            mount["mountPath"]: str(volumes / mount["name"])
            for mount in self.container["volumeMounts"]
        }
        for folder in self.mounts.values():
            os.makedirs(folder)
        for name, text in settings["data"].items():
            self.file = volumes / "config" / name
            self.file.write_text(self._inside(text), "utf-8")

    def _inside(self, text: str) -> str:
        for mounted, folder in self.mounts.items():
            text = text.replace(mounted, folder)
        return text

    @property
    def config(self) -> Config:
        return load(self.file)

    def start(self) -> Command:
        words = [self._inside(word) for word in self.container["args"]]
        (secret,) = self.container["env"]
        process = Command(
            [sys.executable, "-m", "spark_repl", *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, process_group=0, env={**os.environ, secret["name"]: PLANTED},
        )  # fmt: skip
        processes.append(process)
        return process

    def stop(self, process: Command) -> None:
        """Stop it as the kubelet does."""
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=self.spec["terminationGracePeriodSeconds"])
        assert process.returncode == 0, err.decode()[-3000:]


@pytest.mark.slow
def test_the_pod_follows_stops_and_starts_again(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server()
    words = ["--offline", "--on", "kubernetes", "--host", "127.0.0.1", "--port", str(server.port)]
    words += ["--user", "planted", "--target", "/var/lib/spark_repl/data/lake"]
    assert main(["init", "--config", str(tmp_path / "my.toml"), *words]) == 0
    pod = Pod(tmp_path / "kubernetes.yaml", tmp_path / "volumes")
    for seed in (1, 2):
        process = pod.start()
        with Load(server, 2, seed=seed) as load:
            load.wait_for(20)
        wait_until(lambda: _executed(pod.config) == server.executed, 240, each_s=0.3)
        pod.stop(process)
        check_tables(pod.config, server, ["t.a", "t.b"])


def _executed(config: Config) -> str:
    try:
        return str(status(config.target.path)["gtid_executed"])
    except Exception:  # nothing is there yet
        return ""
