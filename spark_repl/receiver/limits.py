"""Limits of a relay log: how large its files are, and all of it."""

from __future__ import annotations

from dataclasses import dataclass

# With a bounded disk only whole files can be purged, so several must fit.
_FILES_IN_SPACE = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of files and of the log. ``space_limit_bytes`` 0: no limit."""

    segment_size_bytes: int = 1 << 30
    space_limit_bytes: int = 0

    @property
    def file_bytes(self) -> int:
        if not self.space_limit_bytes:
            return self.segment_size_bytes
        return min(self.segment_size_bytes, self.space_limit_bytes // _FILES_IN_SPACE)
