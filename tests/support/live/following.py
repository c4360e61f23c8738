"""Receiver and applier of a server in threads of this process, below Spark, until a block ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_repl.apply.start.replica import Parts
from spark_repl.config import Config
from spark_repl.control.table.layout import Layout
from spark_repl.gtid import GtidSet
from spark_repl.relay.published_end import read_end
from spark_repl.verify.verifier import Verifier, VerifyLimits, VerifyResult
from tests.support.local_delta import HERE, LocalDelta, applier, apply_without_stream, cuts

from .receiving import Running, config_for
from .server import Server

_TURN_S, _WAIT_S = 0.2, 200.0


class Following:
    """From the log's beginning; ``keys`` are those of [target], ``tables`` and ``filters`` those
    of these sections, ``parts`` the applier's."""

    def __init__(
        self, server: Server, folder: Path, *, tables: Sequence[Any] = (),
        filters: Mapping[str, Any] = {}, parts: Parts | None = None, **keys: Any,
    ) -> None:  # fmt: skip
        self._more = {"tables": tables, "filters": filters}
        self.server, self._parts = server, parts
        self.keys = {"column_mapping": False, "compact_files": 8, **keys}
        values = {f"target__{name}": value for name, value in self.keys.items()}
        plain = config_for(server, folder, **values)
        self.config = Config.from_mapping({**plain.to_mapping(), **self._more})
        self.errors: list[BaseException] = []
        self._receiver = Running(self.config, GtidSet())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._apply)

    def __enter__(self) -> Following:
        self._receiver.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.set()
        self._thread.join()
        self._receiver.__exit__(*args)
        assert not self.errors, self.errors

    def _apply(self) -> None:
        relay, target = Path(self.config.relay.path), self.config.target.path
        try:
            while not self._stop.wait(_TURN_S):
                if read_end(str(relay)) is not None and any(relay.glob("relay.0*")):
                    with applier(
                        relay, target, keys=self.keys, parts=self._parts, **self._more
                    ) as found:
                        apply_without_stream(found)
        except BaseException as error:
            self.errors.append(error)

    def catch_up(self) -> None:
        executed, until = GtidSet.parse(self.server.executed), time.monotonic() + _WAIT_S
        while True:
            known = cuts(self.config.target.path) if Path(self.config.target.path).exists() else []
            if known and executed.issubset(GtidSet.parse(known[-1].gtid_executed)):
                return
            assert time.monotonic() < until and not self.errors, self.errors
            time.sleep(_TURN_S)  # each look reads the control table

    def verify(self, *only: str, **limits: Any) -> VerifyResult:
        workers = HERE.workers(None, 2, self.config)  # type: ignore[arg-type]
        taken = VerifyLimits(**{"wait_s": 30.0, **limits})
        layout = Layout.of(self.config.target)
        return Verifier(self.config, layout, LocalDelta(), workers, taken).verify(only)
