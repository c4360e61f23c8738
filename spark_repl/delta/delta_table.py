"""Tables opened by delta-rs, which takes a folder named %41 for one named A.

It decodes a path once more than it was encoded, however it is given, and follows links to their
end. So a local folder whose name has such a part is shown to it as links in a folder of a plain
name.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import DeltaTable

from ..errors import TargetError
from ..runtime.object_store import is_remote
from .storage import options

_DECODED = re.compile(r"%[0-9A-Fa-f]{2}")
_LOG = "_delta_log"


@contextmanager
def opened(folder: str, version: int | None = None) -> Iterator[DeltaTable]:
    """The table in one version, or the newest, to be read; its log may be tidied up too. Raises
    TableNotFoundError, and TargetError for what delta-rs can't open."""
    if not _DECODED.search(folder):
        yield DeltaTable(folder, version=version, storage_options=options(folder))
        return
    if is_remote(folder):
        raise TargetError(
            "delta-rs can't open a table on an object store whose name has percent signs",
            file=folder,
            hint="read it with Spark",
        )
    with tempfile.TemporaryDirectory(prefix="spark_repl-") as plain:
        os.symlink(os.path.join(folder, _LOG), os.path.join(plain, _LOG))
        table = DeltaTable(plain, version=version)
        for name in os.listdir(folder):  # behind the version: it has all that this one names
            if name != _LOG:
                os.symlink(os.path.join(folder, name), os.path.join(plain, name))
        yield table
