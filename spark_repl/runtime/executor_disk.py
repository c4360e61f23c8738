"""ExecutorDisk: the disks of executors that can't read the driver's.

A task names a file of the working state by the driver's path. ``own_path`` returns the path at
which this process keeps such a file. In the driver, and on executors that share its disk, it is the
same path. On other executors it is below a folder of Spark's, which Spark removes with the
executor. Tasks can build or fetch every file there again.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..config.relative_paths import OFF
from .private_files import make_private_folder
from .target_uri import canonical, is_remote

if TYPE_CHECKING:
    from ..config import Config

_ROOT = "spark_repl"
_TRIM_EVERY_S = 30.0
_SPARK_SCRATCH = "/tmp"
_USED_S = 60.0
"""seconds: a file that was used more recently is not removed, and its time is not set again"""

_root = ""
"""folder that replaces the root of the driver's paths during a task; "": this process reads the
driver's disk"""
_trimmed = 0.0
_cache_bytes, _free_bytes = 0, -1
"""bound of the current task's disk, and how many bytes of it are free; -1: not measured yet"""
_lock = threading.Lock()


@dataclass(frozen=True)
class ExecutorDisk:
    """The disks of executors that can't read the driver's disk. ``cache_bytes``: the most bytes
    that spark_repl keeps on each of them between tasks."""

    cache_bytes: int

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a context in which this process keeps its files on its own disk. After the
        context, Spark may give the process to tasks of other sessions, whose executors may read the
        driver's disk.

        At its end, but at most every 30 s in a process, remove the least recently used files if
        there are more than ``cache_bytes``. Raise OSError.
        """
        global _root, _trimmed, _cache_bytes, _free_bytes
        root = os.path.join(local_folder(), _ROOT)
        make_private_folder(root)
        _root, _cache_bytes, _free_bytes = root, self.cache_bytes, -1
        try:
            yield
        finally:
            _root = ""
            if time.monotonic() - _trimmed > _TRIM_EVERY_S:
                _trimmed = time.monotonic()
                remove_oldest(root, self.cache_bytes)


def executor_disk(master: str, config: Config) -> ExecutorDisk | None:
    """Return the disks of the executors of a Spark master, or None if they read the driver's disk.

    Executors of a local master are on the driver's machine. Other executors read the driver's files
    through a shared mount, unless the target and the relay log's archive are on object stores.
    """
    archive = config.relay.archive
    if master.startswith("local") or archive == OFF:
        return None
    if not all(is_remote(canonical(path)) for path in (config.target.path, archive) if path):
        return None
    return ExecutorDisk(config.apply.executor_cache_bytes)


def local_folder() -> str:
    """Return a folder for temporary files on this process's machine. On an executor it is
    Spark's."""
    return _first_local_dir() or tempfile.gettempdir()


def spark_scratch_folder() -> str:
    """Return Spark's scratch folder on this process's machine: of SPARK_LOCAL_DIRS, or else
    Spark's default of ``spark.local.dir``."""
    return _first_local_dir() or _SPARK_SCRATCH


def _first_local_dir() -> str:
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]


def has_own_disk() -> bool:
    """Return whether this process is an executor that can't read the driver's disk."""
    return bool(_root)


def own_path(path: str) -> str:
    """Return the path at which this process keeps its version of the file that the driver has at
    the absolute ``path``."""
    return _root + path if _root else path


def take_room(size: int) -> bool:
    """Return whether a file of ``size`` bytes may be kept on this process's disk. Otherwise the
    task uses its content without storing it. On the driver's disk every file may be kept.

    After the first file that does not fit, no further file fits until the end of the task.
    """
    global _free_bytes
    if not _root:
        return True
    with _lock:
        if _free_bytes < 0:
            _free_bytes = max(0, _cache_bytes - sum(size for _, size, _ in _files(_root)))
        fits = size <= _free_bytes
        _free_bytes = _free_bytes - size if fits else 0
        return fits


def has_room() -> bool:
    """Return whether ``take_room`` may return True for a file of at least a byte."""
    return take_room(0) and (not _root or _free_bytes > 0)


def mark_used(path: str) -> None:
    """Record that a file on an executor's own disk was used. Do nothing on the driver's disk."""
    if _root:
        with suppress(OSError):
            if time.time() - os.path.getmtime(path) > _USED_S:
                os.utime(path)


def remove_oldest(folder: str, most: int) -> None:
    """Remove the least recently used files below a folder until the others have at most nine tenths
    of ``most`` bytes. Do nothing if all files have at most ``most``. Other processes may remove
    files meanwhile."""
    files = sorted(_files(folder))
    total, used_since = sum(size for _, size, _ in files), time.time() - _USED_S
    if total <= most:
        return
    for modified, size, path in files:
        if total <= most * 9 // 10 or modified > used_since:
            return
        with suppress(OSError):
            os.remove(path)
        total -= size


def _files(folder: str) -> Iterator[tuple[float, int, str]]:
    """Yield (time of the last use, size, path) of each file below a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with suppress(OSError):
                stat = os.stat(path)
                yield stat.st_mtime, stat.st_size, path
