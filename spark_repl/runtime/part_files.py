"""Part files: files under a temporary name that are written before they get their name in one step.

A process that is killed meanwhile leaves its part file, whose name nobody knows later. So a start
looks through each folder where part files are written.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress

_PART = re.compile(r".*\.(part|new)|\..*\.tmp(\.crc)?")
_DEAD_S = 3600
"""a part that was not written to for so long is dead"""


def is_part(name: str) -> bool:
    """Return whether the name is that of a temporary file: it ends with .part or .new, or is
    Spark's .NAME.tmp."""
    return _PART.fullmatch(name) is not None


def remove_dead_parts(*folders: str | os.PathLike[str]) -> None:
    """Remove temporary files that were last written to at least an hour ago.

    Folders may be missing. A file that can't be removed stays until the next time.
    """
    for path in _parts(folders):
        with suppress(OSError):  # removed meanwhile, or not removable
            if time.time() - os.path.getmtime(path) > _DEAD_S:
                os.remove(path)


def _parts(folders: Iterable[str | os.PathLike[str]]) -> Iterable[str]:
    for folder in folders:
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(folder):
                if is_part(name):
                    yield os.path.join(folder, name)
