"""Damaged transactions: rows or one of our errors, within the buffer and within memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spark_repl.binlog.rows.partial_images import bit
from spark_repl.errors import SparkReplError
from tests.support import decoder_fuzz
from tests.support.decoder_fuzz import FINDS, MEMORY_BYTES_MAX, feed, pieces, run

ROOT = Path(__file__).parents[2]


def test_mutations_give_rows_or_our_errors() -> None:
    decoded, refused = run(3000, 5)
    assert decoded > 500
    assert refused > 500


@pytest.mark.parametrize("path", sorted(FINDS.glob("*.bin")), ids=lambda path: path.stem)
def test_damaged_transactions_found_earlier_give_rows_or_an_error(path: Path) -> None:
    try:
        feed(path.read_bytes())
    except SparkReplError:
        return


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_every_transaction_fed_whole_and_cut(step: int) -> None:
    for piece in pieces()[:: 1 if step == 1 else 7]:
        try:
            feed(piece)
        except SparkReplError as error:
            # The events inside are pieces of their own; LOAD DATA in statement format.
            assert re.search("was not decompressed|statement-based", error.message)
        for size in range(0, len(piece) if len(piece) <= 2000 else 0, step):
            try:
                feed(piece[:size])
            except SparkReplError:
                continue


def test_decoding_damaged_transactions_takes_bounded_memory() -> None:
    assert decoder_fuzz.peak_memory(300, 8) < MEMORY_BYTES_MAX


def test_numbas_bounds_checks_are_on_in_the_fuzzer(tmp_path: Path) -> None:
    """What the test above stands on."""
    code = (
        "import numpy as np; from spark_repl.binlog.kernels.jit import number\n"
        "from spark_repl.binlog.kernels.jit import same, u32\n"
        "data = np.zeros(3, np.uint8)\n"
        "for read, *args in (number, 2, 4), (u32, 0), (same, 0, 1, 3):\n"
        "    try: read(data, *args)\n"
        "    except IndexError: continue\n"
        "    raise SystemExit(1)\n"
        "raise SystemExit(7)\n"
    )
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=False)
    assert ran.returncode == 7
    assert bit(np.array([4], np.uint8), 0, 2)
