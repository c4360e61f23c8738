"""Store: the operations on files of a local disk or an object store. ``local_store`` and
``object_store`` implement them; one contract test runs over both, and over each object store.

Paths are absolute, or URIs as ``target_uri.canonical`` returns them. A write is atomic: readers
see the whole file or none, except through ``open_output`` on a local disk. Errors are Python's
FileNotFoundError, FileExistsError and OSError. An OSError that a retry may cure has a number from
``errno``. A TargetError needs a person: no bucket, refused credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol


class StoredFile(NamedTuple):
    """Size of a file in bytes, and the time of its last change in seconds since 1970."""

    size: int
    modified: float


class Tag(NamedTuple):
    """A store's identifier for the content of a file at one time. Different contents have different
    tags."""

    e_tag: str | None
    version: str | None = None


class Store(Protocol):
    """The operations on files. Safe from any thread. A store must not be used both before and after
    a fork."""

    def read(self, path: str) -> bytes:
        """Return a complete file, in one request. Raise FileNotFoundError."""

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, fewer at the end of the file. ``start`` is below
        the file's size. Raise FileNotFoundError."""

    def open_input(self, path: str) -> BinaryIO:
        """Open a file to read from any place. Raise FileNotFoundError."""

    def open_output(self, path: str) -> BinaryIO:
        """Open a new object or file. An object exists after it is closed, and never if its context
        fails. A file exists at once."""

    def put(self, path: str, content: bytes) -> None:
        """Write a complete file, or replace it."""

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Write a complete file if the name is free. Exactly one of several writers succeeds.

        Raise FileExistsError if another writer has the name. Raise OSError if the outcome is
        unknown: the file may exist now or later. If an answer is lost and a second request finds
        the caller's own file, the call has succeeded.
        """

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        """Return a small file and its tag, in one request. Raise FileNotFoundError."""

    def put_if_match(self, path: str, content: bytes, tag: Tag | None) -> Tag | None:
        """Replace a small file if it still has that tag, or create it if ``tag`` is None and the
        name is free. Exactly one of several writers with one tag succeeds.

        Return the new tag. If the file has another tag or is missing, write nothing and return
        None. Raise OSError if the outcome is unknown. If an answer is lost and a second request
        finds the caller's own file, the call has succeeded.
        """

    def stat(self, path: str) -> StoredFile:
        """Return size and time of a file. Raise FileNotFoundError, also for a folder."""

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder of this name."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders directly below a folder; none if the folder
        does not exist."""

    def names_after(self, folder: str, name: str) -> list[str]:
        """Return the names of the files directly below a folder that come after ``name``, in order;
        none if the folder does not exist."""

    def walk(self, folder: str) -> Iterator[tuple[str, StoredFile]]:
        """Yield each file below a folder, at any depth, with its path relative to the folder."""

    def remove(self, path: str) -> None:
        """Remove a file. Raise FileNotFoundError if it is missing, except on S3, which reports no
        error."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all its content."""
