"""The columns of ``RowFormat.steps``, by which an image without NULLs is walked."""

from __future__ import annotations

SKIP, PREFIX, MARK = range(3)
