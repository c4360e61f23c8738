"""Checkpoints of other engines that are not complete: no snapshot lacks files in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.delta.log import checkpoint_writer, log_checkpoints, log_state
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.log_replay import checkpoint_path, commit_path
from spark_repl.errors import TargetError
from tests.support.v2_checkpoint import write_parts, write_v2
from tests.unit.delta.log.test_log_state import Table, add, remove

LOST: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table(tmp_path / "t")
    for number in range(4):
        table.commit(add(f"f{number}"))
    return table


@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("embedded", [False, True])
def test_a_checkpoint_is_read_with_sidecars_and_without(
    table: Table, kind: str, embedded: bool
) -> None:
    """Delta protocol, section "V2 Spec": a manifest names sidecars, or has the files itself."""
    table.commit(remove("f0"))
    before, files = table.snapshot(), live_files(table.folder, 5)
    removed = checkpoint_writer.reconciled(table.folder, before.state, 0)[1].to_pylist()
    write_v2(table.folder, kind=kind, embedded=embedded)
    for version in range(6):
        Path(commit_path(table.folder, version)).unlink()
    assert table.snapshot() == before
    assert live_files(table.folder, 5) == files
    assert checkpoint_writer.reconciled(table.folder, before.state, 0)[1].to_pylist() == removed


@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("loss", LOST)
def test_commits_replace_a_checkpoint_whose_sidecar_is_damaged(
    table: Table, kind: str, loss: str
) -> None:
    before, files = table.snapshot(), live_files(table.folder, 4)
    _, sidecars = write_v2(table.folder, kind=kind)
    LOST[loss](sidecars[1])
    assert log_checkpoints.newest(table.folder) is None
    assert table.snapshot() == before
    assert live_files(table.folder, 4) == files
    table.commit(add("more"))


@pytest.mark.parametrize("kind", ["json", "parquet"])
@pytest.mark.parametrize("loss", [*LOST, "a line less", "half a line"])
def test_an_older_checkpoint_replaces_one_whose_manifest_is_damaged(
    table: Table, kind: str, loss: str
) -> None:
    files = live_files(table.folder, 4)
    write_v2(table.folder, 2)
    manifest, _ = write_v2(table.folder, 3, kind)
    for version in range(3):
        Path(commit_path(table.folder, version)).unlink()
    if loss in LOST:
        LOST[loss](manifest)
    elif kind == "json":
        lines = manifest.read_text().splitlines(keepends=True)
        last = "" if loss == "a line less" else lines[-1][:9]
        manifest.write_text("".join(lines[:-1]) + last)
    else:
        manifest.write_bytes(manifest.read_bytes()[:-1])
    base = log_checkpoints.newest(table.folder)
    assert base is not None and base.version == 2
    assert live_files(table.folder, 4) == files


@pytest.mark.parametrize("upto", [2, 3])
def test_a_sidecar_that_is_missing_is_named_where_nothing_replaces_the_checkpoint(
    table: Table, upto: int
) -> None:
    """``upto``: the newest commit that is gone, before the checkpoint's version."""
    _, sidecars = write_v2(table.folder, 3)
    sidecars[0].unlink()
    for version in range(upto + 1):
        Path(commit_path(table.folder, version)).unlink()
    for read in (lambda: log_state.load(table.folder), lambda: live_files(table.folder, 4)):
        with pytest.raises(TargetError, match="version 0 of the table's log is"):
            read()


@pytest.mark.parametrize("older", [None, 1])
def test_a_newest_version_that_only_a_damaged_checkpoint_holds_is_an_error(
    table: Table, older: int | None
) -> None:
    """Without the error an older version would be read, or no table."""
    if older is not None:
        write_v2(table.folder, older)
    _, sidecars = write_v2(table.folder, 4)
    sidecars[0].unlink()
    for version in range(5):
        Path(commit_path(table.folder, version)).unlink()
    with pytest.raises(TargetError, match=r"checkpoint of version 4 .* is not whole"):
        log_state.load(table.folder)
    with pytest.raises(TargetError, match=r"checkpoint of version 4 .* is not whole"):
        table.log.version(table.folder)


def test_a_classic_name_may_have_sidecars(table: Table) -> None:
    manifest, sidecars = write_v2(table.folder, kind="parquet")
    manifest = manifest.rename(checkpoint_path(table.folder, 4))
    files = live_files(table.folder, 4)
    assert sorted(files) == ["f0", "f1", "f2", "f3"]
    assert log_checkpoints.newest(table.folder) is not None
    sidecars[2].unlink()
    assert log_checkpoints.newest(table.folder) is None
    assert live_files(table.folder, 4) == files
    checkpoint = log_checkpoints.Checkpoint(4, (str(manifest),))
    with pytest.raises(TargetError, match=r"sidecar of the checkpoint of version 4 .* is missing"):
        list(checkpoint.files("add"))
    manifest.unlink()
    with pytest.raises(FileNotFoundError):
        list(checkpoint.files("add"))


def test_a_checkpoint_of_several_files_lacks_one(table: Table) -> None:
    files = live_files(table.folder, 4)
    paths = write_parts(table.folder, parts=3)
    assert live_files(table.folder, 4) == files
    paths[1].unlink()
    assert log_checkpoints.newest(table.folder) is None
    assert live_files(table.folder, 4) == files


def test_a_sidecar_may_be_named_by_a_uri(table: Table) -> None:
    """Engines are encouraged to write the name only."""
    files = live_files(table.folder, 4)
    manifest, sidecars = write_v2(table.folder)
    text = manifest.read_text()
    for path in sidecars:
        moved = path.with_name(f"a b{path.name}")
        path.rename(moved)
        text = text.replace(f'"{path.name}"', f'"file:{path.parent}/a%20b{path.name}"')
    manifest.write_text(text)
    manifest.with_name("_last_checkpoint").unlink()
    base = log_checkpoints.newest(table.folder)
    assert base is not None and base.version == 4
    assert live_files(table.folder, 4) == files
