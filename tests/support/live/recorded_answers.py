"""What the fixtures of a server's answers are made with: a server of its own, and how they lie."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .server import Server


@contextmanager
def connected() -> Iterator[Any]:
    """A connection that gives bytes, to a server that is started for it; ``SPARK_REPL_MYSQL`` names
    the server's folder."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(os.environ["SPARK_REPL_MYSQL"]), Path(folder) / "data", 1)
        server.initialise()
        server.start()
        try:
            yield server.connect(charset="utf8mb4", use_unicode=False, conv={})
        finally:
            server.stop()


def write(path: Path, answers: Any) -> None:
    """The same bytes for the same answers."""
    path.write_bytes(gzip.compress(json.dumps(answers, separators=(",", ":")).encode(), mtime=0))
