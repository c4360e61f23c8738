"""Commits to a table since the last read: by this process, by other writers, by a former owner. And
the outcome of a commit whose answer was lost."""

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
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_snapshot import NewTable
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
        self.options = SimpleNamespace(accept_foreign=False, inline_vector_bytes=0)
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
def case(tmp_path: Path) -> Made:
    return Made(tmp_path)


def taken_over(case: Made) -> None:
    Control(case.control.path).claim(take_over=True)


# A look at the table.


def test_commits_that_change_no_row_pass(case):
    case.theirs({"add": {**ROWS, "dataChange": False}}, operation="OPTIMIZE")
    for _ in range(2):
        case.commits.refresh(case.table)
        assert (case.state, case.table.complete) == ((1, 10), True)


def test_a_chunk_of_an_own_copy_is_an_own_commit(case):
    case.copied()
    case.commits.refresh(case.table)
    assert case.state == (1, 10)
    case.theirs({"add": {**ROWS, "path": "more"}})
    with pytest.raises(TargetError, match="version 2 is a WRITE"):
        case.commits.refresh(case.table)


def test_foreign_rows_are_refused_whatever_follows(case):
    case.ours(20, "x")
    case.table.delta.pending = 20
    case.theirs({"add": ROWS})
    case.theirs(operation="OPTIMIZE")
    case.theirs({"remove": {**ROWS, "path": "x"}}, operation="DELETE")
    with pytest.raises(TargetError, match="version 2 is a WRITE") as error:
        case.commits.refresh(case.table)
    assert (error.value.table, error.value.file) == ("t.a", case.folder)
    assert "TO VERSION AS OF 1" in (error.value.hint or "")


def test_foreign_rows_before_an_own_commit_are_refused(case):
    """A RESTORE would take our commit away while its position stays, so none is proposed."""
    case.theirs({"add": ROWS})
    case.ours(20, "x")
    case.table.delta.pending = 20
    with pytest.raises(TargetError, match="version 1 is a WRITE") as error:
        case.commits.refresh(case.table)
    assert "TO VERSION AS OF" not in (error.value.hint or "")


@pytest.mark.parametrize("ours_behind", [False, True])
def test_foreign_rows_that_were_restored_pass(case, ours_behind):
    case.theirs({"add": ROWS})
    case.theirs({"remove": ROWS}, operation="RESTORE")
    if ours_behind:
        case.ours(20, "x")
        case.table.delta.pending = 20
    case.commits.refresh(case.table)
    assert case.state == ((3, 20) if ours_behind else (2, 10))


def test_a_restore_to_a_foreign_optimize_passes(case):
    small: dict[str, Any] = {**ROWS, "path": "small", "dataChange": False}
    case.theirs({"add": small}, operation="OPTIMIZE")
    case.theirs({"add": ROWS})
    with pytest.raises(TargetError) as error:
        case.commits.refresh(case.table)
    assert "TO VERSION AS OF 1" in (error.value.hint or "")
    case.theirs({"remove": ROWS}, operation="RESTORE")
    case.commits.refresh(case.table)
    assert case.state == (3, 10)


def test_a_restore_to_a_version_before_an_own_commit_is_refused(case):
    case.ours(20, "x")
    case.table.delta.pending = 20
    case.theirs({"remove": {**ROWS, "path": "x"}}, operation="RESTORE")
    with pytest.raises(TargetError, match="RESTORE"):
        case.commits.refresh(case.table)


def test_accepted_foreign_rows_are_recorded_once(case):
    case.options.accept_foreign = True
    case.theirs({"add": ROWS})
    case.theirs({"add": {**ROWS, "path": "more"}})
    case.commits.refresh(case.table)
    assert not case.table.complete
    (noted,) = foreign_changes(case.control)
    assert noted.name == "t.a"
    case.theirs({"add": {**ROWS, "path": "old"}}, operation="RESTORE")
    with pytest.raises(TargetError, match="RESTORE"):
        case.commits.refresh(case.table)


def test_a_changed_definition_is_never_accepted(case):
    case.options.accept_foreign = True
    schema = schema_json(pa.schema([pa.field("id", pa.int64(), False)]))
    metadata = {"id": case.table.snapshot.metadata_id, "schemaString": schema}
    case.theirs({"metaData": {**metadata, **PLAIN}}, operation="CHANGE COLUMN")
    with pytest.raises(TargetError, match="is a CHANGE COLUMN"):
        case.commits.refresh(case.table)


@pytest.mark.parametrize("fenced", [False, True])
def test_a_commit_of_the_channel_by_another_process_is_refused(case, fenced):
    case.ours(20)
    if fenced:
        taken_over(case)
    with pytest.raises(FencedError if fenced else FormerOwnerError):
        case.commits.refresh(case.table)
    assert case.state == (0, 10)


def test_a_pending_own_commit_passes(case):
    case.ours(20)
    case.table.delta.pending = 20
    case.commits.refresh(case.table)
    assert (case.state, case.table.delta.pending) == ((1, 20), None)


def test_commits_up_to_the_known_position_are_own(case):
    """At a start: those between the last cut and the table as it was just read."""
    case.ours(20)
    for version in (1, 2):
        newest = case.delta.snapshot(case.folder)
        case.table.update(newest, 20)
        case.commits.check(case.table, newest.metadata_id, 0, newest)
        assert case.state == (version, 20)
        case.theirs(operation="OPTIMIZE")


def test_a_replaced_table_is_refused(case):
    newest = case.delta.snapshot(case.folder)
    for identity, snapshot, said in (
        ("other", newest, "replaced by another one"),
        (newest.metadata_id, None, "the table is gone"),
    ):
        with pytest.raises(TargetError, match=said):
            case.commits.check(case.table, identity, 0, snapshot)


def test_an_older_state_of_a_table_is_refused(case):
    newest = case.delta.snapshot(case.folder)
    case.commits.check(case.table, newest.metadata_id, 0, newest)
    with pytest.raises(TargetError, match="older state"):
        case.commits.check(case.table, newest.metadata_id, 1, newest)


def test_a_feature_that_was_added_meanwhile_is_refused(case):
    metadata = {"id": case.table.snapshot.metadata_id, "schemaString": SCHEMA}
    metadata |= {**PLAIN, "configuration": {"delta.appendOnly": "true"}}
    case.theirs({"metaData": metadata}, operation="SET TBLPROPERTIES")
    with pytest.raises(TargetError, match="appendOnly"):
        case.commits.refresh(case.table)


# What became of a commit.


def test_resolve_finds_an_own_commit(case):
    case.theirs(operation="OPTIMIZE")
    case.commits.refresh(case.table)
    assert case.commits.resolve(case.table, 10) is Outcome.LANDED
    assert case.commits.resolve(case.table, 20) is Outcome.UNKNOWN
    case.ours(20)
    case.theirs(operation="OPTIMIZE")
    assert case.commits.resolve(case.table, 20) is Outcome.LANDED
    assert case.state == (2, 20), "what others did behind it is seen by the next look"


def test_resolve_finds_another_commit_in_its_place(case):
    case.table.delta.pending = 20
    case.theirs({"add": ROWS})
    assert case.commits.resolve(case.table, 20) is Outcome.BEATEN
    assert (case.state, case.table.delta.pending) == ((0, 10), None)


@pytest.mark.parametrize("fenced", [False, True])
def test_resolve_finds_a_commit_of_another_process(case, fenced):
    case.ours(30)
    if fenced:
        taken_over(case)
    with pytest.raises(FencedError if fenced else FormerOwnerError):
        case.commits.resolve(case.table, 20)


# Files that are gone.


# Properties.


class Above(LocalDelta):
    """Delta's own ALTER TABLE lands above what others have committed since it was planned."""

    def set_properties(self, planned: Any, properties: Mapping[str, str], app: str) -> int:
        newest = self.snapshot(planned.folder)
        assert newest is not None
        return super().set_properties(newest, properties, app)


@pytest.mark.parametrize("accept", [False, True])
def test_properties_that_landed_after_foreign_rows(case, accept):
    case.commits.delta, case.options.accept_foreign = Above(), accept
    case.theirs({"add": ROWS})
    with case.table.lock:
        if accept:
            case.commits.set_properties(case.table, {"p": "2"})
            assert (case.state, case.table.complete) == ((2, 10), False)
            assert [change.version for change in foreign_changes(case.control)] == [1]
            assert case.table.snapshot.configuration == {"p": "2"}
            assert "theirs" in case.commits.live(case.table).adds
        for _ in range(0 if accept else 2):
            with pytest.raises(TargetError, match="version 1 is a WRITE"):
                case.commits.set_properties(case.table, {"p": "2"})


def gone(folder: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "No such file", f"{folder}/part-1.parquet")


def test_a_planned_file_that_is_gone_is_explained(case):
    with (
        pytest.raises(TargetError, match="newest version names is gone") as error,
        case.commits.explain_gone_files([case.table]),
    ):
        raise gone(case.folder)
    assert not isinstance(error.value, ConcurrentChangeError)
    case.theirs(operation="OPTIMIZE")
    with pytest.raises(ConcurrentChangeError), case.commits.explain_gone_files([case.table]):
        raise gone(case.folder)
    with pytest.raises(FileNotFoundError), case.commits.explain_gone_files([case.table]):
        raise gone("/elsewhere")


def test_a_new_file_that_a_foreign_vacuum_removed_stops_the_commit(case):
    Path(case.folder, "new").touch()
    check_files(case.table, ["new"])
    with pytest.raises(ConcurrentChangeError, match="gone is gone"):
        check_files(case.table, ["new", "gone"])


def test_a_planned_file_that_is_no_longer_live_stops_the_commit(case):
    case.ours(20, "x")
    case.table.delta.pending = 20
    case.commits.refresh(case.table)
    with case.table.lock:
        assert case.commits.action(case.table, "x")["path"] == "x"
        with pytest.raises(ConcurrentChangeError):
            case.commits.action(case.table, "y")


# Files elsewhere.


@pytest.mark.parametrize("accept", [False, True])
def test_a_shallow_clone_over_the_table_is_refused_until_it_is_undone(case, accept):
    """A VACUUM of the clone's source would remove its files."""
    case.options.accept_foreign = accept
    add = {**ROWS, "path": "file:/source/part.parquet", "dataChange": not accept}
    case.theirs({"add": add}, operation="CLONE")
    with pytest.raises(TargetError, match="outside of its folder") as error:
        case.commits.refresh(case.table)
    assert "TO VERSION AS OF 0" in (error.value.hint or "")
    case.theirs({"remove": add}, operation="RESTORE")
    case.commits.refresh(case.table)
    assert case.state == (2, 10)


def test_a_table_whose_files_are_elsewhere_is_not_opened_for_writing(case):
    case.ours(20, "file:/source/part.parquet")
    snapshot = case.delta.snapshot(case.folder)
    case.table.update(snapshot, 20, None)
    with case.table.lock, pytest.raises(TargetError, match="outside of its folder") as error:
        case.commits.live_files(case.table)
    assert error.value.table == "t.a"
