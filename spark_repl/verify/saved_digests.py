"""Files of digests in the working state: numbers of rows that a killed verify does not read
again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..delta.digests import Digests


def save(path: str, made: Digests) -> None:
    """Writes a file as a whole, or none."""
    work = f"{path}.{os.getpid()}"
    with open(work, "wb") as file:
        np.save(file, made)
    os.replace(work, path)


def load(path: str) -> Digests:
    """The file's digests, mapped and not read. Raises FileNotFoundError."""
    if os.path.getsize(path) == 128:  # a head alone, which can't be mapped
        return np.zeros((2, 0), np.uint64)
    made: Digests = np.load(path, mmap_mode="r")
    return made
