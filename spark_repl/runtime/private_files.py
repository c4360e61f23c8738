"""Files and folders that hold rows, or what an applier does: only their account can read them."""

from __future__ import annotations

import os

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def private_opener(path: str, flags: int) -> int:
    """Create a file that only its account can read. Use it as ``opener`` of ``open``."""
    return os.open(path, flags, FILE_MODE)


def make_private_folder(folder: str | os.PathLike[str]) -> None:
    """Create a folder that only its account can read. Raise OSError.

    An existing folder keeps its mode, which a person may have chosen. Parent folders get the usual
    mode.
    """
    os.makedirs(folder, FOLDER_MODE, exist_ok=True)
