"""The working folder of a verify: digests that were made, so that one that was killed goes on."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import TargetError
from ..runtime.private_files import make_folder

if TYPE_CHECKING:
    from typing import IO, Self

    from ..binlog.definition import TableDefinition

_PLAN = "plan.json"


class WorkFolder:
    """A folder ``name`` that one verify at a time has. Raises TargetError while another one
    does."""

    def __init__(self, path: str, name: str = "work") -> None:
        self._path = os.path.join(path, name)
        self._name = "lock" if name == "work" else f"{name}.lock"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        make_folder(os.path.dirname(self._path))
        make_folder(self._path)
        self._lock = open(os.path.join(os.path.dirname(self._path), self._name), "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise TargetError(
                "another verify of this target is running", file=self._path,
                hint="wait until it has ended",
            ) from None  # fmt: skip
        return self

    def __exit__(self, *args: object) -> None:
        assert self._lock is not None
        self._lock.close()

    def of(self, definition: TableDefinition, ends: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """(the table's folder, the ranges' ends): those of a verify that was cut off, while the
        table's definition is the one that it has read."""
        folder, said = self._folder(definition.name), definition.to_json()
        plan = os.path.join(folder, _PLAN)
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            with open(plan, encoding="utf-8") as file:
                known = json.load(file)
            if known["definition"] == said:
                return folder, tuple(known["ends"])
        self.forget(definition.name)
        os.makedirs(folder)
        work = f"{plan}.{os.getpid()}"
        with open(work, "w", encoding="utf-8") as file:
            json.dump({"definition": said, "ends": ends}, file)
        os.replace(work, plan)
        return folder, ends

    def forget(self, name: str) -> None:
        shutil.rmtree(self._folder(name), ignore_errors=True)

    def clear(self) -> None:
        """Removes all, when the verify has come to its end."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _folder(self, name: str) -> str:
        return os.path.join(self._path, hashlib.sha256(name.encode()).hexdigest()[:32])
