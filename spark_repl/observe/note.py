"""Note: something that is not as it was asked for, and stops nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """``what`` is not as it was asked for; what to do about it: ``hint``."""

    what: str
    hint: str
