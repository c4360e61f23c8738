"""Look: reads something in a log while files of it are purged.

A list of files is taken first and the files after it, without a lock; so a file may go in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..errors import LogError
from .log import RelayLog, open_log

T = TypeVar("T")


def look(path: str, see: Callable[[RelayLog], T]) -> tuple[RelayLog, T]:
    """(the log, what ``see`` returns for it). ``see`` is called again, with a new list of files,
    where a file was purged meanwhile. Each time the list begins later, so it comes to an end.

    Raises LogError for a file that is missing though it is still listed, and as ``open_log``.
    """
    log = open_log(path)
    while True:
        try:
            return log, see(log)
        except FileNotFoundError as error:
            before, log = log, open_log(path)
            same = log.log_id == before.log_id
            if same and log.files[0].number <= before.files[0].number:
                raise LogError(
                    "the file went away while it was read", file=str(error.filename or path),
                    hint="put it back; `relay purge` takes files away that nobody needs",
                ) from error  # fmt: skip
