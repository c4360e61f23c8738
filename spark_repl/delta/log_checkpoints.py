"""Checkpoints of a table's log: which there are, and what they hold.

Delta protocol, section "Checkpoints". A checkpoint is one Parquet file, several ("multi-part"), or
a manifest in Parquet or JSON that names files of adds and removes below ``_sidecars`` ("V2").
Adds and removes stay Arrow tables: a table may have a million files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import TargetError, reset_table
from ..runtime.object_store import is_remote
from .storage import is_whole, names, names_after, one_line, parquet_source, read

Action = dict[str, Any]

_NAME = re.compile(
    r"(?P<version>\d{20})\.checkpoint"
    r"(\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<id>[0-9a-fA-F-]{36}))?\.(parquet|json)"
)
_STATE = ("protocol", "metaData", "txn", "domainMetadata")
HINT = "_last_checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The whole checkpoint of a version. ``paths``: its parts; of a V2 checkpoint its manifest."""

    version: int
    paths: tuple[str, ...]

    def state(self) -> list[Action]:
        """Return the protocol, metadata, txn and domain metadata actions. Raises OSError, and
        TargetError for a damaged file."""
        actions: list[Action] = []
        for path in self.paths:
            if path.endswith(".json"):
                wanted = (action for action in _lines(path) if action.keys() & set(_STATE))
                actions += wanted
                continue
            for table in _read_groups(path, _STATE):
                for name in table.column_names:
                    rows = table.column(name).drop_null().to_pylist(maps_as_pydicts="strict")
                    actions += [{name: _plain(row)} for row in rows]
        return actions

    def files(self, kind: str) -> Iterator[pa.Table]:
        """Yield tables of the fields of ``kind``, "add" or "remove": a row for each action. Raises
        OSError, and TargetError for a damaged file."""
        for path in self._paths_of_files():
            for table in _read_groups(path, (kind,)):
                rows = table.column(kind).combine_chunks().drop_null()
                if len(rows):
                    yield pa.Table.from_arrays(rows.flatten(), schema=pa.schema(list(rows.type)))

    def _paths_of_files(self) -> Iterable[str]:
        sidecars: list[str] = []
        for path in self.paths:
            if path.endswith(".json"):
                sidecars += [a["sidecar"]["path"] for a in _lines(path) if "sidecar" in a]
                continue
            yield path
            for table in _read_groups(path, ("sidecar",)):
                sidecars += [row["path"] for row in table["sidecar"].drop_null().to_pylist()]
        log = os.path.dirname(self.paths[0])
        for name in dict.fromkeys(sidecars):
            yield os.path.join(log, "_sidecars", name)


def newest(folder: str, upto: int | None = None) -> Checkpoint | None:
    """Return the newest whole checkpoint of the table at ``folder``, of a version up to ``upto``.

    ``_last_checkpoint`` is a hint: it may name an earlier one than the newest, since a writer may
    have slept before it wrote the hint. So the log is listed from that version on; if no checkpoint
    there is whole, all of it. Raises OSError.
    """
    log = os.path.join(folder, "_delta_log")
    hinted = hinted_version(folder)
    if hinted >= 0 and (upto is None or hinted <= upto):
        newer = _newest_whole(log, names_after(log, f"{hinted:020d}."), upto)
        if newer is not None:
            return newer
    return _newest_whole(log, names(log), upto)


def _newest_whole(log: str, listed: Iterable[str], upto: int | None) -> Checkpoint | None:
    remote = is_remote(log)  # an object that is listed is whole
    candidates = _grouped(log, listed, upto)
    return next((c for c in candidates if remote or all(map(is_whole, c.paths))), None)


def hinted_version(folder: str) -> int:
    """Return the version that ``_last_checkpoint`` names, -1 if it names none."""
    return int(_hint(folder).get("version", -1))


def _hint(folder: str) -> dict[str, Any]:
    # Power failures leave an empty file.
    with suppress(FileNotFoundError, ValueError):
        hint: dict[str, Any] = json.loads(read(os.path.join(folder, "_delta_log", HINT)))
        return hint
    return {}


def _grouped(log: str, listed: Iterable[str], upto: int | None) -> list[Checkpoint]:
    """Return the checkpoints whose parts are all listed, the newest first."""
    parts: dict[tuple[int, int, str], list[str]] = {}
    for name in sorted(listed):
        match = _NAME.fullmatch(name)
        if match and (upto is None or int(match["version"]) <= upto):
            key = int(match["version"]), int(match["parts"] or 0), match["id"] or ""
            parts.setdefault(key, []).append(os.path.join(log, name))
    whole = [(key, paths) for key, paths in parts.items() if len(paths) == (key[1] or 1)]
    return [Checkpoint(key[0], tuple(paths)) for key, paths in sorted(whole, reverse=True)]


def _lines(path: str) -> Iterator[Action]:
    for line in read(path).decode().split("\n"):
        if line.strip():
            yield json.loads(line)


def _read_groups(path: str, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Yield those of the columns that a checkpoint has, a table for each row group: texts of more
    than 2 GiB cannot be read at once. Raises OSError, and TargetError for a damaged file."""
    try:
        with pq.ParquetFile(parquet_source(path)) as file:
            present = [name for name in columns if name in file.schema_arrow.names]
            for number in range(file.num_row_groups if present else 0):
                yield file.read_row_group(number, columns=present)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and (error.errno or is_remote(path)):
            raise
        named = _NAME.fullmatch(os.path.basename(path))
        which = f"the checkpoint of version {int(named['version'])}" if named else "a checkpoint"
        raise TargetError(
            f"{which} of the table's log is damaged: {one_line(str(error))}",
            file=path,
            hint="where the commits before it are there, remove it; else bring it back from a"
            f" backup, or {reset_table()}",
        ) from error


def _plain(value: Any) -> Any:
    """Return a row of a checkpoint as a commit has it in JSON: without NULLs."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return value
