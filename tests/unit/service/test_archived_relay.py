"""The relay log's archive as a configuration names it, and a store that does not answer at a
receiver's start."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.errors import ConfigError, LogError, TargetError
from spark_repl.gtid import GtidSet
from spark_repl.receiver.restored_log import Needed
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.archive import ArchivedLog, RelayArchive
from spark_repl.service.archived_relay import archive_of, restore_lost
from spark_repl.service.receiving import receive
from tests.support.archived_log import archiver, received, transactions, write_source
from tests.support.stores import SERVERS

ALL = Needed(GtidSet())


def _config(tmp_path: Path, **relay: object) -> Config:
    values = {f"relay.{key}": value for key, value in relay.items()}
    paths = {"relay.path": str(tmp_path / "relay"), "target.path": str(tmp_path / "lake")}
    return Config().override({**paths, **values})


def test_the_archive_of_a_configuration(tmp_path: Path) -> None:
    assert archive_of(_config(tmp_path)) is None
    assert archive_of(_config(tmp_path, archive="off")) is None
    config = _config(tmp_path, archive="s3://bucket/logs").override({"channel": "eu-west"})
    archive = archive_of(config)
    assert archive is not None and archive.root == "s3a://bucket/logs/eu-west"
    with pytest.raises(ConfigError):
        archive_of(_config(tmp_path, archive="hdfs://bucket/logs"))


def test_a_relative_archive_starts_at_the_file(tmp_path: Path) -> None:
    file = str(tmp_path / "replica.toml")
    for given, read in (("logs", str(tmp_path / "logs")), ("off", "off"), ("", "")):
        config = Config.from_mapping({"relay": {"archive": given}}, file=file)
        assert config.relay.archive == read


def test_a_target_on_an_object_store_has_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SERVERS["s3"](tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        config = _config(tmp_path).override({"target.path": f"{server.base}/lake"})
        archive = archive_of(config)
        assert archive is not None and archive.root == f"{server.base}/lake/_repl/relay"
        assert archive_of(config.override({"relay.archive": "off"})) is None


class _FailingArchive(RelayArchive):
    """An archive whose listing fails a number of times."""

    def __init__(self, root: str, errors: list[OSError]) -> None:
        super().__init__(root)
        self._errors: Iterator[OSError] = iter(errors)

    def logs(self) -> list[ArchivedLog]:
        for error in self._errors:
            raise error
        return super().logs()


@pytest.fixture
def lost(tmp_path: Path) -> tuple[Path, str]:
    """A lost log, and its archive's root."""
    folder, root = tmp_path / "lost", str(tmp_path / "archive")
    received(folder, write_source(tmp_path / "source"))
    archiver(folder, RelayArchive(root), target=str(tmp_path / "lake")).turn()
    return folder, root


def test_a_store_that_does_not_answer_is_asked_again(
    tmp_path: Path, lost: tuple[Path, str]
) -> None:
    """Without it the receiver would begin a new log, though the source may have purged."""
    archive = _FailingArchive(lost[1], [OSError(errno.EIO, "503")] * 3)
    waits = list[float]()

    def wait(seconds: float) -> bool:
        waits.extend([seconds] if seconds else [])
        return False

    assert restore_lost(_config(tmp_path), archive, ALL, wait)
    assert len(waits) == 3 and 0 < waits[0] < waits[2]
    received(tmp_path / "relay", [])
    assert transactions(tmp_path / "relay") == transactions(lost[0])


def test_a_stop_ends_the_wait_for_a_store(tmp_path: Path, lost: tuple[Path, str]) -> None:
    archive = _FailingArchive(lost[1], [OSError(errno.EIO, "503")] * 3)
    assert not restore_lost(_config(tmp_path), archive, ALL, lambda _: True)
    assert not [*(tmp_path / "relay").glob("relay.0*")]


def test_a_stopped_receiver_begins_no_new_log(tmp_path: Path, lost: tuple[Path, str]) -> None:
    """Found: the next start continued the new log, and asked the source for what was archived."""
    config = _config(tmp_path, archive=lost[1])
    Path(lost[1]).rename(tmp_path / "default")
    Path(lost[1]).mkdir()
    (tmp_path / "default").rename(Path(lost[1]) / "default")
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        receive(config, parent=1 << 30)  # a parent that is gone
        with RelayWriter(tmp_path / "relay", 1) as writer:
            assert writer.log_id == ""
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)


def test_a_folder_that_refuses_the_relay_log_is_named(
    tmp_path: Path, lost: tuple[Path, str]
) -> None:
    """Found: an error of the archive's folder was reported as one of relay.path, and others of
    relay.path as an archive that can't be read, without an end."""
    (tmp_path / "relay").write_text("a file, where a folder has to be")
    with pytest.raises(LogError, match=r"into relay\.path") as raised:
        restore_lost(_config(tmp_path), RelayArchive(lost[1]), ALL, lambda _: False)
    assert raised.value.file == str(tmp_path / "relay")


def test_an_archive_that_refuses_its_reader_is_named(
    tmp_path: Path, lost: tuple[Path, str]
) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied", lost[1])
    archive = _FailingArchive(lost[1], [refused])
    with pytest.raises(TargetError, match="archive") as raised:
        restore_lost(_config(tmp_path), archive, ALL, lambda _: False)
    assert raised.value.file == lost[1]
