"""Retention of files: the files of pinned cuts, and a longer retention before a longer promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyroaring import BitMap

from spark_repl.control.table.control import Control
from spark_repl.control.table.control_snapshot import ControlSnapshot
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.delta.files import deletion_vector
from spark_repl.delta.log.log_state import LogState
from spark_repl.delta.log.retention_properties import retention_properties
from spark_repl.delta.log.table_snapshot import Snapshot
from spark_repl.errors import TargetError
from spark_repl.write.upkeep.file_retention import RetentionExtension, files_of
from tests.support.local_delta import put

METADATA = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "m", "schemaString": "{}", "partitionColumns": [], "configuration": {}}},
]


def added(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 1, **more}}


def test_files_of_versions_include_their_vectors(tmp_path: Path) -> None:
    """Each version's own: also what the next one has removed, and no file of others."""
    folder = str(tmp_path / "t")
    put(folder, 0, [*METADATA, added("a%20b.parquet"), added("p=x/b.parquet")])
    (vector,) = deletion_vector.write(folder, [BitMap([1])])
    marked = added("p=x/b.parquet", deletionVector=vector)
    put(folder, 1, [{"remove": {"path": "a%20b.parquet"}}, added("c.parquet")])
    put(folder, 2, [{"remove": {"path": "p=x/b.parquet"}}, marked])
    put(folder, 3, [{"remove": {"path": "p=x/b.parquet", "deletionVector": vector}}])
    (name,) = (path.name for path in Path(folder).glob("*.bin"))
    assert files_of(folder, {0}) == {"a b.parquet", "p=x/b.parquet"}
    assert files_of(folder, {0, 2}) == {"a b.parquet", "p=x/b.parquet", "c.parquet", name}
    assert files_of(folder, {3}) == {"c.parquet"}


def test_a_version_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    """Nothing is known of its files: VACUUM may not go on."""
    folder = str(tmp_path / "t")
    put(folder, 0, [*METADATA, added("a.parquet")])
    with pytest.raises(TargetError, match="version 1 of the table's log is gone") as raised:
        files_of(folder, {0, 7})
    assert raised.value.file == folder


class Counted(Control):
    """``reads``: how often rows were asked for."""

    reads = 0

    def snapshot(self) -> ControlSnapshot:
        self.reads += 1
        return super().snapshot()


class Tables:
    """A target that has t.a, and had t.b and t.c, which its cuts show."""

    def __init__(self, folder: Path) -> None:
        self.asked, self.refused = list[str](), {"t/b"}
        self.tracking = tracking = MagicMock()
        tracking.layout = Layout(str(folder))
        tracking.control = self.control = Counted(tracking.layout.control)
        self.control.claim()
        shown = {f"t.{name}": TableVersion(f"t/{name}", 1, "m", 1) for name in "abc"}
        self.control.publish(Cut(1, "", "log", {}, shown))
        table = MagicMock(path="t/a")
        table.snapshot.is_managed = False
        table.name, table.snapshot.configuration = "t.a", retention_properties(48)
        tracking.tables = {"t.a": table}
        tracking.delta.snapshot = self._snapshot
        tracking.delta.set_properties = self._set
        self.extension = RetentionExtension(tracking, 48)

    def give(self) -> bool:
        return self.extension.extend(lambda: False, of_others=True)

    def _snapshot(self, folder: str) -> Any:
        return Snapshot(
            folder, 1, "m", '{"fields": []}', retention_properties(6), LogState(1, {}, {})
        )

    def _set(self, snapshot: Any, properties: Any, app: str) -> None:
        path = str(Path(snapshot.folder).relative_to(self.tracking.layout.target))
        self.asked.append(path)
        if path in self.refused:
            raise TargetError("read-only")


@pytest.fixture
def case(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_a_table_that_refuses_is_tried_again_later(
    case: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    """Only that table is tried again, without another read of all cuts; the warning is logged
    once."""
    begun = case.control.reads
    assert not case.give()
    reads = case.control.reads
    assert not case.give() and not case.give()
    assert sorted(case.asked) == ["t/b", "t/c"] and case.control.reads == reads > begun
    case.asked.clear()
    case.extension._next = 0.0
    assert not case.give() and not case.extension.extended
    assert case.asked == ["t/b"] and caplog.text.count("not promised longer yet: t/b") == 1
    case.refused.clear()
    case.extension._next = 0.0
    assert case.give() and case.extension.extended
    assert case.asked == ["t/b"] * 2 and case.control.reads == reads
    assert case.give() and case.asked == ["t/b"] * 2


def test_a_table_that_is_dropped_before_its_extension(case: Tables) -> None:
    """The dropped table counts among those to which nothing is applied."""
    case.refused = {"t/a"}
    table = case.tracking.tables["t.a"]
    table.snapshot.configuration = retention_properties(6)
    case.tracking.commits.set_properties.side_effect = TargetError("read-only")
    assert not case.give() and sorted(case.asked) == ["t/b", "t/c"]
    del case.tracking.tables["t.a"]
    assert not case.give() and case.asked[2:] == ["t/a"]
    case.refused.clear()
    assert not case.give(), "not again that soon"


def test_untracked_tables_are_extended_only_for_a_longer_promise(case: Tables) -> None:
    """Without a longer promise they are left alone. After close, no table is extended."""
    begun = case.control.reads
    assert not case.extension.extend(lambda: True, of_others=False)
    assert case.extension.extend(lambda: False, of_others=False)
    assert not case.asked and case.control.reads == begun
