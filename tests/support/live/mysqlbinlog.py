"""What the real mysqlbinlog says about each event of a file."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.live.decoder_server import Server

_AT = re.compile(r"^# at (\d+)$")
_EVENT = re.compile(r"^#\d{6} .*? server id \d+  end_log_pos (\d+) (?:CRC32 0x([0-9a-f]+))?")


@dataclass(frozen=True)
class Event:
    """``crc``: the checksum as the file has it; None where mysqlbinlog names none."""

    end: int
    crc: int | None


def mysqlbinlog(server: Server, path: Path) -> dict[int, Event]:
    """Offset -> event; without those inside of compressed transactions, which it puts at the
    payload's end."""
    command = [str(server.bin / "mysqlbinlog"), "--no-defaults", "-vv", "--verify-binlog-checksum"]
    ran = subprocess.run([*command, str(path)], capture_output=True, check=True)
    found: dict[int, Event] = {}
    at = -1
    for line in ran.stdout.decode("utf-8", "replace").splitlines():
        if match := _AT.match(line):
            at = int(match[1])
        elif (match := _EVENT.match(line)) and int(match[1]) != at:
            found[at] = Event(int(match[1]), int(match[2], 16) if match[2] else None)
    return found
