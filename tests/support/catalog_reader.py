"""Another program's Spark session, with Delta and a Hive metastore: what its users see by name.

``CatalogReader`` starts this module as a process of its own, because a process has one catalog. The
session has only the settings that docs/catalogs.md gives to readers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from spark_repl.demo.expected import server_text

_ANSWER = "ANSWER "
_ROOT = Path(__file__).parents[2]
_HEX = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit")


class CatalogReader:
    """Asks the process; close it at the end."""

    def __init__(self, uri: str, warehouse: Path) -> None:
        command = [sys.executable, "-m", "tests.support.catalog_reader", uri, str(warehouse)]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TZ": "UTC"},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self._process.kill()
        self._process.communicate()

    def names(self, *schemas: str) -> list[str]:
        """Return ``schema.table`` of all tables of the schemas that exist."""
        return list(self._ask("names", *schemas))

    def tables(self, *schemas: str) -> dict[str, dict[str, Any]]:
        """Return the fields of each table by its name, as ``_fields``, and where it is."""
        return dict(self._ask("tables", *schemas))

    def cut(self, target: str) -> dict[str, dict[str, Any]]:
        """Return the same of the tables of the target's newest cut, which are read by path."""
        return dict(self._ask("cut", target))

    def declared(self, *schemas: str) -> dict[str, dict[str, Any]]:
        """Return what MySQL declares about each table, as Spark shows it. Return the rows also,
        with values as the server prints them."""
        return dict(self._ask("declared", *schemas))

    def sql(self, *statements: str) -> list[str]:
        """Return each statement's result as Spark shows it."""
        return list(self._ask("sql", *statements))

    def _ask(self, *words: str) -> Any:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(words), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                return json.loads(line.removeprefix(_ANSWER))
        raise AssertionError("the reader's process has ended")


def _names(spark: Any, schemas: Iterable[str]) -> list[str]:
    existing = {row[0] for row in spark.sql("SHOW SCHEMAS").collect()}
    return [
        f"{schema}.{row['tableName']}"
        for schema in schemas
        if schema in existing
        for row in spark.sql(f"SHOW TABLES IN {schema}").collect()
    ]


def _fields(frame: Any, location: str) -> dict[str, Any]:
    """Return the columns as [name, type], the rows as texts, and the location."""
    rows = ([None if v is None else str(v) for v in row] for row in frame.collect())
    columns = [[field.name, field.dataType.simpleString()] for field in frame.schema]
    return {"columns": columns, "rows": sorted(rows, key=str), "location": location}


def _tables(spark: Any, schemas: Iterable[str]) -> dict[str, dict[str, Any]]:
    fields = {}
    for name in _names(spark, schemas):
        details = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
        assert details["Provider"] == "delta", details
        fields[name] = _fields(spark.table(name), details["Location"].removeprefix("file:"))
    return fields


def _declared(spark: Any, schemas: Iterable[str]) -> dict[str, dict[str, Any]]:
    tables = {}
    for name in _names(spark, schemas):
        details = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
        properties = {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        frame = spark.table(name)
        columns = [
            {"name": field.name, "type": field.metadata["mysql.type"], "nullable": field.nullable,
             "comment": field.metadata.get("comment", ""),
             "generated": field.metadata.get("mysql.generated", "")}
            for field in frame.schema
        ]  # fmt: skip
        tables[name] = {
            "comment": details.get("Comment", ""), "columns": columns,
            "key": json.loads(properties.get("mysql.primary_key", "[]")),
            "database": properties["mysql.database"], "rows": _texts(frame, columns),
            "has_state": bool(properties["mysql.gtid_executed"]),
        }  # fmt: skip
    return tables


def _texts(frame: Any, columns: list[dict[str, Any]]) -> list[list[str | None]]:
    """Return the rows as the server prints them. ``columns``: with MySQL's types."""
    printed = [
        {"column_type": column["type"]}
        | ({"encoding": "hex"} if column["type"].split("(")[0] in _HEX else {})
        for column in columns
    ]
    rows = (
        [server_text(value, column) for value, column in zip(row, printed, strict=True)]
        for row in frame.collect()
    )
    return sorted(rows, key=str)


def _cut(spark: Any, target: str) -> dict[str, dict[str, Any]]:
    from spark_repl.control.cuts.cut_reader import CutReader, find_cut
    from spark_repl.control.table.control import Control
    from spark_repl.control.table.layout import Layout

    layout = Layout(target)
    newest = find_cut(Control(layout.control), "latest")
    reader = CutReader(spark, layout, newest)
    paths = {name: layout.table(table.path) for name, table in newest.tables.items()}
    return {name: _fields(reader.table(name), path) for name, path in paths.items()}


def _answer(spark: Any, question: str, words: list[str]) -> Any:
    if question == "sql":
        return [spark.sql(statement)._show_string(200, False) for statement in words]
    if question == "cut":
        return _cut(spark, *words)
    if question == "declared":
        return _declared(spark, words)
    return _names(spark, words) if question == "names" else _tables(spark, words)


def _settings(uri: str, warehouse: str) -> Mapping[str, str]:
    from spark_repl.runtime.java import delta_jars

    return {
        "spark.jars": ",".join(map(str, delta_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": uri,
        "spark.sql.warehouse.dir": warehouse,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Tables of a few rows: with Delta's 50 partitions each snapshot takes seconds.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "600m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }


def main(uri: str, warehouse: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]")
    for name, value in _settings(uri, warehouse).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        question, *words = json.loads(line)
        print(_ANSWER + json.dumps(_answer(spark, question, words)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
