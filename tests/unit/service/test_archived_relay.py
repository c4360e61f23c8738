"""The relay log's archive as a configuration names it, and a store that does not answer at a
receiver's start."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.errors import ConfigError, LogError
from spark_repl.gtid import GtidSet
from spark_repl.relay.archive import ArchivedLog, RelayArchive
from spark_repl.service.archived_relay import archive_of, restore_lost
from tests.support.archived_log import archiver, received, transactions, write_source
from tests.support.stores import SERVERS


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
        waits.append(seconds)
        return False

    restore_lost(_config(tmp_path), archive, GtidSet(), None, wait)
    assert len(waits) == 3 and 0 < waits[0] < waits[2]
    received(tmp_path / "relay", [])
    assert transactions(tmp_path / "relay") == transactions(lost[0])


def test_a_stop_ends_the_wait_for_a_store(tmp_path: Path, lost: tuple[Path, str]) -> None:
    archive = _FailingArchive(lost[1], [OSError(errno.EIO, "503")] * 3)
    restore_lost(_config(tmp_path), archive, GtidSet(), None, lambda _: True)
    assert not [*(tmp_path / "relay").glob("relay.0*")]


def test_a_full_disk_ends_a_restoration(tmp_path: Path, lost: tuple[Path, str]) -> None:
    archive = _FailingArchive(lost[1], [OSError(errno.ENOSPC, "No space left on device")])
    with pytest.raises(LogError, match="No space left"):
        restore_lost(_config(tmp_path), archive, GtidSet(), None, lambda _: False)
