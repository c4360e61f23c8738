"""The receiver's process ends with its supervisor, whenever that ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.config import Config, load
from spark_repl.service.supervisor import Supervisor

_MOST_S = 30.0


class Slow(Supervisor):
    """One that is told to end just as its process begins."""

    def __init__(self, config: Config, file: Path, begins: Callable[[], object]) -> None:
        super().__init__(config, str(file))
        self._begins = begins

    def _run_once(self) -> int:
        self._begins()
        return super()._run_once()


def test_a_process_that_begins_while_it_ends(tmp_path: Path) -> None:
    begins, ends = threading.Event(), threading.Event()

    def wait() -> None:
        begins.set()
        assert ends.wait(_MOST_S)

    file = tmp_path / "nobody.toml"  # it goes on asking a port where nobody is
    file.write_text(f'[source]\nport = 1\n[relay]\npath = "{tmp_path}/log"\n')
    receiver = Slow(load(file), file, wait)

    class Ending(threading.Thread):
        def run(self) -> None:
            receiver.__exit__()

    receiver.__enter__()
    assert begins.wait(_MOST_S)
    ending = Ending()
    ending.start()
    while not receiver._companion.stop.is_set():
        pass
    ends.set()
    ending.join(_MOST_S)
    assert not ending.is_alive() and receiver.starts == 1
    with pytest.raises(ProcessLookupError):
        os.kill(receiver.pid or 0, 0)
