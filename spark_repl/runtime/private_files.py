"""Files and folders of ours that hold rows, or what an applier does: for its account alone."""

from __future__ import annotations

import os

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def opener(path: str, flags: int) -> int:
    """For ``open(..., opener=opener)``: a file that is made is the account's alone."""
    return os.open(path, flags, FILE_MODE)


def make_folder(folder: str | os.PathLike[str]) -> None:
    """Makes a folder for the account alone. One that is there keeps its mode, which somebody may
    have chosen; folders above it that are made have the usual one. Raises OSError."""
    os.makedirs(folder, FOLDER_MODE, exist_ok=True)
