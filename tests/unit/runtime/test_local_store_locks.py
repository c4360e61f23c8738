"""Replacing a file of a local disk under a lock: what other processes and users do to it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.delta.store import storage
from spark_repl.runtime import local_store
from spark_repl.runtime.part_files import is_part
from spark_repl.runtime.store import Tag
from tests.support.child import in_child


def test_lock_of_a_suspended_process_is_waited_for_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_store, "_LOCK_S", 0.1)
    path = tmp_path / "lease.json"
    path.write_bytes(b"1")
    _, tag = storage.read_tagged(str(path))
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="other processes hold the lock") as caught:
            storage.put_if_match(str(path), b"2", tag)
        assert caught.value.filename == str(path)
    assert storage.put_if_match(str(path), b"2", tag) is not None
    assert [entry.name for entry in tmp_path.iterdir()] == ["lease.json"]


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_file_of_another_user_is_replaced(shared_folder: Path) -> None:
    """Its folder decides, as for each rename."""
    path = shared_folder / "lease.json"
    path.write_bytes(b"1")
    path.chmod(0o644)

    def replaced() -> Tag | None:
        os.setuid(65534)
        _, tag = storage.read_tagged(str(path))
        return storage.put_if_match(str(path), b"2", tag)

    assert in_child(replaced) is not None
    assert path.read_bytes() == b"2" and path.stat().st_uid == 65534


_KILLED = """
import os, signal, sys
from spark_repl.delta.store import storage
from spark_repl.runtime import local_store
from spark_repl.runtime.part_files import is_part
local_store._is_locked = lambda file: os.kill(os.getpid(), signal.SIGKILL)
_, tag = storage.read_tagged(sys.argv[1])
storage.put_if_match(sys.argv[1], b"2", tag)
"""


def test_what_a_killed_writer_leaves_is_a_part_file(tmp_path: Path) -> None:
    path = tmp_path / "lease.json"
    path.write_bytes(b"1")
    ran = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    assert ran.returncode == -9
    (left,) = (entry.name for entry in tmp_path.iterdir() if entry != path)
    assert is_part(left)
