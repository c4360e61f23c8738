"""StoreWorkers: executors that can't write to the driver's disk. They put digests into the target's
store, from where the driver copies them into its work folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..delta.store import storage
from ..delta.store.remover import Remover
from ..runtime.executor_disk import local_folder
from ..runtime.private_files import private_opener

if TYPE_CHECKING:
    from ..runtime.workers import Workers

_COPY_BYTES = 16 << 20


class StoreWorkers:
    """Runs lists of tasks on executors. ``out`` of a task: the path of its result on the driver's
    disk, or "". ``staging``: the folder in the store for results that the driver has not copied
    yet."""

    def __init__(self, workers: Workers, staging: str) -> None:
        self._workers = workers
        self._folder = f"{staging}/verify-{uuid.uuid4().hex}"

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Run the tasks, and return each list's result when its files are on the driver's disk."""
        try:
            results = self._workers.run(_Uploading(function, self._folder), tasks)
            for out in {task.out for share in tasks for task in share if task.out}:
                self._fetch(out)
        finally:
            Remover().folder(self._folder, bool)  # its own files, under a name of its own
        return results

    def _fetch(self, out: str) -> None:
        """Copy a result to the driver's disk, unless its task has failed and written none."""
        path = f"{self._folder}/{_name(out)}"
        if not storage.is_file(path):
            return
        part = f"{out}.{uuid.uuid4().hex}"
        with storage.open_input(path) as source, open(part, "wb", opener=private_opener) as file:
            shutil.copyfileobj(source, file, _COPY_BYTES)
        os.replace(part, out)


@dataclass(frozen=True)
class _Uploading:
    """A worker's function that also puts the results into a folder of the store."""

    function: Callable[[Any], Any]
    folder: str

    def __call__(self, tasks: Sequence[Any]) -> Any:
        own = tempfile.mkdtemp(dir=local_folder())
        try:
            result = self.function([
                replace(task, out=os.path.join(own, _name(task.out))) if task.out else task
                for task in tasks
            ])  # fmt: skip
            for name in os.listdir(own):
                path = f"{self.folder}/{name}"
                with open(os.path.join(own, name), "rb") as file, storage.open_output(path) as out:
                    shutil.copyfileobj(file, out, _COPY_BYTES)
        finally:
            shutil.rmtree(own, ignore_errors=True)
        return result


def _name(out: str) -> str:
    """Return a result's name in the store: the name of its table's folder, and its own."""
    return out.rsplit(os.sep, 2)[-2] + "-" + os.path.basename(out)
