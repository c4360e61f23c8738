"""The decoder under mutations by the million."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_a_million_mutations_stay_inside_the_buffer(tmp_path: Path) -> None:
    """With numba's bounds checks, in a process of its own: they are compiled into the kernels."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.support.decoder_fuzz", "1000000", "77"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
