"""``target move``: from a local disk to a bucket, and on to another bucket, with kills in between.

Old cuts, pins, prepared XA branches and positions are at the new place, and the applier goes on
there without a copy. The old place refuses appliers after the move, and not before.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.target_move import move_target
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.log_replay import commit_path
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.store import storage
from spark_repl.errors import ConfigError, FencedError, TargetError
from spark_repl.runtime.target_uri import canonical
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts, last_shown, run
from tests.support.s3_server import BUCKET, s3_server

A, B = Table("a"), Table("b")
BRANCH = (b"branch", b"", 1)
OTHER_BUCKET = "other-bucket"


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        url = f"{environment['AWS_ENDPOINT_URL']}/{OTHER_BUCKET}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT")).close()
        yield environment


@pytest.fixture(autouse=True)
def environment(server: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def place() -> str:
    return f"s3a://{BUCKET}/{uuid.uuid4()}/lake"


@pytest.fixture
def local(log: LogWriter, tmp_path: Path) -> str:
    """A target with history, a pinned cut and a prepared branch."""
    target = str(tmp_path / "lake")
    log.transaction(insert(A, (1, "x"), (2, "x")), insert(B, (1, "x")))
    log.xa_prepare(BRANCH, insert(A, (3, "xa")))
    assert run(log.folder, target, group_max_transactions=1)
    assert main(["cut", "pin", "--name", "before", "--target", target, "--json"]) == 0
    log.transaction(update(A, ((1, "x"), (1, "y"))), delete(B, (1, "x")))
    log.transaction(insert(B, (5, "x")))
    assert run(log.folder, target, group_max_transactions=1)
    return target


def killed_move(source: str, target: str, point: str) -> None:
    """Move until the process is killed at a crash point."""
    command = [sys.executable, "-m", "spark_repl", "target", "move", source, target]
    ran = subprocess.run(
        command, env={**os.environ, "SPARK_REPL_CRASH": point}, capture_output=True, check=False
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()


def check_moved(source: str, target: str) -> None:
    """The new place has all cuts of the old one, with their rows, pins and branches."""
    before, after = cuts(source), cuts(target)
    assert before == after and len(after) > 3
    for old, new in zip(before, after, strict=True):
        assert at_cut(canonical(source), old) == at_cut(canonical(target), new)
    pinned = ["cut", "show", "--at", "before", "--channel", "default", "--target", target]
    assert main(pinned) == 0
    assert not storage.is_file(Layout(target).move_note)


def check_goes_on(log: LogWriter, target: str, *, ends_branch: bool = True) -> None:
    """The applier applies only what is new, from the positions at the new place."""
    before = last_shown(target)
    log.transaction(insert(A, (9, "new")))
    if ends_branch:
        log.xa_end("COMMIT", BRANCH)
    assert run(log.folder, target)
    added = [(3, "xa"), (9, "new")] if ends_branch else [(9, "new")]
    assert last_shown(target) == {**before, "t.a": sorted([*before["t.a"], *added])}
    assert {at.path for at in cuts(target)[-1].tables.values()} == {"t/a", "t/b"}


def check_refused(log: LogWriter, source: str, target: str) -> None:
    with pytest.raises(FencedError, match="was moved to") as caught:
        run(log.folder, source)
    assert canonical(target) in (caught.value.hint or "")


def test_local_target_moves_to_a_bucket_and_on_to_another(
    log: LogWriter, local: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["target", "move", local, place, "--json"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["channels"] == 1 and report["copied"] == report["files"] > 5
    check_moved(local, place)
    check_refused(log, local, place)
    check_goes_on(log, place, ends_branch=False)
    other = place.replace(BUCKET, OTHER_BUCKET)
    move_target(place, other)
    check_moved(place, other)
    check_refused(log, place, other)
    check_goes_on(log, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["moving_file:9", "moving_file:20", "target_moved:1", "target_moved:2"]
)
def test_killed_move_leaves_the_source_valid_and_goes_on(
    log: LogWriter, local: str, place: str, point: str
) -> None:
    """From a disk, and from a bucket to another one."""
    other = place.replace(BUCKET, OTHER_BUCKET)
    for source, target in ((local, place), (place, other)):
        killed_move(source, target, point)
        is_there = storage.is_file(f"{target}/_repl/control/_delta_log/{0:020}.json")
        assert is_there == point.startswith("target_moved")
        moved = move_target(source, target)
        assert moved.copied < moved.files or is_there
        check_moved(source, target)
        check_refused(log, source, target)
    check_goes_on(log, other)


def test_source_that_was_applied_to_after_a_kill_is_moved_as_it_is_then(
    log: LogWriter, local: str, place: str
) -> None:
    """A file that the source has lost meanwhile is removed at the new place."""
    killed_move(local, place, "moving_file:9")
    storage.put(f"{place}/t/dropped/part-0.parquet", b"of a table that was dropped")
    log.transaction(insert(A, (7, "later")))
    assert run(log.folder, local)
    move_target(local, place)
    check_moved(local, place)
    assert not storage.exists(f"{place}/t/dropped")
    check_goes_on(log, place)


def test_commit_of_another_engine_during_the_listing_is_not_copied_without_its_files(
    local: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, walk = f"{local}/t/a", os.walk
    version = TableLog().version(table) + 1

    def optimize() -> None:
        (add, *_) = live_files(table, version - 1).values()
        storage.put(f"{table}/part-new.parquet", storage.read(f"{table}/{add['path']}"))
        removed = {k: add[k] for k in ("path", "deletionVector") if add.get(k)}
        commit: list[dict[str, object]] = [
            {"remove": {**removed, "deletionTimestamp": 1, "dataChange": False}},
            {"add": {**add, "path": "part-new.parquet", "dataChange": False}},
        ]
        storage.put(commit_path(table, version), "\n".join(map(json.dumps, commit)).encode())

    def walked(folder: str) -> Iterator[Any]:
        for at, folders, names in walk(folder):
            yield at, folders, names
            if at == table and not storage.is_file(commit_path(table, version)):
                optimize()

    monkeypatch.setattr(os, "walk", walked)
    move_target(local, place)
    assert storage.is_file(commit_path(table, version))
    copy = f"{canonical(place)}/t/a"
    for add in live_files(copy, TableLog().version(copy)).values():
        assert storage.is_file(f"{copy}/{add['path']}")
    check_moved(local, place)


def test_complete_target_is_not_taken_for_a_source_that_was_applied_to_since(
    log: LogWriter, local: str, place: str
) -> None:
    killed_move(local, place, "target_moved:1")
    log.transaction(insert(A, (7, "later")))
    assert run(log.folder, local)
    with pytest.raises(TargetError, match="has a target already"):
        move_target(local, place)
    assert run(log.folder, local)  # and the source still is one


def test_owner_that_runs_is_not_moved(log: LogWriter, local: str, place: str) -> None:
    owner = Control(Layout(local).control)
    owner.claim()
    with pytest.raises(FencedError, match="another applier owns this target"):
        move_target(local, place)
    assert not storage.exists(place)
    owner.release()
    move_target(local, place)
    check_moved(local, place)


def test_place_in_use_is_refused(log: LogWriter, local: str, place: str, tmp_path: Path) -> None:
    storage.put(f"{place}/somebody/elses", b"1")
    with pytest.raises(TargetError, match="not empty"):
        move_target(local, place)
    used = f"s3a://{BUCKET}/{uuid.uuid4()}/used"
    assert run(log.folder, used)
    with pytest.raises(TargetError, match="has a target already"):
        move_target(local, used)
    with pytest.raises(ConfigError, match="object store only"):
        move_target(local, str(tmp_path / "new"))
    with pytest.raises(ConfigError, match="in the other"):
        move_target(used, f"{used}/below")
    with pytest.raises(TargetError, match="nothing has been applied"):
        move_target(str(tmp_path / "empty"), place)
    assert run(log.folder, local)


def test_move_begun_from_another_source_is_not_mixed_up(
    log: LogWriter, local: str, place: str, tmp_path: Path
) -> None:
    killed_move(local, place, "moving_file:3")
    with pytest.raises(TargetError, match="has not ended"):
        run(log.folder, place)
    second = str(tmp_path / "second")
    assert run(log.folder, second)
    with pytest.raises(TargetError, match=r"a move from .* has begun there"):
        move_target(second, place)
    move_target(local, place)
    check_moved(local, place)


@pytest.mark.slow
def test_target_of_two_channels_moves_as_a_whole(
    log: LogWriter, us: LogWriter, local: str, place: str
) -> None:
    assert run(us.folder, local, channel="us")
    killed_move(local, place, "target_moved:1")  # between the two control tables
    for number, channel_log in enumerate((log, us)):
        with pytest.raises(TargetError, match="has not ended") as caught:
            run(channel_log.folder, place, channel=("default", "us")[number])
        assert caught.value.hint == f"call it again: spark-repl target move {local} {place}"
    move_target(local, place)
    check_moved(local, place)
    assert cuts(local, "us") == cuts(place, "us")
    for number, channel_log in enumerate((log, us)):
        with pytest.raises(FencedError, match="was moved to"):
            run(channel_log.folder, local, channel=("default", "us")[number])
    us.transaction(insert(Table("a", database="u"), (9, "us")))
    assert run(us.folder, place, channel="us")
    check_goes_on(log, place)


def test_no_channel_begins_and_no_cut_is_pinned_where_the_target_was(
    us: LogWriter, local: str, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    move_target(local, place)
    with pytest.raises(FencedError, match="was moved to"):
        run(us.folder, local, channel="us")
    assert not storage.exists(f"{local}/_repl/channels")
    assert main(["cut", "pin", "--name", "late", "--target", local]) != 0
    assert "was moved to" in capsys.readouterr().err
    assert run(us.folder, place, channel="us")


def test_take_over_goes_on_at_the_old_place(log: LogWriter, local: str, place: str) -> None:
    move_target(local, place)
    log.transaction(insert(A, (7, "later")))
    assert run(log.folder, local, take_over=True)
    assert run(log.folder, local)  # it is a target as before
