"""WorkFolder: the digests that a verify keeps on disk, so that a killed verify resumes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import TargetError
from ..runtime.private_files import make_private_folder

if TYPE_CHECKING:
    from typing import IO, Self

    from ..delta.files.digests import Digests
    from ..tables.target_table import TargetTable

_PLAN = "plan.json"


@dataclass(frozen=True)
class TablePlan:
    """How a table is read. ``ranges``: WHERE clauses; ``sample``: which rows they select, as JSON,
    if only about ``percent`` of the rows are requested."""

    ranges: tuple[str, ...] = ()
    percent: float = 100
    sample: str = ""


class WorkFolder:
    """A folder ``name`` that only one verify at a time uses. Raise TargetError while another verify
    uses it."""

    def __init__(self, path: str, name: str = "work") -> None:
        self._path = os.path.join(path, name)
        self._name = "lock" if name == "work" else f"{name}.lock"
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        make_private_folder(os.path.dirname(self._path))
        make_private_folder(self._path)
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

    def of(self, definition: TargetTable, plan: TablePlan) -> tuple[str, TablePlan]:
        """Return the table's folder, and how the table is read.

        Return an interrupted verify's plan if it has the same definition and the same ``percent``;
        otherwise record ``plan`` in an empty folder.
        """
        folder, wanted = self._folder(definition.name), definition.to_json()
        file_name = os.path.join(folder, _PLAN)
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            with open(file_name, encoding="utf-8") as file:
                recorded = json.load(file)
            if (recorded["definition"], recorded["percent"]) == (wanted, plan.percent):
                return folder, TablePlan(
                    tuple(recorded["ranges"]), recorded["percent"], recorded["sample"]
                )
        self.forget(definition.name)
        os.makedirs(folder)
        work = f"{file_name}.{os.getpid()}"
        with open(work, "w", encoding="utf-8") as file:
            json.dump({"definition": wanted, **asdict(plan)}, file)
        os.replace(work, file_name)
        return folder, plan

    def forget(self, name: str) -> None:
        shutil.rmtree(self._folder(name), ignore_errors=True)

    def clear(self) -> None:
        """Remove the folder at the end of a verify."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _folder(self, name: str) -> str:
        return os.path.join(self._path, hashlib.sha256(name.encode()).hexdigest()[:32])


def save(path: str, values: Digests) -> None:
    """Write a file atomically."""
    work = f"{path}.{os.getpid()}"
    with open(work, "wb") as file:
        np.save(file, values)
    os.replace(work, path)


def load(path: str) -> Digests:
    """Return the file's digests, mapped and not read. Raise FileNotFoundError."""
    if os.path.getsize(path) == 128:  # only a header, which can't be mapped
        return np.zeros((2, 0), np.uint64)
    values: Digests = np.load(path, mmap_mode="r")
    return values
