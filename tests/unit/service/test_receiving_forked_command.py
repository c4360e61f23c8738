"""Receivers of several channels are forked from one process, and end as those by themselves do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.live.killing import children
from tests.support.wait_until import wait_until

SCRIPT = """
import signal, subprocess, sys
from spark_repl.runtime.threads import under_channel
from spark_repl.service.receiving import start

if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: None)
    begun = []
    for channel, file in zip(("eu", "us", "none"), sys.argv[1:], strict=True):
        with under_channel(channel):
            begun.append(start(["receive", "--config", file], []))
    print(*(process.pid for process in begun), flush=True)
    eu, us, none = begun
    print(none.wait(60), none.poll(), flush=True)
    sys.stdin.readline()
    try:
        us.wait(0.01)
    except subprocess.TimeoutExpired:
        print(us.poll(), flush=True)
    us.terminate()
    print(us.wait(60), us.wait(60), flush=True)
    sys.stdin.readline()
"""
_MOST_S = 60.0


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """It has three receivers: two that keep connecting to a port without a server, and one whose
    configuration is missing."""
    files = [tmp_path / f"{name}.toml" for name in ("eu", "us", "none")]
    for file in files[:2]:
        file.write_text(f'[source]\nport = 1\n[relay]\npath = "{tmp_path}/{file.stem}"\n')
    script = tmp_path / "starter.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, files)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        process_group=0,
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


def is_there(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def private_mb(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kb) for kb in re.findall(r"Private_\w+:\s+(\d+)", rollup)) / 1024


def test_forked_receivers_end_with_their_own_codes(starter: subprocess.Popen[str]) -> None:
    assert starter.stdin and starter.stdout and starter.stderr
    eu, us, none = map(int, starter.stdout.readline().split())
    assert starter.stdout.readline().split() == ["2", "2"]  # as who has been refused by itself
    assert not is_there(none) and is_there(eu) and is_there(us)
    assert [Path(f"/proc/{pid}/comm").read_text() for pid in (eu, us)] == [
        "receive eu\n", "receive us\n",
    ]  # fmt: skip
    assert os.getpgid(eu) == eu  # Ctrl-C is its parent's to hear
    assert private_mb(eu) < 40  # 100 by itself
    said = ""
    while not all(re.search(rf"WARNING .*: {name}: ", said) for name in ("eu", "us")):
        line = starter.stderr.readline()
        assert line, said
        said += line  # from here on they hear signals

    starter.stdin.write("\n")
    starter.stdin.flush()
    assert starter.stdout.readline() == "None\n"
    assert starter.stdout.readline() == "0 0\n"  # asked to end, it has
    assert not is_there(us) and is_there(eu)

    starter.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_there(eu), _MOST_S)
    said += starter.stderr.read()
    assert "none.toml" in said


def test_ctrl_c_while_the_fork_server_starts_ends_no_receiver(
    starter: subprocess.Popen[str],
) -> None:
    assert starter.stdout and starter.stderr

    def fork_servers() -> list[int]:
        return [pid for pid, line in children(starter.pid).items() if "forkserver import" in line]

    wait_until(fork_servers, _MOST_S)
    os.killpg(starter.pid, signal.SIGINT)
    pids = starter.stdout.readline().split()
    assert len(pids) == 3, starter.stderr.read()
    eu = int(pids[0])
    # Until it has its name, it takes each SIGINT for the group's.
    wait_until(lambda: Path(f"/proc/{eu}/comm").read_text() == "receive eu\n", _MOST_S)
    os.kill(eu, signal.SIGINT)  # its own
    wait_until(lambda: not is_there(eu), _MOST_S)
