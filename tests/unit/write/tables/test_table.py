"""Table: its definitions, its live files, and the versions that cuts show."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest

from spark_repl.delta.log.add_actions import AddActions
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.tables.table import DeltaState, LiveFiles, Table, versions


@pytest.mark.parametrize("ahead", [False, True])
def test_a_rename_also_renames_the_definition_at_the_applied_place(ahead: bool) -> None:
    """Foreign keys that refer to it are looked for by that name."""
    definition = TargetTable("t", "a", (), ())
    table = Table("t.a", "t/a", "", definition, True, MagicMock(), MagicMock())
    if ahead:
        table.define_at_place(definition)
    table.rename("t.b")
    assert [table.name, table.definition.name, table.at_place.name] == ["t.b"] * 3
    assert (table.logged is not None) == ahead


def test_the_origin_of_files_stays_after_own_commits() -> None:
    """Else a compaction would be in vain whenever a group lands meanwhile. A file may go and come
    again, with another deletion vector."""
    origin, again = object(), {"path": "a", "deletionVector": {}}
    live = LiveFiles(3, AddActions(None, {"a": {"path": "a"}, "b": {"path": "b"}}), origin)
    behind = live.after([{"add": again}, {"remove": {"path": "a"}}, {"remove": {"path": "b"}}])
    assert behind == LiveFiles(4, AddActions(None, {"a": again}), origin)


def test_a_cut_shows_all_shards_at_one_version() -> None:
    """A compaction commits between the looks at two of them."""
    definition, snapshots = (
        TargetTable("t", "a", (), ()),
        [MagicMock(version=n) for n in (2, 3)],
    )
    state = DeltaState(snapshots[0], 7)
    parts = {
        n: Table(f"t.a//{n}", f"t/a//{n}", "", definition, True, state, MagicMock()) for n in "12"
    }

    def looked_at() -> Iterator[tuple[str, Table]]:
        for number, table in parts.items():
            yield f"t.a//{number}", table
            state.snapshot = snapshots[1]

    shown = versions(looked_at())
    assert {at.version for at in shown.values()} == {2}
    assert [at.path for at in shown.values()] == ["t/a//1", "t/a//2"]
    assert {at.version for at in versions(looked_at()).values()} == {3}
