"""``relay ls``, ``dump``, ``verify`` and ``purge`` of an archive: what they show and remove."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.config import load
from spark_repl.control.records.channels import control_of
from spark_repl.control.table.cut import Cut
from spark_repl.gtid import GtidSet
from spark_repl.receiver.purge import purge
from spark_repl.relay.archive import RelayArchive
from spark_repl.relay.log import open_log
from spark_repl.runtime.stores import store_of
from tests.support.archived_log import archiver, opened, received, write_source


@pytest.fixture
def source_files(tmp_path: Path) -> list[Path]:
    return write_source(tmp_path / "source")


@pytest.fixture
def relay(tmp_path: Path, source_files: list[Path]) -> Path:
    """A receiver's log of several files."""
    received(tmp_path / "relay", source_files)
    return tmp_path / "relay"


@pytest.fixture
def archive(tmp_path: Path, relay: Path) -> RelayArchive:
    """The archive of that log, of the only channel of ``relay.archive``."""
    archive = RelayArchive(str(tmp_path / "archive" / "default"))
    archiver(relay, archive, target=str(tmp_path / "lake")).turn()
    return archive


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The configuration of the target."""
    path = tmp_path / "run.toml"
    path.write_text(
        f'[relay]\npath = "{tmp_path}/relay"\narchive = "{tmp_path}/archive"\n'
        f'[target]\npath = "{tmp_path}/lake"\n'
    )
    path.chmod(0o600)
    return path


def _json(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    assert main([*map(str, arguments), "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_archive_is_read_as_its_log(
    relay: Path, archive: RelayArchive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (archive.root, archive.folder(1), tmp_path / "archive"):
        (of_archive,) = _json(capsys, "relay", "ls", place)
        (of_folder,) = _json(capsys, "relay", "ls", relay)
        assert of_archive["files"] == of_folder["files"]
        (log,) = of_archive["logs"]
        assert of_archive["log"] == log["log"] == archive.folder(1)
        assert log["whole"] and log["target"] == str(tmp_path / "lake")
        assert _json(capsys, "relay", "dump", place) == _json(capsys, "relay", "dump", relay)
        (checks,) = _json(capsys, "relay", "verify", place)
        assert [checks] == _json(capsys, "relay", "verify", relay) and checks["ok"]


def test_an_archive_that_ends_within_a_transaction_is_sound(
    archive: RelayArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    file = archive.logs()[0].files[-2]
    folder = archive.file_folder(1, file.number)
    store_of(folder).remove_folder(archive.file_folder(1, file.number + 1))
    store_of(folder).remove(f"{folder}/sealed.{file.end}")
    store_of(folder).remove(file.chunks[-1].uri)
    (checks,) = _json(capsys, "relay", "verify", archive.root)
    assert checks["ok"] and "cut at the end" in checks["files"][-1]["note"]


def test_damage_of_an_archive_is_named(
    archive: RelayArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    chunk = archive.logs()[0].files[1].chunks[3]
    path = Path(chunk.uri)
    path.write_bytes(path.read_bytes()[::-1])
    (checks,) = _json(capsys, "relay", "verify", archive.root, code=1)
    bad = [check["file"] for check in checks["files"] if check["problem"]]
    assert bad[:1] == ["relay.000002"]


def test_an_archive_of_several_channels_is_refused_by_name(
    archive: RelayArchive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(archive.root, tmp_path / "archive" / "east")
    assert main(["relay", "ls", str(tmp_path / "archive")]) == 2
    err = capsys.readouterr().err
    assert f"{tmp_path}/archive/default" in err and f"{tmp_path}/archive/east" in err


def test_a_uri_without_an_archive_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("ls", "dump", "verify", "purge"):
        assert main(["relay", command, f"file://{Path(__file__).parent}"]) == 2
        assert "no archived relay log" in capsys.readouterr().err


def _publish(file: Path, executed: GtidSet) -> None:
    """Publish a cut of a target without tables."""
    control = control_of(load(str(file)))
    control.claim()
    control.publish(Cut(1 << 40, str(executed), "log", {}, {}))
    control.release()


def _all(relay: Path) -> GtidSet:
    with opened(relay) as writer:
        return writer.received


def test_a_purge_drops_what_the_target_has_passed(
    relay: Path, archive: RelayArchive, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = archive.logs()[0].numbers
    _publish(file, open_log(str(relay)).head(4).previous_gtids)
    (purged,) = _json(capsys, "relay", "purge", archive.root, "--config", file)
    assert purged["files"] == [archive.file_folder(1, number) for number in (1, 2, 3)]
    assert archive.logs()[0].numbers == tuple(number for number in numbers if number > 3)
    archiver(relay, archive, target=str(file.parent / "lake")).turn()
    purge(relay, 5)
    archiver(relay, archive, target=str(file.parent / "lake")).turn()
    assert archive.logs()[0].numbers == tuple(number for number in numbers if number > 4)


def test_a_purge_drops_earlier_logs_that_the_target_does_not_need(
    relay: Path, archive: RelayArchive, file: Path, source_files: list[Path],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The newest stays: a receiver may write it."""
    target, received_set = str(file.parent / "lake"), _all(relay)
    received(file.parent / "other", source_files)
    archiver(file.parent / "other", archive, target="/elsewhere").turn()
    received(file.parent / "short", source_files[:1])
    archiver(file.parent / "short", archive, target=target).turn()
    _publish(file, _all(file.parent / "short"))
    (purged,) = _json(capsys, "relay", "purge", archive.root, "--config", file)
    assert not purged["logs"], "the first one has what the target lacks"
    _publish(file, received_set)
    (purged,) = _json(capsys, "relay", "purge", archive.root, "--config", file)
    assert purged["logs"] == [archive.folder(1)]
    assert [log.generation for log in archive.logs()] == [2, 3]


def test_a_purge_keeps_a_log_whose_end_is_damaged(
    relay: Path, archive: RelayArchive, file: Path, source_files: list[Path],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    received(file.parent / "second", source_files)
    archiver(file.parent / "second", archive, target=str(file.parent / "lake")).turn()
    files = archive.logs()[0].files
    store_of(archive.root).remove_folder(archive.file_folder(1, files[-1].number))
    path = Path(files[-2].chunks[-1].uri)
    path.write_bytes(path.read_bytes()[::-1])
    _publish(file, _all(relay))
    (purged,) = _json(capsys, "relay", "purge", archive.root, "--config", file)
    assert not purged["logs"]


def test_a_purge_of_an_archive_needs_a_configuration(
    archive: RelayArchive, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["relay", "purge", archive.root, "--target", "lake"]) == 2
    assert "give --config FILE" in capsys.readouterr().err


def test_a_purge_refuses_the_archive_of_another_channel(
    relay: Path, archive: RelayArchive, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found: it removed files that the archive's channel needs, by the place of the other one."""
    _publish(file, _all(relay))
    other = RelayArchive(str(file.parent / "archive" / "east"))
    shutil.copytree(archive.root, other.root)
    before = other.logs()
    assert main(["relay", "purge", other.root, "--config", str(file)]) == 2
    error = capsys.readouterr().err
    assert other.root in error and archive.root in error
    file.write_text(file.read_text().replace("archive =", "# archive ="))
    assert main(["relay", "purge", other.root, "--config", str(file)]) == 2
    assert "it has none" in capsys.readouterr().err
    assert other.logs() == before
