"""What was committed to a table since the last look: by this process, by others, by a former owner;
and what became of a commit whose answer was lost."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.control.records.table_notes import foreign_changes
from spark_repl.control.table.control import Control
from spark_repl.delta.columns import Columns, schema_json
from spark_repl.delta.snapshot import NewTable
from spark_repl.delta.stamp import Stamp
from spark_repl.errors import ConcurrentChangeError, FencedError, FormerOwnerError, TargetError
from spark_repl.write.files.commit import check_files
from spark_repl.write.tables.table import DeltaState, Table
from spark_repl.write.tables.table_commits import Outcome, TableCommits
from tests.support.local_delta import LocalDelta, put

APP = "spark_repl:default"
SCHEMA = schema_json(pa.schema([pa.field("id", pa.int32(), False)]))
PLAIN: dict[str, Any] = {"configuration": {}, "partitionColumns": []}
ROWS = {"path": "theirs", "size": 1, "dataChange": True, "partitionValues": {}}


class Made:
    """A table at version 0, position 10, and what looks at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder / "t" / "a")
        self.delta = LocalDelta()
        self.delta.create(self.folder, NewTable(SCHEMA, {}), Stamp(APP, 10, ""))
        self.control = Control(str(folder / "control"))
        self.control.claim()
        self.options = SimpleNamespace(accept_foreign=False)
        options: Any = self.options
        self.commits = TableCommits(self.control, self.delta, APP, options)
        snapshot, unknown = self.delta.snapshot(self.folder), object()
        assert snapshot is not None
        definition: Any = unknown
        columns = Columns.of(SCHEMA)
        state = DeltaState(snapshot, 10)
        self.table = Table("t.a", "t/a", self.folder, definition, True, state, columns)

    def ours(self, position: int, *paths: str) -> int:
        adds = [{"add": {**ROWS, "path": path}} for path in paths]
        return self._put(adds, APP, position)

    def theirs(self, *actions: dict[str, Any], operation: str = "WRITE") -> int:
        return self._put(list(actions), operation=operation)

    def copied(self) -> int:
        return self._put([{"add": ROWS}], f"{APP}:copy", 1)

    def _put(self, actions: list[dict[str, Any]], *args: Any, **named: Any) -> int:
        return put(self.folder, self.delta.version(self.folder) + 1, actions, *args, **named)

    @property
    def state(self) -> tuple[int, int]:
        return self.table.snapshot.version, self.table.position


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def taken_over(made: Made) -> None:
    Control(made.control.path).claim(take_over=True)


# A look at the table.


def test_what_changes_no_row_is_taken_in(made):
    made.theirs({"add": {**ROWS, "dataChange": False}}, operation="OPTIMIZE")
    for _ in range(2):
        made.commits.refresh(made.table)
        assert (made.state, made.table.complete) == ((1, 10), True)


def test_a_chunk_of_our_copy_is_nobody_elses(made):
    made.copied()
    made.commits.refresh(made.table)
    assert made.state == (1, 10)
    made.theirs({"add": {**ROWS, "path": "more"}})
    with pytest.raises(TargetError, match="version 2 is a WRITE"):
        made.commits.refresh(made.table)


def test_rows_of_others_are_refused_whatever_follows(made):
    made.ours(20, "x")
    made.table.delta.pending = 20
    made.theirs({"add": ROWS})
    made.theirs(operation="OPTIMIZE")
    made.theirs({"remove": {**ROWS, "path": "x"}}, operation="DELETE")
    with pytest.raises(TargetError, match="version 2 is a WRITE") as found:
        made.commits.refresh(made.table)
    assert (found.value.table, found.value.file) == ("t.a", made.folder)
    assert "TO VERSION AS OF 1" in (found.value.hint or "")


def test_rows_of_others_below_a_commit_of_ours_are_refused(made):
    """A RESTORE would take our commit away while its position stays, so none is proposed."""
    made.theirs({"add": ROWS})
    made.ours(20, "x")
    made.table.delta.pending = 20
    with pytest.raises(TargetError, match="version 1 is a WRITE") as found:
        made.commits.refresh(made.table)
    assert "TO VERSION AS OF" not in (found.value.hint or "")


@pytest.mark.parametrize("ours_behind", [False, True])
def test_rows_of_others_that_were_taken_back_pass(made, ours_behind):
    made.theirs({"add": ROWS})
    made.theirs({"remove": ROWS}, operation="RESTORE")
    if ours_behind:
        made.ours(20, "x")
        made.table.delta.pending = 20
    made.commits.refresh(made.table)
    assert made.state == ((3, 20) if ours_behind else (2, 10))


def test_rows_of_others_that_were_taken_back_to_their_own_optimize_pass(made):
    small: dict[str, Any] = {**ROWS, "path": "small", "dataChange": False}
    made.theirs({"add": small}, operation="OPTIMIZE")
    made.theirs({"add": ROWS})
    with pytest.raises(TargetError) as found:
        made.commits.refresh(made.table)
    assert "TO VERSION AS OF 1" in (found.value.hint or "")
    made.theirs({"remove": ROWS}, operation="RESTORE")
    made.commits.refresh(made.table)
    assert made.state == (3, 10)


def test_rows_taken_back_to_a_version_before_ours_are_refused(made):
    made.ours(20, "x")
    made.table.delta.pending = 20
    made.theirs({"remove": {**ROWS, "path": "x"}}, operation="RESTORE")
    with pytest.raises(TargetError, match="RESTORE"):
        made.commits.refresh(made.table)


def test_rows_of_others_are_accepted_and_noted_once(made):
    made.options.accept_foreign = True
    made.theirs({"add": ROWS})
    made.theirs({"add": {**ROWS, "path": "more"}})
    made.commits.refresh(made.table)
    assert not made.table.complete
    (noted,) = foreign_changes(made.control)
    assert noted.name == "t.a"
    made.theirs({"add": {**ROWS, "path": "old"}}, operation="RESTORE")
    with pytest.raises(TargetError, match="RESTORE"):
        made.commits.refresh(made.table)


def test_a_changed_definition_is_never_accepted(made):
    made.options.accept_foreign = True
    schema = schema_json(pa.schema([pa.field("id", pa.int64(), False)]))
    metadata = {"id": made.table.snapshot.metadata_id, "schemaString": schema}
    made.theirs({"metaData": {**metadata, **PLAIN}}, operation="CHANGE COLUMN")
    with pytest.raises(TargetError, match="is a CHANGE COLUMN"):
        made.commits.refresh(made.table)


@pytest.mark.parametrize("fenced", [False, True])
def test_a_commit_of_the_channel_that_is_not_ours(made, fenced):
    made.ours(20)
    if fenced:
        taken_over(made)
    with pytest.raises(FencedError if fenced else FormerOwnerError):
        made.commits.refresh(made.table)
    assert made.state == (0, 10)


def test_our_commit_that_was_pending_is_taken_in(made):
    made.ours(20)
    made.table.delta.pending = 20
    made.commits.refresh(made.table)
    assert (made.state, made.table.delta.pending) == ((1, 20), None)


def test_commits_that_the_table_is_known_by_are_ours(made):
    """At a start: those between the last cut and the table as it was just read."""
    made.ours(20)
    for version in (1, 2):
        newest = made.delta.snapshot(made.folder)
        made.table.take(newest, 20)
        made.commits.check(made.table, newest.metadata_id, 0, newest)
        assert made.state == (version, 20)
        made.theirs(operation="OPTIMIZE")


def test_a_table_that_is_another_one(made):
    newest = made.delta.snapshot(made.folder)
    for identity, snapshot, said in (
        ("other", newest, "replaced by another one"),
        (newest.metadata_id, None, "the table is gone"),
    ):
        with pytest.raises(TargetError, match=said):
            made.commits.check(made.table, identity, 0, snapshot)


def test_a_table_that_is_older_than_it_was(made):
    newest = made.delta.snapshot(made.folder)
    made.commits.check(made.table, newest.metadata_id, 0, newest)
    with pytest.raises(TargetError, match="older state"):
        made.commits.check(made.table, newest.metadata_id, 1, newest)


def test_a_feature_that_came_meanwhile_is_refused(made):
    metadata = {"id": made.table.snapshot.metadata_id, "schemaString": SCHEMA}
    metadata |= {**PLAIN, "configuration": {"delta.appendOnly": "true"}}
    made.theirs({"metaData": metadata}, operation="SET TBLPROPERTIES")
    with pytest.raises(TargetError, match="appendOnly"):
        made.commits.refresh(made.table)


# What became of a commit.


def test_settle_finds_our_commit(made):
    made.theirs(operation="OPTIMIZE")
    made.commits.refresh(made.table)
    assert made.commits.settle(made.table, 10) is Outcome.LANDED
    assert made.commits.settle(made.table, 20) is Outcome.UNKNOWN
    made.ours(20)
    made.theirs(operation="OPTIMIZE")
    assert made.commits.settle(made.table, 20) is Outcome.LANDED
    assert made.state == (2, 20), "what others did behind it is seen by the next look"


def test_settle_finds_another_commit_in_its_place(made):
    made.table.delta.pending = 20
    made.theirs({"add": ROWS})
    assert made.commits.settle(made.table, 20) is Outcome.BEATEN
    assert (made.state, made.table.delta.pending) == ((0, 10), None)


@pytest.mark.parametrize("fenced", [False, True])
def test_settle_finds_a_commit_that_is_not_ours(made, fenced):
    made.ours(30)
    if fenced:
        taken_over(made)
    with pytest.raises(FencedError if fenced else FormerOwnerError):
        made.commits.settle(made.table, 20)


# Files that are gone.


# Properties.


class Above(LocalDelta):
    """Delta's own ALTER TABLE lands above what others have committed since it was planned."""

    def set_properties(self, planned: Any, properties: Mapping[str, str], app: str) -> int:
        newest = self.snapshot(planned.folder)
        assert newest is not None
        return super().set_properties(newest, properties, app)


@pytest.mark.parametrize("accept", [False, True])
def test_properties_that_landed_above_rows_of_others(made, accept):
    made.commits.delta, made.options.accept_foreign = Above(), accept
    made.theirs({"add": ROWS})
    with made.table.lock:
        if accept:
            made.commits.set_properties(made.table, {"p": "2"})
            assert (made.state, made.table.complete) == ((2, 10), False)
            assert [change.version for change in foreign_changes(made.control)] == [1]
            assert made.table.snapshot.configuration == {"p": "2"}
            assert "theirs" in made.commits.live(made.table).adds
        for _ in range(0 if accept else 2):
            with pytest.raises(TargetError, match="version 1 is a WRITE"):
                made.commits.set_properties(made.table, {"p": "2"})


def gone(folder: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file", f"{folder}/part-1.parquet")


def test_a_file_of_the_plan_is_gone(made):
    with (
        pytest.raises(TargetError, match="newest version names is gone") as found,
        made.commits.files_there([made.table]),
    ):
        raise gone(made.folder)
    assert not isinstance(found.value, ConcurrentChangeError)
    made.theirs(operation="OPTIMIZE")
    with pytest.raises(ConcurrentChangeError), made.commits.files_there([made.table]):
        raise gone(made.folder)
    with pytest.raises(FileNotFoundError), made.commits.files_there([made.table]):
        raise gone("/elsewhere")


def test_a_new_file_that_somebodys_vacuum_took(made):
    Path(made.folder, "new").touch()
    check_files(made.table, ["new"])
    with pytest.raises(ConcurrentChangeError, match="gone is gone"):
        check_files(made.table, ["new", "gone"])


def test_a_file_that_is_live_no_more(made):
    made.ours(20, "x")
    made.table.delta.pending = 20
    made.commits.refresh(made.table)
    with made.table.lock:
        assert made.commits.action(made.table, "x")["path"] == "x"
        with pytest.raises(ConcurrentChangeError):
            made.commits.action(made.table, "y")


# Files elsewhere.


@pytest.mark.parametrize("accept", [False, True])
def test_a_shallow_clone_in_the_tables_place_is_refused_until_it_is_undone(made, accept):
    """Its files go when somebody runs VACUUM on its source."""
    made.options.accept_foreign = accept
    add = {**ROWS, "path": "file:/source/part.parquet", "dataChange": not accept}
    made.theirs({"add": add}, operation="CLONE")
    with pytest.raises(TargetError, match="outside of its folder") as found:
        made.commits.refresh(made.table)
    assert "TO VERSION AS OF 0" in (found.value.hint or "")
    made.theirs({"remove": add}, operation="RESTORE")
    made.commits.refresh(made.table)
    assert made.state == (2, 10)


def test_a_table_whose_files_are_elsewhere_is_not_opened_for_writing(made):
    made.ours(20, "file:/source/part.parquet")
    snapshot = made.delta.snapshot(made.folder)
    made.table.take(snapshot, 20, None)
    with made.table.lock, pytest.raises(TargetError, match="outside of its folder") as found:
        made.commits.live_files(made.table)
    assert found.value.table == "t.a"
