"""Download of archived log files: several ranges of objects at once, with bounded memory. And the
archive that a command's argument names.

Errors of the archive are separate from errors of the local disk: ``ArchiveUnreadableError`` names
the former, and only OSError the latter.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ArchiveUnreadableError, ConfigError, LogError, Stopped, TargetError
from ..runtime.private_files import private_opener
from ..runtime.stores import store_of
from ..runtime.target_uri import canonical
from ..runtime.threads import Pool
from .archive import RelayArchive
from .file_list import file_name

if TYPE_CHECKING:
    from .archive import ArchivedFile, ArchivedLog

_RANGE_BYTES = 8 << 20
_RANGES_MAX = 8
"""ranges that are read at once: at most 64 MiB of memory"""
_REFUSED = (errno.EACCES, errno.EPERM)
_GENERATION = re.compile(r"\d{8}")


@contextmanager
def reading_archive(path: str) -> Iterator[None]:
    """Translate errors of a block that only reads the archive. Raise FileNotFoundError if an object
    is missing, TargetError if the store or a folder's permissions refuse access,
    ArchiveUnreadableError for any other OSError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _REFUSED:
            raise TargetError(
                f"can't read the relay log's archive: {error.strerror}",
                file=str(error.filename or path),
                hint="give the account the right to read relay.archive",
            ) from error
        raise ArchiveUnreadableError(str(error), file=path) from error


class _ObjectRange(NamedTuple):
    """``length`` bytes of an object from ``start`` on; they belong at ``offset`` of the file."""

    uri: str
    start: int
    length: int
    offset: int


def download(
    file: ArchivedFile, path: Path, is_stopping: Callable[[], bool] = lambda: False
) -> None:
    """Write an archived log file to ``path``, durably.

    Raise OSError for the local file, Stopped if ``is_stopping`` returns True meanwhile, LogError if
    an object is shorter than its listing, and as ``reading_archive``.
    """
    with open(path, "wb", opener=private_opener) as stream:

        def fetch(part: _ObjectRange) -> None:
            if is_stopping():
                raise Stopped
            with reading_archive(part.uri):
                data = store_of(part.uri).read_range(part.uri, part.start, part.length)
            if len(data) != part.length:
                raise LogError("the archived object is shorter than its listing", file=part.uri)
            _write_at(stream.fileno(), data, part.offset)

        with Pool(_RANGES_MAX, "archive") as pool:
            futures = [pool.submit(fetch, part) for part in _ranges(file)]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        os.fsync(stream.fileno())


def _write_at(fd: int, data: bytes, offset: int) -> None:
    left = memoryview(data)
    while left:
        count = os.pwrite(fd, left, offset)
        left, offset = left[count:], offset + count


def _ranges(file: ArchivedFile) -> Iterator[_ObjectRange]:
    for chunk in file.chunks:
        size = chunk.end - chunk.begin
        for start in range(0, size, _RANGE_BYTES):
            length = min(_RANGE_BYTES, size - start)
            yield _ObjectRange(chunk.uri, start, length, chunk.begin + start)


def download_log(log: ArchivedLog, folder: Path) -> None:
    """Write the files of an archived log into a folder. Raise as ``download``."""
    for file in log.files:
        download(file, folder / file_name(file.number))


def archive_at(path: str) -> tuple[RelayArchive, int | None] | None:
    """Return the archive at a path or URI, and the generation if the path is that of one. Return
    None for a path that is not an archive.

    ``path``: the archive of a channel, one of its generations, or ``relay.archive`` with one
    channel. Raise ConfigError for a URI without an archive, and if several channels have one.
    """
    is_uri = "://" in path
    root = canonical(path) if is_uri else os.path.abspath(path)
    with reading_archive(root):
        parent, _, name = root.rpartition("/")
        if _GENERATION.fullmatch(name) and RelayArchive(parent).has(int(name)):
            return RelayArchive(parent), int(name)
        names = sorted(store_of(root).names(root))
        if _has_logs(root, names):
            return RelayArchive(root), None
        places = [f"{root}/{name}" for name in names]
        archives = [place for place in places if _has_logs(place, store_of(root).names(place))]
    if len(archives) == 1:
        return RelayArchive(archives[0]), None
    if archives:
        raise ConfigError(
            f"several channels have archived relay logs here: {', '.join(archives)}", file=path,
            hint="give the place of one of them",
        )  # fmt: skip
    if is_uri:
        raise ConfigError(
            "there is no archived relay log here", file=path,
            hint="give relay.archive, or _repl/relay below the target",
        )  # fmt: skip
    return None


def _has_logs(root: str, names: list[str]) -> bool:
    archive = RelayArchive(root)
    return any(_GENERATION.fullmatch(name) and archive.has(int(name)) for name in names)
