"""The demo can fail: with one change lost on purpose it says so."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

_HEADER = struct.Struct("<IBIIIH")  # time, type, server, length, end, flags
_TABLE_MAP, _UPDATE_ROWS, _IGNORABLE, _IGNORABLE_FLAG = 19, 31, 28, 0x80


def lose_last_update(path: Path, table: bytes) -> bool:
    """Makes the last update of ``table`` an event that every reader passes over."""
    log = bytearray(path.read_bytes())
    at, found, mapped = 4, None, b""
    while at < len(log):
        _, kind, _, length, _, _ = _HEADER.unpack_from(log, at)
        if kind == _TABLE_MAP:
            mapped = bytes(log[at : at + length])
        if kind == _UPDATE_ROWS and b"\x00" + bytes([len(table)]) + table + b"\x00" in mapped:
            found = (at, length)
        at += length
    if found is None:
        return False
    at, length = found
    time, _, server, _, end, flags = _HEADER.unpack_from(log, at)
    _HEADER.pack_into(log, at, time, _IGNORABLE, server, length, end, flags | _IGNORABLE_FLAG)
    log[at + length - 4 : at + length] = zlib.crc32(log[at : at + length - 4]).to_bytes(4, "little")
    path.write_bytes(log)
    return True


@pytest.mark.soak
def test_lost_change_fails_the_demo(bank: Path, tmp_path: Path) -> None:
    lossy = tmp_path / "bank"
    shutil.copytree(bank, lossy)
    files = sorted(path for path in lossy.glob("*.0*"))
    assert any(lose_last_update(path, b"account") for path in reversed(files))
    ran = subprocess.run(
        [sys.executable, "-m", "spark_repl", "demo", "--log", lossy, "--keep", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout
    assert "Error: the sum is" in ran.stderr or "differ from the server's" in ran.stderr
    assert "all equal" not in ran.stdout
