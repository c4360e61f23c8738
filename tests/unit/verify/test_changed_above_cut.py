"""What somebody else has committed above the version that a cut shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.files.delta_columns import Columns
from spark_repl.delta.log.table_snapshot import NewTable
from spark_repl.verify.changed_above_cut import changed_above, rewritten_version
from tests.support.local_delta import metadata_action, put

APP = "spark_repl:default"
FIELD = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
SCHEMA = json.dumps({"type": "struct", "fields": [FIELD]})
OTHER = json.dumps({"type": "struct", "fields": [FIELD, {**FIELD, "name": "more"}]})
COLUMNS = Columns.of(SCHEMA, [])


def add(path: str, *, changes: bool = True) -> dict[str, Any]:
    return {"add": {"path": path, "dataChange": changes, "partitionValues": {}, "size": 1}}


def remove(path: str, *, changes: bool = True) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": changes}}


class Log:
    """A table whose last commit that a cut shows is version 1."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = str(folder), -1
        self.commit(metadata_action(NewTable(SCHEMA, {}), "1"), app=APP)
        self.commit(add("one"), app=APP)

    def commit(self, *actions: dict[str, Any], app: str = "", operation: str = "DELETE") -> None:
        self.version += 1
        put(self.folder, self.version, actions, app, self.version, operation=operation)

    def changed(self) -> int | None:
        return changed_above(self.folder, 1, COLUMNS, APP)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_nothing_above_is_no_change(log: Log) -> None:
    assert log.changed() is None


def test_a_delete_is_named_by_its_version(log: Log) -> None:
    log.commit(remove("one"))
    assert log.changed() == 2
    log.commit(add("two"), operation="WRITE")
    assert log.changed() == 2, "the first one"


@pytest.mark.parametrize("app", [APP, f"{APP}:copy", f"{APP}:repair"])
def test_what_the_channel_has_committed_is_none(log: Log, app: str) -> None:
    log.commit(add("two"), app=app)
    assert log.changed() is None
    log.commit(remove("two"))
    log.commit(add("three"), app=app)
    assert log.changed() == 3, "it stays in what is committed upon it"


def test_another_channels_commit_is_a_foreign_change(log: Log) -> None:
    log.commit(add("two"), app="spark_repl:other")
    assert log.changed() == 2


def test_files_with_the_same_rows_and_properties_are_none(log: Log) -> None:
    log.commit(remove("one", changes=False), add("two", changes=False), operation="OPTIMIZE")
    log.commit(metadata_action(NewTable(SCHEMA, {"a": "b"}), "1"), operation="SET TBLPROPERTIES")
    assert log.changed() is None


def test_a_change_that_was_undone_is_no_change(log: Log) -> None:
    """As the applier has it: the same files, with the same columns."""
    log.commit(remove("one"))
    log.commit(add("one"), operation="RESTORE")
    assert log.changed() is None
    log.commit(metadata_action(NewTable(OTHER, {}), "1"), operation="ADD COLUMNS")
    assert log.changed() == 2
    log.commit(metadata_action(NewTable(SCHEMA, {}), "1"), operation="RESTORE")
    assert log.changed() is None


def test_columns_that_the_channel_has_changed_are_nobodys_else(log: Log) -> None:
    log.commit(metadata_action(NewTable(OTHER, {}), "1"), app=APP, operation="ADD COLUMNS")
    log.commit(metadata_action(NewTable(OTHER, {"a": "b"}), "1"), operation="SET TBLPROPERTIES")
    assert log.changed() is None


def test_what_was_undone_before_the_channel_went_on_is_none(log: Log) -> None:
    log.commit(add("two"))
    log.commit(remove("two"), operation="RESTORE")
    log.commit(add("three"), app=APP)
    assert log.changed() is None
    log.commit(remove("three"))
    assert log.changed() == 5


def test_a_later_version_with_the_same_rows_is_found(log: Log) -> None:
    def version() -> int:
        return rewritten_version(log.folder, 1, COLUMNS, APP)

    assert version() == 1
    log.commit(remove("one", changes=False), add("two", changes=False), operation="OPTIMIZE")
    log.commit(metadata_action(NewTable(SCHEMA, {"a": "b"}), "1"), operation="SET TBLPROPERTIES")
    assert version() == 3
    log.commit(add("three"), app=APP)
    log.commit(remove("two", changes=False), add("four", changes=False), operation="OPTIMIZE")
    assert version() == 3, "the channel's commit holds more"


@pytest.mark.parametrize(
    "action", [remove("one"), metadata_action(NewTable(OTHER, {}), "1")], ids=["rows", "columns"]
)
def test_a_commit_that_changes_rows_ends_the_search(log: Log, action: dict[str, Any]) -> None:
    log.commit(action)
    assert rewritten_version(log.folder, 1, COLUMNS, APP) == 1
