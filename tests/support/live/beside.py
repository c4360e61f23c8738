"""Tasks beside the applier while processes are killed: another writer's OPTIMIZE and VACUUM, purges
of the relay log, new copies of tables."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql

from spark_repl.config import Config
from spark_repl.control.records.copies import standing
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.copy.recopy import ask
from spark_repl.errors import SparkReplError
from spark_repl.service.applied_purge import purge_applied

from .killing import children
from .server import Server

_PURGE_S, _COPY_S, _END_S = 2.0, 15.0, 300.0


class Beside:
    """``figures``, and the ``vacuums`` that were done (foreigner.py), when the block has ended."""

    def __init__(
        self, server: Server, config: Config, folder: Path, tables: tuple[str, ...], seed: int
    ) -> None:
        self.server, self.config, self.tables = server, config, tables
        self._dice, self._stop, self._done = random.Random(seed), threading.Event(), Counter[str]()
        self._threads = [
            threading.Thread(target=self._every, args=(pause_s, work))
            for pause_s, work in ((_PURGE_S, self._purge), (_COPY_S, self._ask))
        ]
        self._file, self._end = folder / "foreigner.json", folder / "foreigner.stop"
        self._out = folder / "foreigner.out"
        self._command = [
            sys.executable, "-m", "tests.support.live.foreigner", config.target.path, str(seed),
            str(self._file), str(self._end),
        ]  # fmt: skip
        self._errors: list[str] = []
        self.figures: dict[str, int] = {}
        self.vacuums: list[dict[str, Any]] = []

    def __enter__(self) -> Beside:
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: object, *args: object) -> None:
        self._stop.set()
        self._end.touch()
        for thread in self._threads:
            thread.join()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        for pid in (*children(self._process.pid), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended = self._process.wait()
        if kind is None:  # else what went wrong first is said
            assert ended == 0, self._out.read_text()[-3000:]
            assert not self._errors, self._errors
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        found = [json.loads(line) for line in lines]
        self.vacuums = [one for one in found if one["did"] == "VACUUM"]
        did = Counter("foreign " + one["did"] for one in found)
        self.figures = {**did, **self._done}

    def _every(self, pause_s: float, work: Any) -> None:
        while not self._stop.wait(self._dice.uniform(0, 2 * pause_s)):
            try:
                work()
            except (pymysql.err.MySQLError, OSError) as error:  # the source is being killed
                self._done[f"{work.__name__[1:]} in vain: {type(error).__name__}"] += 1
            except SparkReplError as error:
                self._errors.append(f"{work.__name__}: {error}")
                raise

    def _purge(self) -> None:
        """What ``spark-repl relay purge`` does. Only closed files can go."""
        if standing(Control(Layout(self.config.target.path).control)).cut is not None:
            self._done["files purged"] += len(purge_applied(self.config).files)
        self.server.query("FLUSH BINARY LOGS")

    def _ask(self) -> None:
        """What ``spark-repl snapshot --table`` leaves for a running applier, which may be killed
        before it sees it, or in the middle."""
        stands = standing(Control(Layout(self.config.target.path).control))
        if stands.cut is not None and stands.copy is None:
            ask(self.config, (self._dice.choice(self.tables),))
            self._done["copies asked for"] += 1
