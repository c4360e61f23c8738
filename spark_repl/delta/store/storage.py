"""Storage: a table's files, on a mounted file system or on an object store.

The system's own calls (``runtime/local_store``) serve a local path, the object store
(``runtime/object_store``) a URI; ``runtime/store`` has the contract of both. An object store's
permanent refusal is a TargetError, every other failure an OSError.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from ...errors import ConfigError, TargetError
from ...runtime import object_store_errors
from ...runtime.store_clients import delta_rs_options
from ...runtime.stores import REMOTE_STORE, store_of
from ...runtime.target_uri import canonical, is_remote, key_of

if TYPE_CHECKING:
    from ...runtime.store import StoredFile, Tag

_PARQUET, _PARQUET_END = b"PAR1", 8
"""first and last bytes of a file, and bytes of its end: the footer's length, then these bytes"""
_MISSING_JAVA = re.compile(r"FileNotFoundException|FILE_NOT_EXIST|PATH_NOT_FOUND|NoSuchKey")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]+:/")
UNFINISHED = re.compile(r"\.[0-9a-f-]{36}|\..+\.tmp(\.crc)?")
"""name of a file that only a killed writer leaves: the probe for conditional writes, or a file that
``put`` or Hadoop renames when it is complete"""


def data_file(folder: str, path: str) -> str:
    """Return the path of a file that the log of the table at ``folder`` names by a URI, in which
    Spark writes a percent sign of a partition's folder as %25. The URI is relative to the folder,
    or absolute, as in a shallow clone."""
    decoded = unquote(path)
    if is_absolute(path):
        return canonical(decoded.removeprefix("file:"))
    return os.path.join(folder, decoded)


def is_absolute(path: str) -> bool:
    """Return whether a log names a file by an absolute path, or by a URI with a scheme."""
    return _ABSOLUTE.match(path) is not None


def inner_path(folder: str, path: str) -> str | None:
    """Return the path, relative to a table's folder, of a file that the table's log names. Return
    None if the file is outside the folder."""
    if not is_absolute(path):
        inner = os.path.normpath(unquote(path))
    else:
        try:
            place = data_file(folder, path)
        except ConfigError:  # a place where no target can be
            return None
        if is_remote(place) != is_remote(folder):
            return None
        if not is_remote(folder):
            place, folder = os.path.realpath(place), os.path.realpath(folder)
        inner = os.path.relpath(place, folder)
    return None if inner.split("/")[0] == ".." else inner


def read(path: str) -> bytes:
    """Return a whole file. Raise FileNotFoundError."""
    return store_of(path).read(path)


def read_range(path: str, start: int, length: int) -> bytes:
    """Return ``length`` bytes of a file, fewer at its end. Raise FileNotFoundError."""
    return store_of(path).read_range(path, start, length)


def open_input(path: str) -> BinaryIO:
    """Open a file to read: as a whole, from a position (seek), or through pyarrow. Raise
    FileNotFoundError."""
    return store_of(path).open_input(path)


def open_output(path: str) -> BinaryIO:
    """Open a new object, or a local file. The object exists only after it is closed, and never if
    its context fails."""
    return store_of(path).open_output(path)


def put(path: str, content: bytes) -> None:
    """Write a complete file or object, and replace an existing one: a reader sees either the old or
    the new content. Raise OSError."""
    store_of(path).put(path, content)


def put_if_absent(path: str, content: bytes) -> None:
    """Write a complete file or object that does not exist yet. Raise FileExistsError if another
    writer has written it. Raise OSError if writing fails: the file may exist, or may appear later.
    """
    store_of(path).put_if_absent(path, content)


def read_tagged(path: str) -> tuple[bytes, Tag]:
    """Return a small file and the tag of its content. Raise FileNotFoundError."""
    return store_of(path).read_tagged(path)


def put_if_match(path: str, content: bytes, tag: Tag | None) -> Tag | None:
    """Replace a small file if it still has that tag; with None, create it. Return the new tag, or
    None if the file has another tag or is missing. Raise OSError if the outcome is unknown."""
    return store_of(path).put_if_match(path, content, tag)


def parquet_source(path: str) -> Any:
    """Return the file at ``path`` as a source for pyarrow's Parquet reader."""
    return REMOTE_STORE.open_parquet(path) if is_remote(path) else path


def exists(path: str) -> bool:
    """Return whether a file or a folder exists."""
    return store_of(path).exists(path)


def stat(path: str) -> StoredFile:
    """Return a file's size and time. Raise FileNotFoundError."""
    return store_of(path).stat(path)


def is_file(path: str) -> bool:
    """Return whether a file exists. On an object store that is one request; ``exists`` also lists
    what is below the name before it returns False."""
    if not is_remote(path):
        return os.path.isfile(path)
    with suppress(FileNotFoundError):
        REMOTE_STORE.stat(path)
        return True
    return False


def is_whole(path: str) -> bool:
    """Return whether a file exists and was not damaged by a power failure: it must not be empty,
    and a Parquet file must have both its ends, and room for its footer. This takes two small reads.
    An object that exists is complete."""
    if is_remote(path):
        return is_file(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not path.endswith(".parquet"):
                return size > 0
            begin = file.read(len(_PARQUET))
            file.seek(max(0, size - _PARQUET_END))
            end = file.read()
    except FileNotFoundError:
        return False
    room = size - len(_PARQUET) - _PARQUET_END
    footer = int.from_bytes(end[:-4], "little")
    return begin == end[-4:] == _PARQUET and 0 < footer <= room


def is_gone(error: BaseException, folder: str) -> bool:
    """Return whether an error means that a file below ``folder`` is missing: Python's error,
    pyarrow's of an object store, or Spark's."""
    text = str(error)
    missing = isinstance(error, FileNotFoundError) or _MISSING_JAVA.search(text)
    root = os.path.join(key_of(folder) if is_remote(folder) else folder, "")
    return bool(missing) and any(root in form for form in (text, unquote(text)))


def remove(path: str) -> None:
    """Remove a file. Raise FileNotFoundError if it does not exist, except on S3, which does not
    report this."""
    store_of(path).remove(path)


def remove_if_there(path: str) -> None:
    with suppress(FileNotFoundError):
        remove(path)


def remove_objects(paths: Sequence[str]) -> None:
    """Remove at most a thousand objects of one bucket, in any order. A missing one is no error."""
    REMOTE_STORE.remove_objects(paths)


def remove_folder(path: str) -> None:
    """Remove a folder with all its content."""
    store_of(path).remove_folder(path)


def names(folder: str) -> list[str]:
    """Return the files and folders of a folder; an empty list if there is no folder."""
    return store_of(folder).names(folder)


def names_after(folder: str, name: str) -> list[str]:
    """Return the files of a folder whose names sort after ``name``, in order; an empty list if
    there is no folder."""
    return store_of(folder).names_after(folder, name)


def listed(folder: str) -> dict[str, float | None]:
    """Return the files of a folder, with their modification times in seconds since 1970 if the
    listing contains them. A local listing does not: ``modified`` reads them."""
    if not is_remote(folder):
        return dict.fromkeys(os.listdir(folder))
    return {name: entry.modified for name, entry in REMOTE_STORE.entries(folder).items()}


def walk(folder: str) -> Iterator[tuple[str, StoredFile]]:
    """Yield each file below a folder, at any depth, with its path relative to the folder."""
    return store_of(folder).walk(folder)


def modified(path: str) -> float:
    """Return the time of a file's last change, in seconds since 1970. Raise FileNotFoundError."""
    return REMOTE_STORE.stat(path).modified if is_remote(path) else os.path.getmtime(path)


def make_folder(path: str) -> None:
    """Make a folder; do nothing on an object store, which has none."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)


def options(folder: str) -> dict[str, str] | None:
    """Return delta-rs' storage_options for a table."""
    return delta_rs_options(folder) if is_remote(folder) else None


@contextmanager
def named(path: str) -> Iterator[None]:
    """Return a context that converts errors of an object store's clients: a refusal to TargetError,
    a failure of a profile's process to ConfigError, and expired credentials that can be renewed to
    an OSError with a number."""
    try:
        yield
    except OSError as error:
        if not is_remote(path) or error.errno:
            raise
        if recognized := object_store_errors.recognized(error, path):
            raise recognized from error
        raise


def check_bucket(path: str) -> None:
    """Raise TargetError if the bucket of an object store does not exist, or refuses access. Only
    objects below ``path`` are listed, because a policy may refuse the rest."""
    if not is_remote(path):
        return
    try:
        names(path)
    except OSError as error:
        if object_store_errors.lacks_credentials(error):
            raise object_store_errors.refused("no credentials were given", path) from error
        raise


def check_conditions(folder: str) -> None:
    """Raise TargetError if the object store of a folder ignores a condition that an object must not
    exist: two appliers could then publish one version."""
    if not is_remote(folder):
        return
    path = os.path.join(folder, f".{uuid.uuid4()}")
    try:
        put_if_absent(path, b"first")
        put_if_absent(path, b"second")
    except FileExistsError:
        return
    finally:
        remove_if_there(path)
    raise TargetError(
        "the object store ignores conditional writes, and writes over objects that exist",
        file=folder,
        hint="use a store, or a release of this one, that honours If-None-Match",
    )


def one_line(text: str) -> str:
    """Return an error's text on one line, truncated to 300 characters, because delta-rs prints
    errors as a tree."""
    return " ".join(re.sub(r"\x1b\[\d+m|↳", "", text).split())[:300]
