"""Disks: which of those that a run writes to have no room left, seen by whoever looks.

Whoever waits for room can't say so in a file that lies on the same disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..runtime.object_store import is_remote

_FULL_BYTES = 1 << 20
"""with less than this nothing of use can be written"""


@dataclass(frozen=True)
class FullDisk:
    """``names``: what lies on it; ``path``: a place there; ``bytes``: how many are left."""

    names: tuple[str, ...]
    path: str
    bytes: int


def bytes_left(path: str) -> int | None:
    """How many bytes accounts may still write where ``path`` is; None where nobody knows."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else None


def full_disks(
    places: Mapping[str, str], left: Callable[[str], int | None] = bytes_left
) -> list[FullDisk]:
    """The full ones of those that ``places``, paths by what is there, are on. Places on one disk
    are named together; those on an object store have none."""
    full = dict[int, FullDisk]()
    for name, path in places.items():
        size = None if is_remote(path) else left(path)
        if size is None or size >= _FULL_BYTES:
            continue
        device = os.stat(path).st_dev if os.path.exists(path) else -1
        one = full.get(device, FullDisk((), os.path.abspath(path), size))
        full[device] = FullDisk((*one.names, name), one.path, one.bytes)
    return list(full.values())
