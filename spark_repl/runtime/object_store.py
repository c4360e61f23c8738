"""ObjectStore: objects on S3, Google Cloud Storage, Azure Blob and ADLS Gen2, or in memory for
tests, through obstore.

An object becomes visible as a whole, and durable, when its writer closes it. A store has no
folders: a folder exists while there is an object below it. Tools put empty objects in place of
folders; they do not count.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from .object_store_errors import call_when_expired, translated_errors
from .store import StoredFile, Tag
from .store_clients import LEASE_S, Use, client_of, forget_clients
from .store_requests import REPEAT_S, count_requests, send

if TYPE_CHECKING:
    from types import TracebackType

    from obstore import (
        ListResult,
        ListStream,
        ObjectMeta,
        PutMode,
        PutResult,
        UpdateVersion,
        WritableFile,
    )
    from obstore.store import ObjectStore as Client

call_when_expired(forget_clients)

logger = logging.getLogger(__name__)

_ID = "sparkreplput"
"""name of an object's attribute by which its writer is recognised; Azure takes letters only"""
_AHEAD_BYTES = 1 << 20
"""read in one request where less was asked for"""
_FIRST_BYTES = 128 << 10
"""read when a Parquet file is opened: all of most files of small groups, and of most checkpoints"""
_PART_BYTES, _PUT_PART_BYTES = 10 << 20, 5 << 20
"""of a stream of unknown length; of a content that is put as a whole (obstore's own)"""
_UPLOAD_BYTES = 1 << 20
"""content of a put above which a slow line needs more time than a store for its answer"""
_LISTED = 1000
"""objects of one request"""
_DELETED = {"abfss": 256, "gs": 1}
"""objects that obstore deletes in one request, by scheme; others: ``_LISTED``"""
T = TypeVar("T")


def _put_requests(size: int, part: int) -> int:
    """Return the number of requests of a put: above one part there is a request for each part, and
    two around them."""
    return 1 if size <= part else -(-size // part) + 2


def _put_use(size: int) -> Use:
    """Return the use of a client for an object of ``size`` bytes that is sent in one request."""
    return "upload" if size > _UPLOAD_BYTES else ""


def _send(
    kind: str, path: str, request: Callable[[], T], *, number: int = 1, repeat_s: float = REPEAT_S
) -> T:
    """Return the result of a request about ``path``, as ``send``. Raise its translated errors."""

    def translated() -> T:
        with translated_errors(path):
            return request()

    return send(kind, translated, number=number, repeat_s=repeat_s)


class ObjectStore:
    """A ``Store`` whose paths are URIs."""

    def read(self, path: str) -> bytes:
        client, key = client_of(path)
        return _send("get", path, lambda: obstore.get(client, key).bytes().to_bytes())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        client, key = client_of(path)
        return _send(
            "get",
            path,
            lambda: obstore.get_range(client, key, start=start, length=length).to_bytes(),
        )

    def open_input(self, path: str) -> BinaryIO:
        source = ObjectInput(path, self.stat(path).size)
        return cast(BinaryIO, io.BufferedReader(source, _AHEAD_BYTES))

    def open_parquet(self, path: str) -> ObjectInput:
        """Open an object whose ranges are read when they are requested. The request for its size
        returns its first bytes too, so a small object takes one request in all."""
        client, key = client_of(path)

        def request() -> ObjectInput:
            result = obstore.get(client, key, options={"range": (0, _FIRST_BYTES)})
            return ObjectInput(path, result.meta["size"], result.bytes().to_bytes())

        return _send("get", path, request)

    def open_output(self, path: str) -> BinaryIO:
        return cast(BinaryIO, ObjectOutput(path))

    def put(self, path: str, content: bytes) -> None:
        number = _put_requests(len(content), _PUT_PART_BYTES)
        client, key = client_of(path, "parts" if number > 1 else _put_use(len(content)))
        try:
            _send("put", path, lambda: obstore.put(client, key, content), number=number)
        except FileNotFoundError as error:
            if number == 1:
                raise
            raise _unknown_outcome(error, path) from error

    def put_if_absent(self, path: str, content: bytes) -> None:
        client, key = client_of(path, _put_use(len(content)))
        if _put_if(client, key, path, content, "create") is None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def read_tagged(self, path: str) -> tuple[bytes, Tag]:
        client, key = client_of(path, "lease")

        def request() -> tuple[bytes, Tag]:
            result = obstore.get(client, key)
            return result.bytes().to_bytes(), _tag(result.meta)

        return _send("get", path, request, repeat_s=LEASE_S)

    def put_if_match(self, path: str, content: bytes, tag: Tag | None) -> Tag | None:
        client, key = client_of(path, "lease")
        return _put_if(client, key, path, content, _mode(tag), repeat_s=LEASE_S)

    def stat(self, path: str) -> StoredFile:
        client, key = client_of(path)
        return _entry(_send("head", path, lambda: obstore.head(client, key)))

    def exists(self, path: str) -> bool:
        client, key = client_of(path)
        try:
            if key:
                self.stat(path)
                return True
        except FileNotFoundError:
            pass
        return any(meta["size"] for page in _Pages(client, key, path) for meta in page)

    def names(self, folder: str) -> list[str]:
        client, key = client_of(folder)
        listing = _list_folder(client, key, folder)
        paths = [*listing["common_prefixes"], *(meta["path"] for meta in listing["objects"])]
        return [path[len(key) + 1 :] for path in paths]

    def entries(self, folder: str) -> dict[str, StoredFile]:
        """Return the objects directly below a folder, by name."""
        client, key = client_of(folder)
        objects = _list_folder(client, key, folder)["objects"]
        return {meta["path"][len(key) + 1 :]: _entry(meta) for meta in objects}

    def names_after(self, folder: str, name: str) -> list[str]:
        """Send a request for each thousand objects after the name, at any depth."""
        client, key = client_of(folder)
        pages = _Pages(client, key, folder, f"{key}/{name}")
        below = [meta["path"][len(key) + 1 :] for page in pages for meta in page]
        return sorted(path for path in below if "/" not in path)

    def walk(self, folder: str) -> Iterator[tuple[str, StoredFile]]:
        client, key = client_of(folder)
        for page in _Pages(client, key, folder):
            for meta in page:
                if meta["size"]:
                    yield meta["path"][len(key) + 1 :], _entry(meta)

    def remove(self, path: str) -> None:
        client, key = client_of(path)
        _delete(client, [key], path)

    def remove_objects(self, paths: Sequence[str]) -> None:
        """Remove at most a thousand objects of one bucket, in any order. S3 takes them in one
        request. A missing object is no error."""
        if paths:
            client, _ = client_of(paths[0])
            with suppress(FileNotFoundError):
                _delete(client, [client_of(path)[1] for path in paths], paths[0])

    def remove_folder(self, folder: str) -> None:
        client, key = client_of(folder)
        for page in _Pages(client, key, folder):
            _delete(client, [meta["path"] for meta in page], folder)


class ObjectInput(io.RawIOBase):
    """An object that can be read at any offset, with one request for each read outside its first
    bytes, which are ``first``."""

    def __init__(self, path: str, size: int, first: bytes = b"") -> None:
        self._path, self._size, self._first, self._at = path, size, first, 0

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
        end = self._at + length
        if end <= len(self._first):
            content = self._first[self._at : end]
        else:
            content = _STORE.read_range(self._path, self._at, length)
        self._at += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class ObjectOutput:
    """A new object. It is sent in one request if it is small, otherwise in parts, several in
    parallel. It exists after it is closed. If its context fails, it never exists, and its parts are
    removed.

    It is not an ``io`` class, because those close an object that is garbage-collected.
    """

    def __init__(self, path: str) -> None:
        self._path, self._written, self.closed = path, 0, False
        self._first = list[bytes]()  # content of an object that may be small
        self._parts: WritableFile | None = None

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        self._written += size
        if self._written <= _PART_BYTES:
            self._first.append(bytes(content))
            return size
        with translated_errors(self._path):
            if self._parts is None:
                client, key = client_of(self._path, "parts")
                self._parts = obstore.open_writer(client, key, buffer_size=_PART_BYTES)
                self._parts.write(b"".join(self._first))
                self._first.clear()
            self._parts.write(content)
        return size

    def flush(self) -> None:
        """Do nothing: an object exists completely or not at all."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._parts is None:
            content = b"".join(self._first)
            client, key = client_of(self._path, _put_use(len(content)))
            _send("put", self._path, lambda: obstore.put(client, key, content, use_multipart=False))
            return
        count_requests("put", _put_requests(self._written, _PART_BYTES))
        try:
            with translated_errors(self._path):
                self._parts.close()
        except FileNotFoundError as error:
            raise _unknown_outcome(error, self._path) from error

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
        elif self._parts is not None and not self.closed:
            count_requests("delete")
            try:
                self._parts.__exit__(kind, error, traceback)
            except (BaseError, OSError) as failure:
                logger.warning("%s: parts of an upload are left: %s", self._path, failure)
        self.closed = True


_STORE = ObjectStore()


class _Pages:
    """Objects below a key that come after ``after``, in pages of a request each. A request that
    failed is repeated after the last object that was listed."""

    def __init__(self, client: Client, key: str, path: str, after: str | None = None) -> None:
        self._client, self._prefix, self._path = client, f"{key}/" if key else None, path
        self._after, self._pages = after, cast("ListStream[Sequence[ObjectMeta]] | None", None)

    def __iter__(self) -> Iterator[Sequence[ObjectMeta]]:
        while page := _send("list", self._path, self._next):
            self._after = page[-1]["path"]
            yield page
            if len(page) < _LISTED:
                return

    def _next(self) -> Sequence[ObjectMeta] | None:
        pages = self._pages or obstore.list(
            self._client, self._prefix, offset=self._after, chunk_size=_LISTED
        )
        self._pages = None
        page = next(pages, None)
        self._pages = pages
        return page


def _list_folder(client: Client, key: str, path: str) -> ListResult[Sequence[ObjectMeta]]:
    """Return what is right below a key, by a request for each thousand names."""
    listing = _send("list", path, lambda: obstore.list_with_delimiter(client, f"{key}/"))
    names = len(listing["objects"]) + len(listing["common_prefixes"])
    count_requests("list", max(0, -(-names // _LISTED) - 1))
    return listing


def _unknown_outcome(error: FileNotFoundError, path: str) -> OSError:
    """Return the error for an upload in parts that a repeated request did not find any more: the
    request before may have completed it."""
    return OSError(errno.EIO, f"unknown outcome: {error}", path)


def _delete(client: Client, keys: Sequence[str], path: str) -> None:
    """Delete objects. Of several some may be missing. Raise FileNotFoundError if a single one is
    missing, except on S3, and except for a repeated request: the first may have deleted it."""
    attempts, rest = 0, list(keys)

    def request() -> None:
        nonlocal attempts
        attempts += 1
        try:
            obstore.delete(client, rest)
        except FileNotFoundError:
            if attempts == 1 and len(keys) == 1:
                raise
            while rest:  # obstore has ended with the first that is missing
                with suppress(FileNotFoundError):
                    count_requests("delete")
                    obstore.delete(client, rest[-1])
                rest.pop()  # a repeated request goes on from here

    number = -(-len(keys) // _DELETED.get(path.partition(":")[0], _LISTED))
    _send("delete", path, request, number=number)


def _put_if(
    client: Client, key: str, path: str, content: bytes, mode: PutMode, repeat_s: float = REPEAT_S
) -> Tag | None:
    """Put an object if the store's own condition is true. Return its tag, or None if the condition
    is false.

    A request whose answer was lost is repeated. The store then refuses the second one, and the
    object's id shows whether this call wrote the object.
    """
    own = uuid.uuid4().hex

    def put() -> PutResult | None:
        try:
            return obstore.put(client, key, content, mode=mode, attributes={_ID: own})
        except (AlreadyExistsError, PreconditionError):
            return None

    result = _send("put", path, put, repeat_s=repeat_s)
    if result is not None:
        return _tag(result)
    try:
        existing = _send("get", path, lambda: obstore.get(client, key), repeat_s=repeat_s)
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
