"""A request to repair rows of one table: a file, left for the applier that owns the target."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .. import formats
from ..errors import FormatError
from ..relay.file_list import replace_file
from ..runtime.private_files import make_private_folder

if TYPE_CHECKING:
    from ..tables.target_table import TargetTable

_FORMAT = 1
"""the number of a request's format"""
_SAID = b"spark_repl"
_SUFFIX = ".repair"
READ = ".read"
"""suffix of the folder beside a request in which the rows read for it are staged"""
KEY, THERE = "digest", "there"


@dataclass(frozen=True)
class RepairRequest:
    """A request to repair the rows of some keys.

    ``wheres``: WHERE clauses that together select at least the source's rows of these keys;
    ``key``: names and types of the key's columns. ``keys``: a row for each key that the target has
    (THERE, with the key's values), and a row for each KEY that it lacks.
    """

    table: str
    wheres: tuple[str, ...]
    key: tuple[str, ...]
    keys: pa.Table

    @property
    def digests(self) -> npt.NDArray[np.uint64]:
        """Return the keys' digests, sorted."""
        return np.unique(self.keys.column(KEY).to_numpy())

    def to_bytes(self) -> bytes:
        fields = {"table": self.table, "wheres": self.wheres, "key": self.key}
        text = formats.stamp(json.dumps(fields), _FORMAT)
        out = pa.BufferOutputStream()
        rows = self.keys.replace_schema_metadata({_SAID: text.encode()})
        with pa.ipc.new_file(out, rows.schema) as file:
            file.write_table(rows)
        return bytes(out.getvalue().to_pybytes())

    @classmethod
    def read(cls, path: Path) -> RepairRequest:
        """Read a request. Raise FormatError for a file of a later version, or a file that is not a
        request."""
        try:
            keys = pa.ipc.open_file(path.read_bytes()).read_all()
            text = (keys.schema.metadata or {})[_SAID].decode()
        except (pa.ArrowException, KeyError) as error:
            raise FormatError("this file asks for no rows", file=str(path)) from error
        fields = json.loads(formats.unstamp(text, _FORMAT, "this request", path))
        return cls(fields["table"], tuple(fields["wheres"]), tuple(fields["key"]), keys)


def key_types(definition: TargetTable) -> tuple[str, ...]:
    """Return the names and types of the key's columns from which digests are computed."""
    fields = [definition.arrow_schema().field(number) for number in definition.primary_key]
    return tuple(f"{field.name} {field.type}" for field in fields)


def leave(folder: Path, request: RepairRequest) -> str:
    """Write the request to the folder that the target's owner reads; return its name."""
    make_private_folder(folder)
    name = f"{time.time_ns()}-{os.getpid()}{_SUFFIX}"
    replace_file(folder / name, request.to_bytes())
    return name


def left(folder: Path) -> list[Path]:
    """Return the requests that are not answered yet, oldest first."""
    return sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []
