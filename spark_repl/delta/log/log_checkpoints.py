"""Checkpoints of a table's log: which exist, and what they contain.

Delta protocol, section "Checkpoints". A checkpoint is one Parquet file, several ("multi-part"), or
a manifest in Parquet or JSON ("V2"), which has the adds and removes itself or names files of them
below ``_sidecars``. Adds and removes stay Arrow tables: a table may have a million files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import TargetError, reset_table
from ...runtime.target_uri import is_remote
from ..store.storage import (
    is_file,
    is_whole,
    names,
    names_after,
    one_line,
    parquet_source,
    read,
    stat,
)
from .file_rows import ADD, REMOVE, aligned, to_rows

Action = dict[str, Any]

_NAME = re.compile(
    r"(?P<version>\d{20})\.checkpoint"
    r"(\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<id>[0-9a-fA-F-]{36}))?\.(parquet|json)"
)
_STATE = ("protocol", "metaData", "txn", "domainMetadata")
HINT = "_last_checkpoint"
SIDECARS = "_sidecars"
"""folder below ``_delta_log`` of the files that V2 manifests name"""


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a version. ``paths``: its parts; for a V2 checkpoint, its manifest."""

    version: int
    paths: tuple[str, ...]

    def state(self) -> list[Action]:
        """Return the protocol, metadata, txn and domain metadata actions. Raise OSError, and
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
        """Yield tables of the fields of ``kind``, "add" or "remove": a row for each action. Raise
        OSError, and TargetError for a damaged file or a missing sidecar."""
        for path in self.paths:
            # A manifest in JSON may have the actions itself.
            if path.endswith(".json") and (own := [a[kind] for a in _lines(path) if kind in a]):
                yield to_rows(own, ADD if kind == "add" else REMOVE)
        for path in (*self._parquet_paths(), *self.sidecars()):
            for table in self._groups(path, kind):
                rows = table.column(kind).combine_chunks().drop_null()
                if len(rows):
                    yield pa.Table.from_arrays(rows.flatten(), schema=pa.schema(list(rows.type)))

    def sidecars(self) -> list[str]:
        """Return the paths of the files that a V2 manifest names. Raise OSError, and TargetError
        for a damaged manifest."""
        named: list[str] = []
        for path in self.paths:
            if path.endswith(".json"):
                named += [a["sidecar"]["path"] for a in _lines(path) if "sidecar" in a]
                continue
            for table in _read_groups(path, ("sidecar",)):
                named += [row["path"] for row in table["sidecar"].drop_null().to_pylist()]
        folder = os.path.join(os.path.dirname(self.paths[0]), SIDECARS)
        # A sidecar must be in this folder, whatever its path is. Most engines write the name only.
        files = dict.fromkeys(os.path.basename(unquote(path)) for path in named)
        return [os.path.join(folder, name) for name in files]

    def is_whole(self, hint: dict[str, Any]) -> bool:
        """Return whether the checkpoint is complete: all its files exist, with the sidecars that a
        V2 manifest names, and none was damaged by a power failure. Raise OSError.

        ``hint``: the content of ``_last_checkpoint``. An object that exists is complete. The
        sidecars of a remote checkpoint with a classic name are not checked, because most have none.
        """
        match = _NAME.fullmatch(os.path.basename(self.paths[0]))
        has_id, remote = bool(match and match["id"]), is_remote(self.paths[0])
        if remote and not has_id:
            return True
        if not remote and not all(map(is_whole, self.paths)):
            return False
        try:
            return self.has_sidecars() and (
                remote or self._has_size(hint.get("v2Checkpoint") or {})
            )
        except TargetError:
            return not has_id  # reading a classic checkpoint reports its other damage

    def has_sidecars(self) -> bool:
        """Return whether all sidecars that a manifest names exist, and none was damaged by a power
        failure. Raise OSError, and TargetError for a damaged manifest."""
        sidecars = self.sidecars() if len(self.paths) == 1 else []  # no part is a manifest
        if sidecars and is_remote(self.paths[0]):
            listed = names(os.path.dirname(sidecars[0]))
            return {os.path.basename(path) for path in sidecars}.issubset(listed)
        return all(map(is_whole, sidecars))

    def _has_size(self, manifest: dict[str, Any]) -> bool:
        """Return whether the manifest has the size that the hint records, if the hint names it.
        JSON that is cut at the end of a line looks complete otherwise."""
        path = self.paths[0]
        if manifest.get("path") != os.path.basename(path) or "sizeInBytes" not in manifest:
            return True
        return bool(manifest["sizeInBytes"] == stat(path).size)

    def _parquet_paths(self) -> list[str]:
        return [path for path in self.paths if path.endswith(".parquet")]

    def _groups(self, path: str, kind: str) -> Iterator[pa.Table]:
        try:
            yield from _read_groups(path, (kind,))
        except FileNotFoundError as error:
            # If the manifest no longer exists as well, the checkpoint was removed since it was
            # found.
            if path in self.paths or not is_file(self.paths[0]):
                raise
            raise TargetError(
                f"a sidecar of the checkpoint of version {self.version} of the table's log is"
                " missing",
                file=path,
                hint=f"bring it back from a backup, or {reset_table()}",
            ) from error


def of_checkpoint(base: Checkpoint | None, kind: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of a checkpoint, with the fields of ``schema``. ``kind``: "add" or "remove".
    Raise OSError, and TargetError for a damaged file."""
    for table in base.files(kind) if base else ():
        yield aligned(table, schema)


def newest(folder: str, upto: int | None = None) -> Checkpoint | None:
    """Return the newest complete checkpoint of the table at ``folder``, of a version up to
    ``upto``. Raise OSError."""
    return newest_and_names(folder, upto)[0]


def newest_and_names(folder: str, upto: int | None = None) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest complete checkpoint of a version up to ``upto``, and the names of the log's
    files; the list may lack files of earlier versions.

    ``_last_checkpoint`` is a hint. It may name a checkpoint earlier than the newest, because a
    writer may have been suspended before it wrote the hint. So the log is listed from that version
    on; if no checkpoint there is complete, the whole log is listed. Raise OSError.
    """
    log = os.path.join(folder, "_delta_log")
    hint = read_hint(folder)
    hinted = int(hint.get("version", -1))
    if hinted >= 0 and (upto is None or hinted <= upto):
        listed = names_after(log, f"{hinted:020d}.")
        newer = _newest_whole(log, listed, upto, hint)
        if newer is not None:
            return newer, listed
    listed = names(log)
    return _newest_whole(log, listed, upto, hint), listed


def _newest_whole(
    log: str, listed: Iterable[str], upto: int | None, hint: dict[str, Any]
) -> Checkpoint | None:
    candidates = (c for c in grouped(log, listed) if upto is None or c.version <= upto)
    return next((c for c in candidates if c.is_whole(hint)), None)


def hinted_version(folder: str) -> int:
    """Return the version that ``_last_checkpoint`` names, -1 if it names none."""
    return int(read_hint(folder).get("version", -1))


def read_hint(folder: str) -> dict[str, Any]:
    """Return the content of ``_last_checkpoint``; an empty dict if there is none. Raise OSError."""
    # Power failures leave an empty file.
    with suppress(FileNotFoundError, ValueError):
        hint: dict[str, Any] = json.loads(read(os.path.join(folder, "_delta_log", HINT)))
        return hint
    return {}


def version_of(name: str) -> int | None:
    """Return the version of a checkpoint's file by its name; None for any other name."""
    match = _NAME.fullmatch(name)
    return int(match["version"]) if match else None


def grouped(log: str, listed: Iterable[str]) -> list[Checkpoint]:
    """Return the checkpoints whose parts are all listed, the newest first."""
    parts: dict[tuple[int, int, str], list[str]] = {}
    for name in sorted(listed):
        if match := _NAME.fullmatch(name):
            key = int(match["version"]), int(match["parts"] or 0), match["id"] or ""
            parts.setdefault(key, []).append(os.path.join(log, name))
    complete = [(key, paths) for key, paths in parts.items() if len(paths) == (key[1] or 1)]
    return [Checkpoint(key[0], tuple(paths)) for key, paths in sorted(complete, reverse=True)]


def _lines(path: str) -> list[Action]:
    """Return the actions of a JSON manifest. Raise OSError, and TargetError if it is damaged."""
    try:
        return [json.loads(line) for line in read(path).decode().split("\n") if line.strip()]
    except ValueError as error:
        raise _damaged(path, error) from error


def _read_groups(path: str, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Yield a table for each row group, with those of the columns that the checkpoint has: Arrow
    can't read texts of more than 2 GiB at once. Raise OSError, and TargetError for a damaged
    file."""
    try:
        with pq.ParquetFile(parquet_source(path)) as file:
            present = [name for name in columns if name in file.schema_arrow.names]
            for number in range(file.num_row_groups if present else 0):
                yield file.read_row_group(number, columns=present)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and (error.errno or is_remote(path)):
            raise
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> TargetError:
    version = version_of(os.path.basename(path))
    which = "a checkpoint" if version is None else f"the checkpoint of version {version}"
    return TargetError(
        f"{which} of the table's log is damaged: {one_line(str(error))}",
        file=path,
        hint="where the commits before it are there, remove it; else bring it back from a"
        f" backup, or {reset_table()}",
    )


def _plain(value: Any) -> Any:
    """Return a row of a checkpoint as a commit has it in JSON: without NULLs."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return value
