"""Store: what is done with files, wherever they lie. Implemented by ``local_store`` and
``remote_store``; one contract test runs over both, and over each kind of object store.

Paths are absolute, or URIs as ``object_store.canonical`` makes them. What is written is there as a
whole or not at all, except through ``open_output`` on a local disk. Errors are the system's own
(FileNotFoundError, FileExistsError, OSError); a number from ``errno`` says which of them a retry
can cure (``retry``). TargetError: what a retry can't cure (no bucket, refused credentials).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol


class StoredFile(NamedTuple):
    """What is known of a file: its bytes, and when it was last changed, in seconds since 1970."""

    size: int
    modified: float


class Store(Protocol):
    """Safe from any thread. A store must not be used on both sides of a fork."""

    def read(self, path: str) -> bytes:
        """Return a whole file, in one request. Raises FileNotFoundError."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, which lies in the file; fewer where it ends.
        Raises FileNotFoundError."""

    def open_input(self, path: str) -> BinaryIO:
        """Open a file to read from any place. Raises FileNotFoundError."""

    def open_output(self, path: str) -> BinaryIO:
        """Open a new object, which is there when it is closed, and never if its context fails. Or
        a file, which is there at once."""

    def put(self, path: str, content: bytes) -> None:
        """Write a whole file, in place of one that is there."""

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Write a whole file that is not there yet.

        Raises FileExistsError if another writer's file is there: of many writers, one succeeds.
        Raises OSError if the outcome is unknown: the file may be there, or may still come. A lost
        answer that a second request makes up for is neither: the caller's own file is recognised.
        """

    def stat(self, path: str) -> StoredFile:
        """Return what is known of a file. Raises FileNotFoundError, also for a folder's name."""

    def exists(self, path: str) -> bool:
        """Return whether there is a file, or a folder."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders right below a folder; none where there is no
        folder."""

    def names_after(self, folder: str, name: str) -> list[str]:
        """Return the names of the files right below a folder that come after ``name``, in order;
        none where there is no folder."""

    def walk(self, folder: str) -> Iterator[tuple[str, StoredFile]]:
        """Yield each file below a folder, at any depth, by its path from there."""

    def remove(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError where there is none; S3 does not tell."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it."""
