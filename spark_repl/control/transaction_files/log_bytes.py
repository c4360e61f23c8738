"""Log bytes: copies of parts of the relay log that a target keeps durably.

They are prepared XA branches, and transactions that tables in quarantine lack.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ...crash_points import reach
from ...delta.log.durable import sync_above
from ...errors import TargetError
from ...runtime.private_files import make_private_folder

_COPY_BYTES = 16 << 20


def copy_bytes(source: BinaryIO, out: BinaryIO, size: int, path: str) -> None:
    """Copy ``size`` bytes from the current place of ``source``, the log's file at ``path``. Memory
    is bounded for any size. Raise OSError, and TargetError if the log is shorter."""
    while size:
        data = source.read(min(size, _COPY_BYTES))
        if not data:
            raise TargetError("the relay log is shorter than when it was indexed", file=path)
        out.write(data)
        size -= len(data)


@contextmanager
def durable_file(
    path: str, root: str, keeping: str, opener: Callable[[str, int], int] | None = None
) -> Iterator[BinaryIO]:
    """Write a file at ``path``. After the block the file is complete and synced, and so are the
    folders up to the one that contains ``root``. The crash point ``keeping`` is reached before the
    file has its name. ``opener``: as for ``open``. Raise OSError."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        make_private_folder(folder)
        sync_above(folder, root)
    fresh = f"{path}.{uuid.uuid4().hex}.new"
    with open(fresh, "wb", opener=opener) as out:
        yield out
        out.flush()
        os.fsync(out.fileno())
    reach(keeping)
    os.replace(fresh, path)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
