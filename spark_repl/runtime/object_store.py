"""ObjectStore: objects on S3, Google Cloud Storage, Azure Blob and ADLS Gen2, or in memory for
tests, through obstore.

An object becomes visible as a whole, and durable, when its writer closes it. A store has no
folders: a folder exists while there is an object below it. Tools put empty objects in place of
folders; they do not count.
"""

from __future__ import annotations

import errno
import io
import os
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from .object_store_errors import translated_errors
from .store import StoredFile, Tag
from .store_clients import client_of

if TYPE_CHECKING:
    from types import TracebackType

    from obstore import ListResult, ObjectMeta, PutMode, PutResult, UpdateVersion
    from obstore.store import ObjectStore as Client

_ID = "sparkreplput"
"""name of an object's attribute by which its writer is recognised; Azure takes letters only"""
_AHEAD_BYTES = 1 << 20
"""read in one request where less was asked for"""
_PART_BYTES, _PUT_PART_BYTES = 10 << 20, 5 << 20
"""of a stream of unknown length; of a content that is put as a whole (obstore's own)"""
_LISTED = 1000
"""objects of one request"""
_counts: Counter[str] = Counter()
_counting = threading.Lock()


def request_counts() -> dict[str, int]:
    """Return the number of this process's requests by kind: list, head, get, put, delete. The
    retries of obstore, and the requests of delta-rs, are not counted."""
    with _counting:
        return dict(_counts)


def _count(kind: str, number: int = 1) -> None:
    with _counting:
        _counts[kind] += number


def _count_put(size: int, part: int) -> None:
    """Count a put: above one part there is a request for each part, and two around them."""
    _count("put", 1 if size <= part else -(-size // part) + 2)


class ObjectStore:
    """A ``Store`` whose paths are URIs."""

    def read(self, path: str) -> bytes:
        client, key = client_of(path)
        _count("get")
        with translated_errors(path):
            return obstore.get(client, key).bytes().to_bytes()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        client, key = client_of(path)
        _count("get")
        with translated_errors(path):
            return obstore.get_range(client, key, start=start, length=length).to_bytes()

    def open_input(self, path: str) -> BinaryIO:
        return cast(BinaryIO, io.BufferedReader(self.open_parquet(path), _AHEAD_BYTES))

    def open_parquet(self, path: str) -> ObjectInput:
        """Open an object whose ranges are read as they are asked for, none ahead."""
        return ObjectInput(path, self.stat(path).size)

    def open_output(self, path: str) -> BinaryIO:
        return cast(BinaryIO, ObjectOutput(path))

    def put(self, path: str, content: bytes) -> None:
        client, key = client_of(path)
        _count_put(len(content), _PUT_PART_BYTES)
        with translated_errors(path):
            obstore.put(client, key, content)

    def put_if_absent(self, path: str, content: bytes) -> None:
        client, key = client_of(path)
        if _put_if(client, key, path, content, "create") is None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        client, key = client_of(path, small=True)
        _count("get")
        with translated_errors(path):
            result = obstore.get(client, key)
            return result.bytes().to_bytes(), _tag(result.meta)

    def put_if_match(self, path: str, content: bytes, tag: Tag | None) -> Tag | None:
        client, key = client_of(path, small=True)
        return _put_if(client, key, path, content, _mode(tag))

    def stat(self, path: str) -> StoredFile:
        client, key = client_of(path)
        _count("head")
        with translated_errors(path):
            return _entry(obstore.head(client, key))

    def exists(self, path: str) -> bool:
        client, key = client_of(path)
        try:
            if key:
                self.stat(path)
                return True
        except FileNotFoundError:
            pass
        with translated_errors(path):
            pages = obstore.list(client, f"{key}/" if key else None)
            return any(meta["size"] for page in _counted(pages) for meta in page)

    def names(self, folder: str) -> list[str]:
        client, key = client_of(folder)
        with translated_errors(folder):
            listing = _list_folder(client, key)
        paths = [*listing["common_prefixes"], *(meta["path"] for meta in listing["objects"])]
        return [path[len(key) + 1 :] for path in paths]

    def entries(self, folder: str) -> dict[str, StoredFile]:
        """Return the objects right below a folder, by name."""
        client, key = client_of(folder)
        with translated_errors(folder):
            objects = _list_folder(client, key)["objects"]
        return {meta["path"][len(key) + 1 :]: _entry(meta) for meta in objects}

    def names_after(self, folder: str, name: str) -> list[str]:
        """A request for each thousand objects that come after the name, at any depth."""
        client, key = client_of(folder)
        with translated_errors(folder):
            pages = obstore.list(client, f"{key}/", offset=f"{key}/{name}")
            below = [meta["path"][len(key) + 1 :] for page in _counted(pages) for meta in page]
        return sorted(path for path in below if "/" not in path)

    def walk(self, folder: str) -> Iterator[tuple[str, StoredFile]]:
        client, key = client_of(folder)
        pages = _counted(obstore.list(client, f"{key}/"))
        while True:
            with translated_errors(folder):
                page = next(pages, None)
            if page is None:
                return
            for meta in page:
                if meta["size"]:
                    yield meta["path"][len(key) + 1 :], _entry(meta)

    def remove(self, path: str) -> None:
        client, key = client_of(path)
        _count("delete")
        with translated_errors(path):
            obstore.delete(client, key)

    def remove_folder(self, folder: str) -> None:
        client, key = client_of(folder)
        with translated_errors(folder):
            for page in _counted(obstore.list(client, f"{key}/")):
                _count("delete")
                obstore.delete(client, [meta["path"] for meta in page])


class ObjectInput(io.RawIOBase):
    """An object to read from any place: a request for each read."""

    def __init__(self, path: str, size: int) -> None:
        self._path, self._size, self._at = path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self._path)
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, self._size - self._at)
        length = rest if size is None or size < 0 else min(size, rest)
        if not length:
            return b""
        client, key = client_of(self._path)
        _count("get")
        with translated_errors(self._path):
            content = obstore.get_range(client, key, start=self._at, length=length).to_bytes()
        self._at += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class ObjectOutput:
    """A new object: in one request if it is small, else in parts, several at once. It is there when
    it is closed. If its context fails it never is, and its parts stay until the store removes them.

    It is no ``io`` class: those close an object that is garbage-collected.
    """

    def __init__(self, path: str) -> None:
        client, key = client_of(path)
        self._path, self._written, self.closed = path, 0, False
        with translated_errors(path):
            self._writer = obstore.open_writer(client, key, buffer_size=_PART_BYTES)

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        with translated_errors(self._path):
            self._writer.write(content)
        size = memoryview(content).nbytes
        self._written += size
        return size

    def flush(self) -> None:
        """Do nothing: an object is there as a whole, or not at all."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            _count_put(self._written, _PART_BYTES)
            with translated_errors(self._path):
                self._writer.close()

    def __enter__(self) -> ObjectOutput:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        self.closed = True


def _counted(pages: Iterable[Sequence[ObjectMeta]]) -> Iterator[Sequence[ObjectMeta]]:
    """Yield pages of a listing, and count a request for each; for none as well."""
    is_empty = True
    for page in pages:
        is_empty = False
        _count("list")
        yield page
    if is_empty:
        _count("list")


def _list_folder(client: Client, key: str) -> ListResult[Sequence[ObjectMeta]]:
    listing = obstore.list_with_delimiter(client, f"{key}/")
    listed = len(listing["objects"]) + len(listing["common_prefixes"])
    _count("list", max(1, -(-listed // _LISTED)))
    return listing


def _put_if(client: Client, key: str, path: str, content: bytes, mode: PutMode) -> Tag | None:
    """Put an object if the store's own condition is true. Return its tag, or None if the condition
    is false.

    obstore repeats a request whose answer was lost. The store then refuses the second one, and the
    object's id shows whether this call wrote the object.
    """
    own = uuid.uuid4().hex
    _count("put")
    with translated_errors(path):
        try:
            return _tag(obstore.put(client, key, content, mode=mode, attributes={_ID: own}))
        except (AlreadyExistsError, PreconditionError):
            pass
    _count("get")
    try:
        with translated_errors(path):
            existing = obstore.get(client, key)
    except FileNotFoundError:
        return None
    return _tag(existing.meta) if existing.attributes.get(_ID) == own else None


def _mode(tag: Tag | None) -> PutMode:
    """Return the condition of a put: obstore wants no None in it."""
    if tag is None:
        return "create"
    condition: UpdateVersion = {}
    if tag.e_tag is not None:
        condition["e_tag"] = tag.e_tag
    if tag.version is not None:
        condition["version"] = tag.version
    return condition


def _tag(meta: ObjectMeta | PutResult) -> Tag:
    return Tag(meta["e_tag"], meta["version"])


def _entry(meta: ObjectMeta) -> StoredFile:
    return StoredFile(meta["size"], meta["last_modified"].timestamp())
