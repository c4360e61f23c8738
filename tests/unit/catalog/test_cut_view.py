"""The text of the views of a cut. ``tests/spark/test_cut_views.py`` has Spark read them."""

from __future__ import annotations

import json
from typing import Any

from spark_repl.catalog.cut_view import view_of_cuts, view_of_table


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": [*fields]})


def field(name: str, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": False, "metadata": metadata}


def test_a_view_reads_a_version_by_its_path_and_has_the_cuts_id() -> None:
    view = view_of_table("/lake/shop/a`b", 7, schema(field("id"), field("a b")), 12)
    assert view.text == (
        "SELECT `id`, `a b`, 12L AS `_cut` FROM delta.`/lake/shop/a``b` VERSION AS OF 7"
    )


def test_a_view_has_the_tables_columns_and_comments_without_deltas_metadata() -> None:
    text = schema(field("id", comment="the key", **{"delta.columnMapping.id": 1}))
    columns = json.loads(view_of_table("/lake/t", 1, text, 3).schema)["fields"]
    assert [(each["name"], each["metadata"]) for each in columns] == [
        ("id", {"comment": "the key"}),
        ("_cut", {}),
    ]


def test_the_column_of_the_id_has_another_name_if_the_table_has_its_name() -> None:
    view = view_of_table("/lake/t", 1, schema(field("_CUT"), field("_cut_")), 3)
    assert "`_CUT`, `_cut_`, 3L AS `_cut__`" in view.text


def test_a_view_of_a_shared_table_has_the_rows_of_the_cuts_shards() -> None:
    view = view_of_table("/lake/t", 1, schema(field("id")), 3, ("shop", ["eu", "it's\\"]))
    assert view.text.endswith(r"VERSION AS OF 1 WHERE `shop` IN ('eu', 'it\'s\\')")


def test_the_list_of_cuts_names_each_schema() -> None:
    view = view_of_cuts("/lake/_repl/control", {"shop_cut_3": 3, "shop_cut_may": 3})
    assert "(VALUES (3L, 'shop_cut_3'), (3L, 'shop_cut_may'))" in view.text
    assert "FROM delta.`/lake/_repl/control` AS c" in view.text
