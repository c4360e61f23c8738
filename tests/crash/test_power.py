"""The power fails after each step that removes something: a restart continues from what is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_repl.receiver.writer import RelayWriter
from tests.crash.power_load import KINDS, LIMITS, STEPS, A, B, rows_behind
from tests.support.dump_stream import receive
from tests.support.local_delta import cuts, rows, run
from tests.support.power import build, environment


@pytest.mark.parametrize("unsynced", ["gone", pytest.param("emptied", marks=pytest.mark.soak)])
def test_nothing_goes_before_what_replaces_it_is_on_the_disk(tmp_path: Path, unsynced: str) -> None:
    source, disk, notes, failures = (tmp_path / n for n in ("source", "disk", "notes", "failures"))
    disk.mkdir()
    notes.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.power_load", source, disk, notes, failures, unsynced],
        env=environment(build(tmp_path), disk, notes), capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 9, ran.stderr[-3000:]
    left = sorted(failures.iterdir())
    happened = {path.name.partition(" ")[2] for path in left}
    assert happened > {*(f"{kind} removed" for kind in KINDS), "control table vacuumed"}
    for one in left:
        with RelayWriter(one / "relay", 9, LIMITS) as writer:
            receive(writer, sorted(source.glob("bin.0*")))
        run(one / "relay", one / "lake")
        assert (rows(one / "lake", A), rows(one / "lake", B)) == rows_behind(STEPS), one.name
        assert len(cuts(one / "lake")[-1].prepared) == 1
