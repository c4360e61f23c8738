"""Errors of delta-rs, translated to our own in one place.

delta-rs is written in Rust. It reports the system's error as text, in an exception of its own or in
an OSError without a number; the number decides whether to retry (runtime/retry).

``opened`` opens and reads Delta tables by delta-rs, as another engine sees them. delta-rs confuses
a folder with a name like %41 with A: it decodes a path once more than it was encoded, in whatever
form the caller passes it. It also follows links to their end. So it gets a local folder with such a
name as links in a folder with a plain name.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from ...errors import TargetError
from ...runtime.target_uri import is_remote
from .storage import named, one_line, options

NO_HOOK = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""hooks of a commit: delta-rs' own hook removes commits after a checkpoint that is not synced"""
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_STORE = re.compile(r"Generic (S3|GCS|MicrosoftAzure) error|HTTP error|error sending request")


@contextmanager
def delta_rs(doing: str, path: str) -> Iterator[None]:
    """Return a context for calls of delta-rs that read or write (``doing``) the table at ``path``.
    Raise OSError for storage errors, with its number if there is one, TableNotFoundError, and
    TargetError for everything else."""
    with named(path):
        try:
            yield
        except TableNotFoundError:
            raise
        except (DeltaError, OSError) as error:
            translated = meaning(error, doing, path)
            if translated is error:
                raise
            raise translated from error


def meaning(error: Exception, doing: str, path: str) -> Exception:
    """Return the exception to raise for an error of delta-rs: the error itself if it is specific
    enough."""
    text = str(error)
    if isinstance(error, OSError) and error.errno:
        return error
    if number := _OS_ERROR.search(text):
        return OSError(int(number[1]), one_line(text))
    if isinstance(error, OSError):
        return error
    if is_remote(path) and _STORE.search(text):
        return OSError(one_line(text))
    return TargetError(
        f"can't {doing}: {one_line(text)}", file=path,
        hint="is the folder as the applier left it? Nothing but it writes there",
    )  # fmt: skip


_DECODED = re.compile(r"%[0-9A-Fa-f]{2}")
_LOG = "_delta_log"


@contextmanager
def opened(folder: str, version: int | None = None) -> Iterator[DeltaTable]:
    """Open the table in one version, or the newest, for reading and for clean-up of its log. Raise
    TableNotFoundError, and TargetError for a table that delta-rs can't open."""
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
        for name in os.listdir(folder):  # after the version is read: its files exist by then
            if name != _LOG:
                os.symlink(os.path.join(folder, name), os.path.join(plain, name))
        yield table


def read(folder: str, version: int | None = None, query: str = "select * from t") -> pa.Table:
    """Return the rows that ``query`` (SQL over the table ``t``) finds in one version, or the
    newest."""
    with opened(folder, version) as table:
        return pa.table(QueryBuilder().register("t", table).execute(query).read_all())


def newest_version(folder: str) -> int:
    with opened(folder) as table:
        return table.version()
