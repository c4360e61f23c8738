"""Logs of sysbench's writes with the server's end state: a small one of the repository's own, and a
larger one where it lies beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

_OWN = Path(__file__).parents[1] / "fixtures" / "oltp"
_LARGE = Path(__file__).resolve().parents[3] / "shared" / "corpora" / "oltp"
CORPORA = [
    pytest.param(_OWN, 1_700, id="own"),
    pytest.param(
        _LARGE,
        13_000,
        id="large",
        marks=pytest.mark.skipif(not _LARGE.is_dir(), reason="the large corpus is not here"),
    ),
]
"""The folder, and a number of row changes that it has more than."""
