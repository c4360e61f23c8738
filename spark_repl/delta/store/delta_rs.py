"""Errors of delta-rs, translated to our own in one place.

delta-rs is written in Rust. It reports the system's error as text, in an exception of its own or in
an OSError without a number; the number decides whether to retry (runtime/retry).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import PostCommitHookProperties
from deltalake.exceptions import DeltaError, TableNotFoundError

from ...errors import TargetError
from ...runtime.object_store import is_remote
from .storage import named, one_line

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
