"""Part files: under another name, in which something is written before it is there as a whole.

Whoever is killed meanwhile leaves one, and nobody knows its name later: so each folder where such
files are written is looked through at a start.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress

_PART = re.compile(r".*\.(part|new)|\..*\.tmp(\.crc)?")
_DEAD_S = 3600
"""nobody writes to a part for so long"""


def is_part(name: str) -> bool:
    """Ours end with .part or .new; Spark's begin with a dot and end with .tmp."""
    return _PART.fullmatch(name) is not None


def remove_dead_parts(*folders: str | os.PathLike[str]) -> None:
    """Removes parts that were last written to an hour ago and more. Folders may be missing; what
    can't be removed stays for the next time."""
    for path in _parts(folders):
        with suppress(OSError):  # gone meanwhile, or not ours to remove
            if time.time() - os.path.getmtime(path) > _DEAD_S:
                os.remove(path)


def _parts(folders: Iterable[str | os.PathLike[str]]) -> Iterable[str]:
    for folder in folders:
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(folder):
                if is_part(name):
                    yield os.path.join(folder, name)
