"""New files of a table, which no commit names yet: durable, and safe from VACUUM.

VACUUM removes files that no version names once they are older than the retention, which may be 0
hours. It could remove a file between its writing and its commit. So new files are dated ahead. The
store sets an object's time: there a file is safe for as long as the retention.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ...runtime.target_uri import is_remote
from ..store.storage import is_file, open_output

_AHEAD_S = 3600


@contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Open ``path`` for writing; the file is durable after the block."""
    if is_remote(path):
        with open_output(path) as stream:
            yield stream
        return
    with open(path, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    date_ahead(path)


def date_ahead(path: str) -> None:
    """Set a file's modification time into the future, so that VACUUM keeps it. Raise
    FileNotFoundError if the file does not exist."""
    if is_remote(path):
        if not is_file(path):
            raise FileNotFoundError(path)
        return
    then = time.time() + _AHEAD_S
    os.utime(path, (then, then))
