"""A receiver in a thread or in a process of its own, and what it must have received."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spark_repl.config import Config
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver.receiver import Receiver
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.log_inspection import verify_log
from spark_repl.relay.record import gtid_text
from tests.support.wait_until import wait_until

from .server import PLANTED, Server

_WAIT_S = 180.0
processes: list[subprocess.Popen[bytes]] = []
"""Started by a test, and ended with it (conftest.py)."""


class Command(subprocess.Popen[bytes]):
    """A command of ours with pipes: what came through them is kept, to be searched."""

    output = b""

    def communicate(self, *given: Any, **named: Any) -> tuple[Any, Any]:
        out, err = super().communicate(*given, **named)
        self.output += (out or b"") + (err or b"")
        return out, err


def config_for(server: Server, folder: Path, **values: Any) -> Config:
    """``tls="required"`` becomes ``source.tls``; dots are written as two underscores."""
    keys = {
        "source.host": "127.0.0.1", "source.port": server.port,
        "source.user": "planted", "source.password": PLANTED,
        "relay.path": str(folder / "relay"), "target.path": str(folder / "lake"),
        "source.connect_retry_max_s": 1,
    }  # fmt: skip
    for name, value in values.items():
        keys[name.replace("__", ".") if "__" in name else f"source.{name}"] = value
    return Config().override(keys)


class Running:
    """A receiver in a thread of this process."""

    def __init__(
        self,
        config: Config,
        start: GtidSet | None = None,
        place: tuple[str, int] | None = None,
        skipped: Callable[[], GtidSet] = GtidSet,
    ) -> None:
        self.receiver = Receiver(config, start, place, skipped=skipped)
        self.error = list[BaseException]()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.receiver.run()
        except BaseException as error:
            self.error.append(error)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.receiver.stop()
        self._thread.join()
        if self.error and args[0] is None:
            raise self.error[0]

    def wait_until_connected(self) -> None:
        receiver = self.receiver
        wait_until(
            lambda: self.error or (receiver.report.server is not None and receiver.writer.log_id),
            _WAIT_S,
        )

    def wait_for_end(self, server: Server) -> None:
        """Until it stands where the server's log ends."""
        end = server.query("SHOW BINARY LOG STATUS")[0][:2]
        writer = self.receiver.writer
        wait_until(
            lambda: self.error or (writer.source_file, writer.source_position) == end, _WAIT_S
        )

    def wait_for(self, executed: str) -> None:
        wait_for(self.receiver.config, executed, self)


def wait_for(config: Config, executed: str, running: Running | None = None) -> None:
    """Until the published log holds the set."""
    want = GtidSet.parse(executed)
    until, have = time.monotonic() + _WAIT_S, GtidSet()
    while time.monotonic() < until:
        if running is not None and running.error:
            raise running.error[0]
        have = received(config)
        if want.issubset(have):
            return
        time.sleep(0.2)  # looking reads the whole log
    raise AssertionError(f"missing after {_WAIT_S} s: {want.subtract(have)}")


def received(config: Config) -> GtidSet:
    """What readers of the relay log see."""
    try:
        log = open_log(config.relay.path)
        index = build_index(log, config.relay.path + "-index", complete=False)
    except Exception:
        return GtidSet()
    return log.previous_gtids().union(index.gtids())


class Process:
    """``spark-repl receive`` as a user starts it."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.file = folder / "receive.toml"
        self.file.write_text(toml(config))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, crash: str = "") -> None:
        """``crash``: the point where it is to be killed."""
        command = [sys.executable, "-m", "spark_repl", "receive", "--config", str(self.file)]
        self._process = subprocess.Popen(command, env={**os.environ, "SPARK_REPL_CRASH": crash})
        processes.append(self._process)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def wait_for_crash(self) -> None:
        assert self._process is not None
        assert self._process.wait(_WAIT_S) == -signal.SIGKILL

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(_WAIT_S)


def toml(config: Config) -> str:
    lines = []
    for section, values in config.to_mapping().items():
        if isinstance(values, dict):
            lines += [f"[{section}]", *_keys(values)]
        elif section == "tables":
            for rule in values:
                lines += ["[[tables]]", *_keys({k: v for k, v in rule.items() if v})]
    return "\n".join(lines)


def _keys(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(key, value)}" for key, value in values.items()]


def _value(key: str, value: Any) -> str:
    if key == "mask":  # pairs
        pairs = (f"{json.dumps(name)} = {json.dumps(mask)}" for name, mask in value)
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def spans(path: str | Path, index: Path) -> list[tuple[str, bytes]]:
    """GTID ("": anonymous) and the bytes of each transaction, in order."""
    log, found = open_log(str(path)), []
    records = build_index(log, str(index)).records
    data = {file.number: Path(file.path).read_bytes() for file in log.files}
    for record, gtid in zip(records, gtid_text(records), strict=True):
        at = RelayPosition.unpack(int(record["position"]))
        found.append((gtid, data[at.file_no][at.offset : at.offset + int(record["length"])]))
    return found


def check_same(config: Config, server: Server, folder: Path) -> int:
    """The relay log is the server's log, transaction by transaction and byte by byte."""
    want = spans(server.data / "binlog.index", folder / "source-index")
    have = spans(config.relay.path, folder / "relay-index")
    assert [gtid for gtid, _ in have] == [gtid for gtid, _ in want]
    assert have == want
    assert all(found.ok for found in verify_log(open_log(config.relay.path)))
    return len(have)
