"""Delta tables opened and read by delta-rs, as another engine sees them. No path that writes needs
it.

delta-rs confuses a folder with a name like %41 with A: it decodes a path once more than it was
encoded, in whatever form the caller passes it. It also follows links to their end. So it gets a
local folder with such a name as links in a folder with a plain name.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from ...errors import TargetError
from ...runtime.target_uri import is_remote
from .storage import named, options

_DECODED = re.compile(r"%[0-9A-Fa-f]{2}")
_LOG = "_delta_log"
_MANAGED = "catalog-managed table"
"""text of delta-rs' error for a table that a catalog manages"""


@contextmanager
def opened(folder: str, version: int | None = None) -> Iterator[DeltaTable]:
    """Open the table in one version, or the newest, for reading and for clean-up of its log. Raise
    TableNotFoundError, TargetError for a table that delta-rs can't open, and as ``named``."""
    if not _DECODED.search(folder):
        with named(folder):
            yield _opened(folder, version)
        return
    if is_remote(folder):
        raise TargetError(
            "delta-rs can't open a table on an object store whose name has percent signs",
            file=folder,
            hint="read it with Spark",
        )
    with tempfile.TemporaryDirectory(prefix="spark_repl-") as plain:
        os.symlink(os.path.join(folder, _LOG), os.path.join(plain, _LOG))
        table = _opened(plain, version)
        for name in os.listdir(folder):  # after the version is read: its files exist by then
            if name != _LOG:
                os.symlink(os.path.join(folder, name), os.path.join(plain, name))
        yield table


def _opened(folder: str, version: int | None) -> DeltaTable:
    try:
        return DeltaTable(folder, version=version, storage_options=options(folder))
    except DeltaError as error:
        if _MANAGED in str(error):
            raise TargetError(
                "delta-rs does not open a table by its path if a catalog manages it",
                file=folder,
                hint="read it under its name in the catalog, for example with Spark"
                " (docs/catalogs.md#managed-tables)",
            ) from error
        raise


def read(folder: str, version: int | None = None, query: str = "select * from t") -> pa.Table:
    """Return the rows that ``query`` (SQL on the table ``t``) finds in one version, or the
    newest."""
    with opened(folder, version) as table:
        return pa.table(QueryBuilder().register("t", table).execute(query).read_all())


def newest_version(folder: str) -> int:
    with opened(folder) as table:
        return table.version()
