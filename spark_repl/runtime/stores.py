"""The store of a path: a local disk's, or an object store's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .local_store import LocalStore
from .object_store import ObjectStore
from .private_files import make_private_folder
from .target_uri import is_remote

if TYPE_CHECKING:
    from .store import Store

LOCAL_STORE, REMOTE_STORE = LocalStore(), ObjectStore()


def store_of(path: str) -> Store:
    """Return the store of an absolute path or a canonical URI."""
    return REMOTE_STORE if is_remote(path) else LOCAL_STORE


def put_durably(path: str, content: bytes) -> None:
    """Write a whole file if the name is free, in a folder that need not exist. The file survives a
    power failure. Raise as ``Store.put_if_absent``."""
    if is_remote(path):
        REMOTE_STORE.put_if_absent(path, content)
        return
    folder = os.path.dirname(path)
    created = not os.path.isdir(folder)
    make_private_folder(folder)
    try:
        LOCAL_STORE.put_if_absent(path, content)
    finally:
        if os.path.exists(path):
            _sync(path)
            _sync(folder)
            if created:
                _sync(os.path.dirname(folder))


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
