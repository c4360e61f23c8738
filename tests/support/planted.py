"""Planted secrets: what tests give the product that it may show nowhere, and where it would be."""

from __future__ import annotations

import hashlib
import hmac
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

MASK_KEY = "planted-key-2718"
"""the key of masked values, in the environment as MASK_KEY"""


def hashed(text: str | None) -> str | None:
    """What sha256 makes of a text by that key."""
    return text and hmac.new(MASK_KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def holding(
    folder: Path, *secrets: str, spared: Callable[[Path], bool] = lambda path: False
) -> list[Path]:
    """The files below a folder that hold one of the secrets, but for those that are spared."""
    found = []
    for path in sorted(folder.rglob("*")):
        with suppress(OSError):  # gone since
            if path.is_file() and not spared(path) and any(holds(path, one) for one in secrets):
                found.append(path)
    return found


def holds(path: Path, secret: str) -> bool:
    """Whether a file holds the secret, however large it is."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return text.find(secret.encode()) >= 0


def printed(report: Any, item: Any, secret: str, what: str) -> Any:
    """The report of a test, failed where what was printed holds the secret."""
    if report.passed and secret in report.capstdout + report.capstderr:
        report.outcome, report.longrepr = "failed", f"{item.name} prints {what}"
    return report
