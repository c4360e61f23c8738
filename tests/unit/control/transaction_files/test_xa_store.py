"""The bytes of prepared branches: in both places, fetched again, removed when they have ended."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from spark_repl.binlog.events.xid import Xid
from spark_repl.control.transaction_files.xa_store import XaStore
from spark_repl.delta.store import storage
from spark_repl.errors import FormatError, StatementError, TargetError
from spark_repl.relay.split_transactions import Piece
from spark_repl.relay.xa_branches import Branch, Branches
from tests.support.disk_steps import open_below


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    """In the middle of a relay log."""
    log = tmp_path / "relay.000001"
    log.write_bytes(bytes(range(100)))
    return Branch(Xid(1, b"one", b""), 7, "uuid:1", 0, str(log), 10, 30, True, False, 20)


@pytest.fixture
def store(tmp_path: Path) -> XaStore:
    """As of a target on an object store: durable there, read here."""
    (tmp_path / "there").mkdir()
    return XaStore(str(tmp_path / "there"), str(tmp_path / "here"))


def is_durable() -> None:
    """All is on the disk."""


def files(store: XaStore) -> tuple[list[str], list[str]]:
    """Names here and there."""
    here, there = Path(store.here), Path(store.folder)
    return sorted(p.name for p in here.iterdir()), sorted(p.name for p in there.iterdir())


def test_kept_in_both_places_and_fetched_again(
    store: XaStore, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = store.keep(branch)
    assert (kept.start, kept.end, kept.size) == (0, 20, 20)
    name = Path(kept.path).name
    assert files(store) == ([name], [name])
    wanted = bytes(range(10, 30))
    for left in (None, b"", wanted[:-1]):
        Path(kept.path).unlink()
        if left is not None:
            Path(kept.path).write_bytes(left)
        store.check([kept])
        assert Path(kept.path).read_bytes() == wanted
    shutil.rmtree(store.here)
    store.check([kept])
    (Path(store.folder) / name).unlink()
    with monkeypatch.context() as patched:
        patched.delattr(storage, "open_input")
        store.check([kept])  # what is here is enough
    Path(kept.path).unlink()
    with pytest.raises(TargetError, match=r"bytes of the prepared XA branch X'6f6e65'.* are gone"):
        store.check([kept])
    alone = XaStore(store.here)
    with pytest.raises(TargetError, match="are gone"):
        alone.check([kept])


def test_what_lay_in_several_files_is_read_from_its_own(
    tmp_path: Path, store: XaStore, branch: Branch
) -> None:
    """The relay log's files may go then."""
    pieces = [Piece(branch.path, 90, 100), Piece(str(tmp_path / "relay.000002"), 4, 14)]
    shutil.copy(branch.path, pieces[1].path)
    kept = store.keep(replace(branch, start=0, end=20, pieces=tuple(pieces)))
    for piece in pieces:
        Path(piece.path).unlink()
    with kept.open() as file:
        assert file.read() == bytes([*range(90, 100), *range(4, 14)])


def test_the_bytes_are_on_disk_before_they_have_their_name(
    tmp_path: Path, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.replace

    def synced(fd: int) -> None:
        found = os.fstat(fd)
        steps.append("folder" if stat.S_ISDIR(found.st_mode) else f"{found.st_size} bytes")
        fsync(fd)

    def renamed(old: str, new: str) -> None:
        steps.append("name")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    repl = tmp_path / "disk" / "lake" / "_repl"
    repl.mkdir(parents=True)
    alone = XaStore(str(repl / "kept"))
    kept = alone.keep(branch)
    assert steps[:3] == ["folder"] * 3, "_repl, the target, and the one that it lies in"
    assert steps[3:] == ["20 bytes", "name", "folder"]
    steps.clear()
    alone.keep(branch)
    assert steps == ["20 bytes", "name", "folder"]
    assert open_below(tmp_path) == []
    assert Path(kept.path).read_bytes() == bytes(range(10, 30))


def test_a_branch_in_a_relay_log_that_became_shorter_is_refused(
    store: XaStore, branch: Branch
) -> None:
    with pytest.raises(TargetError, match="shorter than when it was indexed"):
        store.keep(replace(branch, end=101))
    assert store.keep(replace(branch, end=100)).size == 90


def test_only_a_branchs_own_files_are_forgotten(store: XaStore, branch: Branch) -> None:
    kept = store.keep(branch)
    store.forget([branch], is_durable)  # one that ended in the group that it was prepared in
    assert Path(branch.path).exists() and files(store) == ([Path(kept.path).name],) * 2
    store.keep_ended(True)
    store.forget([kept], is_durable)
    store.clean([], is_durable)
    assert files(store) == ([Path(kept.path).name],) * 2
    store.keep_ended(False)
    store.forget([kept], is_durable)
    assert files(store) == ([], [])
    store.forget([kept], is_durable)


def test_nothing_goes_that_could_be_needed_again(store: XaStore, branch: Branch) -> None:
    def broken() -> None:
        raise OSError("what shows the end of the branch is not on the disk")

    kept = store.keep(branch)
    store.forget([branch], broken)  # it has no file here
    store.clean([kept], broken)
    with pytest.raises(OSError):
        store.forget([kept], broken)
    with pytest.raises(OSError):
        store.clean([], broken)
    assert files(store) == ([Path(kept.path).name],) * 2


def test_a_start_removes_what_no_cut_names(store: XaStore, branch: Branch) -> None:
    kept, other = store.keep(branch), store.keep(replace(branch, position=8))
    Path(f"{kept.path}.abc.new").touch()  # a copy that was cut off
    store.clean([kept], is_durable)
    assert files(store) == ([Path(kept.path).name],) * 2
    assert not Path(other.path).exists()
    later = Path(store.folder) / f"{9:020d}.events2"
    later.touch()
    with pytest.raises(FormatError):
        store.clean([kept], is_durable)
    assert later.exists()


def test_branches_are_kept_by_xid_in_the_order_of_positions(branch: Branch) -> None:
    found = Branches([replace(branch, position=9, xid=Xid(1, b"two", b"")), branch])
    assert [one.position for one in found] == [7, 9] and len(found) == 2
    assert branch.xid in found and Xid(2, b"one", b"") not in found
    with pytest.raises(StatementError, match="already exists") as caught:
        found.prepare(branch)
    assert caught.value.number == 1440
    assert found.end(branch.xid) == branch and branch.xid not in found
    with pytest.raises(StatementError, match="Unknown XID") as caught:
        found.end(branch.xid)
    assert caught.value.number == 1397
    found.prepare(branch)
    assert Branch.of_json(branch.to_json(), "p") == branch.in_own_file("p")


@pytest.mark.parametrize(
    ("xid", "valid"),
    [
        (Xid(0, b"", b""), True),
        (Xid(2**32 - 1, b"g" * 64, b"b" * 64), True),
        (Xid(2**32, b"", b""), False),
        (Xid(-1, b"", b""), False),
        (Xid(1, b"g" * 65, b""), False),
        (Xid(1, b"", b"b" * 65), False),
    ],
)
def test_an_xid_beyond_its_bounds_is_refused(xid: Xid, valid: bool) -> None:
    assert xid.is_valid is valid
    statement = f"XA COMMIT {xid}".encode()
    if valid:
        assert Xid.parse(statement) == xid
        return
    with pytest.raises(StatementError, match=r"invalid XID|readable XID"):
        Xid.parse(statement)
