"""Storage: a table's files, on a mounted file system or on an object store.

A local path goes to the system's own calls (``runtime/local_store``), a URI to the object store
(``runtime/remote_store``); ``runtime/store`` has the contract of both. What an object store refuses
for good is a TargetError, everything else that fails an OSError.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from ..errors import ConfigError, TargetError
from ..runtime import store_errors
from ..runtime.local_store import LocalStore
from ..runtime.object_store import bucket_of, canonical, is_remote, key_of, parts_of
from ..runtime.remote_store import RemoteStore
from ..runtime.store_clients import delta_rs_options

if TYPE_CHECKING:
    from ..runtime.store import Store, StoredFile

_PARQUET, _PARQUET_END = b"PAR1", 8
"""what a file begins and ends with; before the last one lies the length of the footer"""
_MISSING_JAVA = re.compile(r"FileNotFoundException|FILE_NOT_EXIST|PATH_NOT_FOUND|NoSuchKey")
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]+:/")
UNFINISHED = re.compile(r"\.[0-9a-f-]{36}|\..+\.tmp(\.crc)?")
"""name of a file that only a killed writer leaves: the probe for conditional writes, or a file that
``put`` or Hadoop gives its name when it is whole"""
_LOCAL, _REMOTE = LocalStore(), RemoteStore()


def store_of(path: str) -> Store:
    """Return the store that a path is on."""
    return _REMOTE if is_remote(path) else _LOCAL


def data_file(folder: str, path: str) -> str:
    """Where a file lies that the log of the table at ``folder`` names: by a URI, in which Spark
    writes a percent sign of a partition's folder as %25. It is relative to the folder, or absolute,
    as in a shallow clone."""
    decoded = unquote(path)
    if _ABSOLUTE.match(path):
        return canonical(decoded.removeprefix("file:"))
    return os.path.join(folder, decoded)


def inner_path(folder: str, path: str) -> str | None:
    """Return the path, relative to the folder of a table, of a file that the table's log names.
    Return None if the file is outside of the folder."""
    if not _ABSOLUTE.match(path):
        inner = os.path.normpath(unquote(path))
    else:
        try:
            place = data_file(folder, path)
        except ConfigError:  # no target could be there
            return None
        if is_remote(place) != is_remote(folder):
            return None
        if not is_remote(folder):
            place, folder = os.path.realpath(place), os.path.realpath(folder)
        inner = os.path.relpath(place, folder)
    return None if inner.split("/")[0] == ".." else inner


def read(path: str) -> bytes:
    """Return a whole file. Raises FileNotFoundError."""
    return store_of(path).read(path)


def read_range(path: str, start: int, length: int) -> bytes:
    """Return some bytes of a file, fewer where it ends. Raises FileNotFoundError."""
    return store_of(path).read_range(path, start, length)


def open_input(path: str) -> BinaryIO:
    """A file to read: whole, from a place (seek), or through pyarrow. Raises FileNotFoundError."""
    return store_of(path).open_input(path)


def open_output(path: str) -> BinaryIO:
    """A new object, which is there when it is closed, and never if its context fails. Or a file."""
    return store_of(path).open_output(path)


def put(path: str, content: bytes) -> None:
    """Write a whole file or object, in place of one that is there: a reader sees the one or the
    other. Raises OSError."""
    store_of(path).put(path, content)


def put_if_absent(path: str, content: bytes) -> None:
    """Write a whole file or object that is not there yet. Raises FileExistsError if another
    writer's is there, and OSError, after which it may be there, or may still come."""
    store_of(path).put_if_absent(path, content)


def parquet_source(path: str) -> Any:
    """The file at ``path`` as pyarrow's Parquet reader takes it."""
    return _REMOTE.open_parquet(path) if is_remote(path) else path


def exists(path: str) -> bool:
    """Whether there is a file or a folder."""
    return store_of(path).exists(path)


def stat(path: str) -> StoredFile:
    """Return a file's size and time. Raises FileNotFoundError."""
    return store_of(path).stat(path)


def is_file(path: str) -> bool:
    """Whether there is a file: of an object store that is one request, where ``exists`` lists what
    lies below the name, too, before it says no."""
    if not is_remote(path):
        return os.path.isfile(path)
    with suppress(FileNotFoundError):
        _REMOTE.stat(path)
        return True
    return False


def is_whole(path: str) -> bool:
    """Whether there is a file, and not what power failures leave of one: it isn't empty, and one
    of Parquet has both its ends, and room for the footer that the last one tells of. That takes two
    small reads; an object is whole."""
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
    """Whether an error says that a file below ``folder`` isn't there: Python's, pyarrow's of an
    object store, or Spark's."""
    text = str(error)
    missing = isinstance(error, FileNotFoundError) or _MISSING_JAVA.search(text)
    root = os.path.join(key_of(folder) if is_remote(folder) else folder, "")
    return bool(missing) and any(root in shown for shown in (text, unquote(text)))


def remove(path: str) -> None:
    """Removes a file. Raises FileNotFoundError where there is none; S3 does not tell."""
    store_of(path).remove(path)


def remove_if_there(path: str) -> None:
    with suppress(FileNotFoundError):
        remove(path)


def remove_folder(path: str) -> None:
    """Removes a folder with all that is in it."""
    store_of(path).remove_folder(path)


def names(folder: str) -> list[str]:
    """The files and folders of a folder; empty where there is no folder."""
    return store_of(folder).names(folder)


def names_after(folder: str, name: str) -> list[str]:
    """The files of a folder whose names come after ``name``, in order; empty where there is no
    folder."""
    return store_of(folder).names_after(folder, name)


def listed(folder: str) -> dict[str, float | None]:
    """The files of a folder, with the times of their last change where the listing says them, in
    seconds since 1970; of a local file ``modified`` does."""
    if not is_remote(folder):
        return dict.fromkeys(os.listdir(folder))
    return {name: entry.modified for name, entry in _REMOTE.entries(folder).items()}


def walk(folder: str) -> Iterator[tuple[str, StoredFile]]:
    """Yield each file below a folder, at any depth, with its path relative to the folder."""
    return store_of(folder).walk(folder)


def modified(path: str) -> float:
    """When a file was last changed, in seconds since 1970. Raises FileNotFoundError."""
    return _REMOTE.stat(path).modified if is_remote(path) else os.path.getmtime(path)


def make_folder(path: str) -> None:
    """Makes a folder; on an object store, which has none, nothing is done."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)


def options(folder: str) -> dict[str, str] | None:
    """delta-rs' storage_options for a table."""
    return delta_rs_options(folder) if is_remote(folder) else None


@contextmanager
def named(path: str) -> Iterator[None]:
    """Raises TargetError for what an object store refuses, whoever asked it."""
    try:
        yield
    except OSError as error:
        if not is_remote(path) or error.errno:
            raise
        if lasting := store_errors.lasting(error, path):
            raise lasting from error
        raise


def check_bucket(path: str) -> None:
    """Raises TargetError when the bucket of an object store isn't there, or refuses us."""
    if not is_remote(path):
        return
    try:
        exists(f"{parts_of(path)[0]}://{bucket_of(path)}")
    except OSError as error:
        if store_errors.lacks_credentials(error):
            raise store_errors.refused("no credentials were given", path) from error
        raise


def check_conditions(folder: str) -> None:
    """Raise TargetError if the object store of a folder writes over an object that must not exist
    yet: two appliers could then publish one version."""
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
    """An error's text on one line, cut to 300 characters: delta-rs draws it as a tree."""
    return " ".join(re.sub(r"\x1b\[\d+m|↳", "", text).split())[:300]
