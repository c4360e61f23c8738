"""A source's log, the relay log that a receiver writes of it, and an empty archive."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_repl.relay.archive import RelayArchive
from tests.support.archived_log import new_archive, received, write_source


@pytest.fixture(scope="module")
def source_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def whole(source_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A receiver's log of several files, which no test changes."""
    folder = tmp_path_factory.mktemp("whole") / "relay"
    received(folder, source_files)
    return folder


@pytest.fixture
def log_copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of that log for one test."""
    return Path(shutil.copytree(whole, tmp_path / "relay"))


@pytest.fixture
def archive() -> RelayArchive:
    return new_archive()
