"""What an error of delta-rs means: the one place that says so.

delta-rs is written in Rust and gives what the system said as text, in an exception of its own or
in an OSError without a number; whether it may pass is decided by the number (runtime/retry).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import PostCommitHookProperties
from deltalake.exceptions import DeltaError, TableNotFoundError

from ..errors import TargetError
from ..runtime.object_store import is_remote
from .storage import named, one_line

NO_HOOK = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""of a commit: delta-rs' own removes commits behind a checkpoint that nobody has synced"""
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_STORE = re.compile(r"Generic (S3|GCS|MicrosoftAzure) error|HTTP error|error sending request")


@contextmanager
def delta_rs(doing: str, path: str) -> Iterator[None]:
    """A context for calls of delta-rs that are to read or write (``doing``) the table at ``path``.
    Raises OSError, with its number where there is one, for what storage said, TableNotFoundError,
    and TargetError for everything else."""
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
    """What to raise for an error of delta-rs: the error itself where it says enough."""
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
