"""What pyarrow's file systems lack of an object store: a put that fails if the object is there, and
a listing from a name on."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from .object_store import key_of, store_options

if TYPE_CHECKING:
    from obstore.store import S3Config


def create(path: str, content: bytes) -> None:
    """Write an object that is not there yet. Raises FileExistsError if it is: also if it is this
    one, whose answer was lost. Raises OSError, after which it may be there."""
    bucket, _, key = key_of(path).partition("/")
    try:
        obstore.put(_store(bucket, store_options()), key, content, mode="create")
    except AlreadyExistsError as error:
        raise FileExistsError(str(error)) from error
    except BaseError as error:
        raise OSError(str(error)) from error


def names_after(folder: str, name: str) -> list[str]:
    """Return the names of the objects right below a folder that come after ``name``. A request for
    each thousand. Raises OSError."""
    bucket, _, prefix = key_of(folder).partition("/")
    store = _store(bucket, store_options())
    try:
        pages = obstore.list(store, f"{prefix}/", offset=f"{prefix}/{name}")
        keys = [str(entry["path"]).removeprefix(f"{prefix}/") for page in pages for entry in page]
    except BaseError as error:
        raise OSError(str(error)) from error
    return [key for key in keys if "/" not in key]


@cache
def _store(bucket: str, options: tuple[tuple[str, str], ...]) -> S3Store:
    return S3Store(bucket, config=cast("S3Config", dict(options)))
