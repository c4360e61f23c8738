"""A server of its own for a benchmark, in a folder that goes with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.live.receiving import config_for, toml
from tests.support.live.server import Server


@contextmanager
def one_server(mysql: Path) -> Iterator[tuple[Server, Path]]:
    """The server, begun, of the files in ``mysql``, and the folder, which has room for others'."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(mysql.resolve(), folder / "data", 1)
        server.initialise()
        server.start()
        try:
            yield server, folder
        finally:
            server.stop()


def config_file(server: Server, folder: Path) -> Path:
    """A configuration that replicates the server, written into its benchmark's folder."""
    file = folder / "run.toml"
    file.write_text(toml(config_for(server, folder)))
    return file
