"""The power fails behind each step that has thrown something away: what is left goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from spark_repl.receiver.writer import RelayWriter
from tests.crash.power_load import LIMITS, STEPS, A, B, rows_behind
from tests.support.dump_stream import receive
from tests.support.local_delta import cuts, rows, run
from tests.support.power import build, environment


def test_nothing_goes_before_what_replaces_it_is_on_the_disk(tmp_path: Path) -> None:
    source, disk, notes, failures = (tmp_path / n for n in ("source", "disk", "notes", "failures"))
    disk.mkdir()
    notes.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.power_load", source, disk, notes, failures],
        env=environment(build(tmp_path), disk, notes), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 9, ran.stderr[-3000:]
    left = sorted(failures.iterdir())
    print(*(path.name for path in left), sep="\n")
    for one in left:
        with RelayWriter(one / "relay", 9, LIMITS) as writer:
            receive(writer, sorted(source.glob("bin.0*")))
        run(one / "relay", one / "lake")
        assert (rows(one / "lake", A), rows(one / "lake", B)) == rows_behind(STEPS), one.name
        assert len(cuts(one / "lake")[-1].prepared) == 1
