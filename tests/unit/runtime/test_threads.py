"""Threads are of the channel whose thread has begun them, and none makes one otherwise."""

from __future__ import annotations

import subprocess
import sys

from spark_repl.runtime.companion import Companion
from spark_repl.runtime.threads import Pool, channel_here, thread, under_channel
from tests.support.imports import modules

BY_OTHERS = {
    "runtime.threads",
    "runtime.spark_session",
    "cli.verify_command",
    "observe.web.endpoint",
}
"""where threads are made, of a process of one channel or with no line of a log"""
_LATE_TURN = """
import threading, time
from spark_repl.runtime.companion import Companion
begun = threading.Event()
def turn():
    begun.set()
    time.sleep(0.5)  # the process ends meanwhile
    print("done")
    return True
with Companion("thread of a test", turn, print, pause_s=60, attempts=0):
    begun.wait()
"""


def test_what_a_channel_begins_is_its_own() -> None:
    seen: list[str] = []

    def turn() -> bool:
        seen.append(channel_here())
        return False

    with under_channel("eu"):
        pool = Pool(2)
        beside = Companion("thread of a test", turn, lambda error: None, pause_s=0.0, attempts=0)
        own = thread(lambda: seen.append(channel_here()), "own")
    assert channel_here() == ""
    with under_channel("us"), pool, beside:  # begun by another, they are still whose they were
        seen.append(pool.submit(lambda: Pool(1).submit(channel_here).result()).result())
        own.start()
        own.join()
        assert channel_here() == "us"
    assert not beside.join(60)
    assert sorted(seen) == ["eu", "eu", "eu"]


def test_threads_without_channels_have_no_channels_name() -> None:
    with Pool(1) as pool:
        assert pool.submit(channel_here).result() == ""
    assert not thread(list, "one", daemon=True).is_alive()


def test_threads_are_made_only_by_one_module() -> None:
    made = {
        name
        for name, path in modules().items()
        if any(one in path.read_text() for one in ("ThreadPoolExecutor(", "threading.Thread("))
    }
    assert {name for name in made if not name.startswith("bench.")} - BY_OTHERS == set()


def test_the_end_of_the_process_waits_for_a_companions_turn() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _LATE_TURN], check=True, capture_output=True, text=True
    )
    assert ran.stdout == "done\n"
