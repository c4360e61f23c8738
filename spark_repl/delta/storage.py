"""Storage: a table's files, on a mounted file system or on an object store.

A local path goes to the system's own calls, as if this module were not there. On an object store
a new object is there as a whole, and durable, once its writer has closed it; an old one is never
written again. What fails there is an OSError, FileNotFoundError where that is the reason, and what
a new attempt can't cure (``named``) a TargetError.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

import pyarrow.fs

from ..errors import TargetError
from ..runtime import conditional_put
from ..runtime.object_store import delta_rs_options, file_system, is_remote, key_of

_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket")
_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN|MISSING_AUTH"
    r"|EXPIRED_TOKEN|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|HTTP response code 40[13]|40[13] (Forbidden|Unauthorized)|credential"
)


_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EOPNOTSUPP})
_PARQUET, _PARQUET_END = b"PAR1", 8
"""what a file begins and ends with; before the last one lies the length of the footer"""
_MISSING_JAVA = re.compile(r"FileNotFoundException|FILE_NOT_EXIST|PATH_NOT_FOUND|NoSuchKey")


def data_file(folder: str, path: str) -> str:
    """Where a file lies that the log of the table at ``folder`` names: by a URI, in which Spark
    writes a percent sign of a partition's folder as %25."""
    return os.path.join(folder, unquote(path))


def open_input(path: str) -> BinaryIO:
    """A file to read: whole, from a place (seek), or through pyarrow. Raises FileNotFoundError."""
    if not is_remote(path):
        return open(path, "rb")
    return cast(BinaryIO, file_system().open_input_file(key_of(path)))


def open_output(path: str) -> BinaryIO:
    """A new object; it is there when it is closed. Or a file."""
    if not is_remote(path):
        return open(path, "wb")
    # Small ones go in one request, and so do larger ones in parts of 10 MB.
    return cast(BinaryIO, file_system().open_output_stream(key_of(path)))


def put(path: str, content: bytes) -> None:
    """Write a whole file or object, in place of one that is there: a reader sees the one or the
    other. Raises OSError."""
    if is_remote(path):
        with open_output(path) as stream:
            stream.write(content)
        return
    with _beside(path, content) as written:
        os.replace(written, path)


def put_if_absent(path: str, content: bytes) -> None:
    """Write a whole file or object that is not there yet. Raises FileExistsError if it is, and
    OSError, after which it may be there.

    On a disk a hard link gives the name, which fails if the name is taken. A link whose answer was
    lost, as on a mount that asks twice, is recognised by its inode. A store has a conditional put.
    """
    if is_remote(path):
        conditional_put.create(path, content)
        return
    with _beside(path, content) as written:
        try:
            os.link(written, path)
        except FileExistsError:
            if not os.path.samefile(written, path):
                raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A disk without hard links: it has no call that gives a name only if it is free.
            if os.path.exists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error
            os.rename(written, path)


@contextmanager
def _beside(path: str, content: bytes) -> Iterator[str]:
    """A context with a file of the content in the folder of ``path``, which is removed after it."""
    folder, name = os.path.split(path)
    written = os.path.join(folder, f".{name}.{uuid.uuid4()}.tmp")
    try:
        with open(written, "xb") as file:
            file.write(content)
        yield written
    finally:
        with suppress(OSError):  # what stays does not make a commit fail that is there
            os.remove(written)


def parquet_source(path: str) -> Any:
    """The file at ``path`` as pyarrow's Parquet reader takes it."""
    return path if not is_remote(path) else file_system().open_input_file(key_of(path))


def exists(path: str) -> bool:
    """Whether there is a file or a folder."""
    if not is_remote(path):
        return os.path.exists(path)
    info = file_system().get_file_info(key_of(path))
    return bool(info.type != pyarrow.fs.FileType.NotFound)


def is_file(path: str) -> bool:
    """Whether there is a file: of an object store that is one request, where ``exists`` lists what
    lies below the name, too, before it says no."""
    if not is_remote(path):
        return os.path.isfile(path)
    try:
        file_system().open_input_file(key_of(path)).close()
    except FileNotFoundError:
        return False
    return True


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
    """Removes a file. Raises FileNotFoundError where there is none."""
    if not is_remote(path):
        os.remove(path)
    else:
        file_system().delete_file(key_of(path))


def remove_if_there(path: str) -> None:
    with suppress(FileNotFoundError):
        remove(path)


def remove_folder(path: str) -> None:
    """Removes a folder with all that is in it."""
    if not is_remote(path):
        shutil.rmtree(path)
    else:
        file_system().delete_dir(key_of(path))


def names(folder: str) -> list[str]:
    """The files of a folder; empty where there is no folder."""
    if not is_remote(folder):
        return os.listdir(folder) if os.path.isdir(folder) else []
    chosen = pyarrow.fs.FileSelector(key_of(folder), allow_not_found=True)
    return [info.base_name for info in file_system().get_file_info(chosen)]


def names_after(folder: str, name: str) -> list[str]:
    """The files of a folder whose names come after ``name``; empty where there is no folder."""
    if not is_remote(folder):
        return [one for one in names(folder) if one > name]
    return conditional_put.names_after(folder, name)


def listed(folder: str) -> dict[str, float | None]:
    """The files of a folder, with the times of their last change where the listing says them, in
    seconds since 1970; of a local file ``modified`` does."""
    if not is_remote(folder):
        return dict.fromkeys(os.listdir(folder))
    chosen = pyarrow.fs.FileSelector(key_of(folder), allow_not_found=True)
    infos = file_system().get_file_info(chosen)
    return {info.base_name: info.mtime_ns / 1e9 for info in infos if info.is_file}


def modified(path: str) -> float:
    """When a local file was last changed, in seconds since 1970. Raises FileNotFoundError."""
    return os.path.getmtime(path)


def make_folder(path: str) -> None:
    """Makes a folder; on an object store, which has none, nothing is done."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)


def below(folder: str) -> pyarrow.fs.FileSystem:
    """The file system whose root is ``folder``."""
    if is_remote(folder):
        return pyarrow.fs.SubTreeFileSystem(key_of(folder), file_system())
    return pyarrow.fs.SubTreeFileSystem(folder, pyarrow.fs.LocalFileSystem())


def options(folder: str) -> dict[str, str] | None:
    """delta-rs' storage_options for a table."""
    return delta_rs_options() if is_remote(folder) else None


@contextmanager
def named(path: str) -> Iterator[None]:
    """Raises TargetError for what an object store refuses, whoever asked it."""
    try:
        yield
    except OSError as error:
        if not is_remote(path) or error.errno:
            raise
        if _NO_BUCKET.search(str(error)):
            raise _no_bucket(path) from error
        if _REFUSED.search(str(error)):
            raise TargetError(
                f"the object store refuses: {one_line(str(error))}",
                file=path,
                hint="give credentials that may read, write, list and delete there, as the AWS"
                " tools take them (AWS_ACCESS_KEY_ID, ...), and the endpoint and region"
                " (AWS_ENDPOINT_URL, AWS_REGION)",
            ) from error
        raise


def check_bucket(path: str) -> None:
    """Raises TargetError when the bucket of an object store isn't there, or refuses us."""
    if is_remote(path):
        with named(path):
            bucket = key_of(path).partition("/")[0]
            if not exists(f"s3a://{bucket}"):
                raise _no_bucket(path)


def _no_bucket(path: str) -> TargetError:
    return TargetError(
        f"there is no bucket {key_of(path).partition('/')[0]}",
        file=path,
        hint="make it, or mend target.path; buckets of another endpoint need AWS_ENDPOINT_URL",
    )


def one_line(text: str) -> str:
    """An error's text on one line, cut to 300 characters: delta-rs draws it as a tree."""
    return " ".join(re.sub(r"\x1b\[\d+m|↳", "", text).split())[:300]
