"""A table's new files, which no commit names yet: durable, and out of VACUUM's reach.

VACUUM removes what no version names once it is older than the retention, and that may be 0 hours:
a file between its writing and its commit would go. So new files are dated ahead. An object's time
is its store's: there a file is as safe as the retention is long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ..runtime.object_store import is_remote
from .storage import is_file, open_output

_AHEAD_S = 3600


@contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Opens ``path`` for writing; what was written is durable behind the block."""
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
    """Dates a file ahead of VACUUM. Raises FileNotFoundError when it is gone."""
    if is_remote(path):
        if not is_file(path):
            raise FileNotFoundError(path)
        return
    then = time.time() + _AHEAD_S
    os.utime(path, (then, then))
