"""An operator on a bad day: types the commands of a recipe of docs/troubleshooting.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spark_repl.config import Config, load
from spark_repl.gtid import GtidSet
from spark_repl.observe.status.status import status
from tests.support.examples import ROOT
from tests.support.wait_until import wait_until

from .receiving import Command, processes
from .server import Server

_PAGE = ROOT / "docs" / "troubleshooting.md"
_WAIT_S = 240.0
_RUN = "spark-repl run "
_TABLES = """
CREATE DATABASE shop;
CREATE TABLE shop.customer (id INT PRIMARY KEY, name VARCHAR(40));
CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, state VARCHAR(20), note VARCHAR(4000));
INSERT INTO shop.customer VALUES (1, 'Ann'), (2, 'Bob');
INSERT INTO shop.orders (state) VALUES ('open'), ('paid'), ('sent');
"""


def recipe(heading: str) -> list[str]:
    """The commands below a heading, without the comments behind them. A line that is only a comment
    is an action that no command does."""
    _, _, text = _PAGE.read_text("utf-8").partition(f"\n### {heading}\n")
    text = re.split(r"^##", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return [re.sub(r"(?<=\S)\s+# .*", "", line) for line in lines]


class Operator:
    """Works in ``folder``, whose ``my.toml`` follows ``server``. ``inside``: the words before each
    command, such as those that enter a namespace."""

    def __init__(
        self, server: Server, folder: Path, *, inside: tuple[str, ...] = (),
        environment: Mapping[str, str] = {}, **source: str,
    ) -> None:  # fmt: skip
        self.server, self.folder, self._inside = server, folder, inside
        self.run: Command | None = None
        self.said = folder / "run.log"
        own = {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self._environment = {**os.environ, **own, **environment}
        (folder / "password").write_text("repl")
        (folder / "password").chmod(0o600)
        self.config = folder / "my.toml"
        keys = {"host": "127.0.0.1", "user": "repl", "password_file": "password", **source}
        lines = [f"{name} = {json.dumps(value)}" for name, value in keys.items()]
        self.config.write_text(
            "\n".join(["[source]", f"port = {server.port}", "connect_retry_max_s = 2", *lines])
            + '\n[relay]\npath = "relay"\n[target]\npath = "lake"\n[observe]\nlisten = ""\n'
        )

    @property
    def _there(self) -> str:
        """The folder is entered inside: a working folder from outside is not below the mounts."""
        return f"cd {shlex.quote(str(self.folder))}"

    def set(self, section: str, line: str) -> None:
        """Write a key into the section of the configuration, instead of its value there."""
        text, key = self.config.read_text(), line.split()[0]
        text = re.sub(rf"^{key} = .*\n", "", text, flags=re.MULTILINE)
        if f"[{section}]\n" not in text:
            text += f"[{section}]\n"
        self.config.write_text(text.replace(f"[{section}]\n", f"[{section}]\n{line}\n"))

    @property
    def loaded(self) -> Config:
        return load(self.config)

    def shop(self, line: str = "spark-repl run --config my.toml") -> None:
        """Create the tables on the source, start ``run``, and wait for the first cut."""
        self.server.query(*(one for one in _TABLES.strip().split(";\n") if one))
        self.types(line)

    def types(self, line: str) -> str:
        """Run a command, and return its output. ``run`` stays in the background, and was waited for
        until it has everything; if it already runs, it is not started again."""
        if line.startswith(_RUN):
            if self.run is None or self.run.poll() is not None:
                self.starts(line)
            self.catches_up()
            return ""
        ran = self._shell(line)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr

    def fails(self, line: str) -> str:
        """Run a command that fails, and return its message."""
        ran = self._shell(line)
        assert ran.returncode, ran.stdout
        return ran.stderr

    def starts(self, line: str = "spark-repl run --config my.toml", **environment: str) -> None:
        with self.said.open("ab") as said:
            self.run = Command(
                [*self._inside, "bash", "-c", f"{self._there} && exec {line}"],
                stdout=said, stderr=said, env={**self._environment, **environment}, process_group=0,
            )  # fmt: skip
        processes.append(self.run)

    def stops(self) -> None:
        if self.run is not None and self.run.poll() is None:
            self.run.terminate()
            self.run.wait(_WAIT_S)

    def ends(self) -> str:
        """Wait until ``run`` has ended by an error, and return its messages."""
        assert self.run is not None
        assert self.run.wait(_WAIT_S) != 0, self.said.read_text()
        return self.said.read_text()

    def catches_up(self) -> None:
        want = GtidSet.parse(self.server.executed)

        def is_applied() -> bool:
            assert self.run is None or self.run.poll() is None, self.said.read_text()[-3000:]
            return want.issubset(GtidSet.parse(self.executed()))

        wait_until(is_applied, _WAIT_S, each_s=0.3)

    def executed(self) -> str:
        ran = self._shell("spark-repl status --json --config my.toml") if self._inside else None
        try:
            now = json.loads(ran.stdout) if ran else status(str(self.folder / "lake"))
        except Exception:
            return ""
        return str(now["gtid_executed"])

    def reads(self, text: str, most_s: float = _WAIT_S) -> str:
        """Look at ``status --short`` until it contains the text, and return it."""
        seen = ""

        def is_there() -> bool:
            nonlocal seen
            seen = self._shell("spark-repl status --short --config my.toml").stdout
            return text in seen

        try:
            wait_until(is_there, most_s, each_s=0.5)
        except AssertionError:
            raise AssertionError(f"{seen}\n{self.said.read_text()[-3000:]}") from None
        return seen

    def follows(self, heading: str, actions: Mapping[str, Callable[[], Any]] = {}, **words: str):
        """Type the recipe's commands, in which ``words`` replace names in upper case. Assert that
        the last one is a ``verify`` that finds no difference."""
        actions = {"# stop run": self.stops, **actions}
        steps = recipe(heading)
        assert steps and steps[-1].startswith("spark-repl verify "), (heading, steps)
        said = ""
        for step in steps:
            for name, value in words.items():
                step = step.replace(name, value)
            if step.startswith("#"):
                actions[step]()
            else:
                said = self.types(step)
        assert "differing: 0\n" in said and "undecided: 0\n" in said, said
        assert "tables: 0\n" not in said, said
        self.stops()

    def _shell(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._inside, "bash", "-euo", "pipefail", "-c", f"{self._there}\n{line}"],
            env=self._environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
