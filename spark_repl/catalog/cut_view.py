"""CutView: the text of the views that show a table at a cut, and the list of published cuts.

A view reads a fixed version of a table by its path, so that neither a later commit nor another name
of the table changes what it shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..delta.store.spark_names import quoted
from .entry import CatalogView

CUT_COLUMN = "_cut"
"""the column of each view that has the id of its cut"""
CUTS = "_cuts"
"""name of the view that lists the published cuts"""


def view_of_table(
    folder: str, version: int, schema_string: str, number: int,
    shards: tuple[str, Sequence[str]] | None = None,
) -> CatalogView:  # fmt: skip
    """Return the view of a table's ``version``, with the cut's ``number`` in the column ``_cut``.

    ``schema_string``: Delta's of that version. ``shards``: the column and the values of the rows
    that belong to the cut; None: all rows.
    """
    fields = [_plain(field) for field in json.loads(schema_string)["fields"]]
    names = [field["name"] for field in fields]
    column = CUT_COLUMN
    while column in {name.lower() for name in names}:
        column += "_"
    columns = ", ".join([*map(quoted, names), f"{number}L AS {quoted(column)}"])
    text = f"SELECT {columns} FROM delta.{quoted(folder)} VERSION AS OF {version}"
    if shards is not None:
        values = ", ".join(map(_literal, shards[1]))
        text += f" WHERE {quoted(shards[0])} IN ({values})"
    return _view(text, [*fields, _field(column, "long")])


def view_of_cuts(control: str, published: Mapping[str, int]) -> CatalogView:
    """Return the view that lists the published cuts. ``control``: the control table's path;
    ``published``: schema -> id of its cut."""
    rows = ", ".join(f"({number}L, {_literal(schema)})" for schema, number in published.items())
    micros = "CAST(get_json_object(c.detail, '$.source.commit_time') AS BIGINT)"
    text = (
        "SELECT c.sequence AS id, p.schema_name, c.gtid_executed, c.at AS published_at,"
        f" timestamp_micros({micros}) AS committed_at"
        f" FROM delta.{quoted(control)} AS c"
        f" JOIN (VALUES {rows}) AS p(id, schema_name) ON c.sequence = p.id"
        " WHERE c.kind = 'cut'"
    )
    kinds = {"id": "long", "schema_name": "string", "gtid_executed": "string",
             "published_at": "timestamp", "committed_at": "timestamp"}  # fmt: skip
    return _view(text, [_field(name, kind) for name, kind in kinds.items()])


def _view(text: str, fields: list[dict[str, Any]]) -> CatalogView:
    return CatalogView(text, json.dumps({"type": "struct", "fields": fields}))


def _field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _plain(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column without Delta's metadata, but with its comment."""
    metadata = {key: text for key, text in field["metadata"].items() if key == "comment"}
    return {**field, "nullable": True, "metadata": metadata}


def _literal(text: str) -> str:
    """Return a text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
