"""Checkpoints as other engines write them: manifests with sidecars (V2), and several parts."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_repl.delta.log import checkpoint_writer, log_state
from spark_repl.delta.log.file_rows import to_actions
from spark_repl.delta.log.log_replay import checkpoint_path

Action = dict[str, Any]


def _written(folder: str, version: int | None) -> tuple[int, Path]:
    """Return the version, and a checkpoint of one file that the caller replaces."""
    state = log_state.load(folder, version)
    assert state is not None
    checkpoint_writer.write(folder, state)
    return state.version, Path(checkpoint_path(folder, state.version))


def write_v2(
    folder: str, version: int | None = None, kind: str = "json", *, embedded: bool = False
) -> tuple[Path, list[Path]]:
    """Write a V2 checkpoint with a sidecar for each file of the table, and the hint that names it.
    Return where the manifest and the sidecars lie. ``kind``: "json" or "parquet". ``embedded``: the
    manifest has the actions itself, without sidecars."""
    version, written = _written(folder, version)
    table = pq.read_table(written)
    written.unlink()
    rows = table.to_pylist(maps_as_pydicts="strict")
    state = [row for row in map(_plain, rows) if not row.keys() & {"add", "remove"}]
    of_files = [number for number, row in enumerate(rows) if row["add"] or row["remove"]]
    if embedded:
        for name in ("add", "remove"):  # with the NULLs of partition values
            state += [{name: file} for file in _file_actions(table, name)]
        of_files = []
    sidecars, listed = [], list[Action]()
    for number in of_files:
        path = written.parent / "_sidecars" / f"{uuid.uuid4()}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table.slice(number, 1).select(["add", "remove"]), path)
        sidecars.append(path)
        size = path.stat().st_size
        entry = {"path": path.name, "sizeInBytes": size, "modificationTime": 1}
        listed.append({"sidecar": entry})
    actions = [{"checkpointMetadata": {"version": version}}, *state, *listed]
    manifest = written.with_name(f"{version:020d}.checkpoint.{uuid.uuid4()}.{kind}")
    if kind == "json":
        manifest.write_text("".join(json.dumps(action) + "\n" for action in actions))
    else:
        _write_parquet(
            manifest, table if embedded else table.drop_columns(["add", "remove"]), listed
        )
    top = {"path": manifest.name, "sizeInBytes": manifest.stat().st_size}
    hint = {"version": version, "size": len(actions), "v2Checkpoint": top}
    (written.parent / "_last_checkpoint").write_text(json.dumps(hint))
    return manifest, sidecars


def _file_actions(table: pa.Table, kind: str) -> list[Action]:
    rows = table[kind].combine_chunks().drop_null()
    return to_actions(pa.Table.from_arrays(rows.flatten(), schema=pa.schema(list(rows.type))))


def _write_parquet(path: Path, table: pa.Table, listed: list[Action]) -> None:
    sidecars = [pa.Table.from_pylist(listed)] if listed else []
    pq.write_table(pa.concat_tables([table, *sidecars], promote_options="default"), path)


def write_parts(folder: str, version: int | None = None, parts: int = 2) -> list[Path]:
    """Write a checkpoint of several files, and the hint that names it. Return where they lie."""
    version, written = _written(folder, version)
    table = pq.read_table(written)
    written.unlink()
    size = -(-len(table) // parts)
    paths = []
    for number in range(parts):
        name = f"{version:020d}.checkpoint.{number + 1:010d}.{parts:010d}.parquet"
        paths.append(written.with_name(name))
        pq.write_table(table.slice(number * size, size), paths[-1])
    hint = {"version": version, "size": len(table), "parts": parts}
    (written.parent / "_last_checkpoint").write_text(json.dumps(hint))
    return paths


def _plain(row: Action) -> Action:
    """Return a row without NULLs, at any depth."""
    return {
        name: _plain(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if value is not None
    }
