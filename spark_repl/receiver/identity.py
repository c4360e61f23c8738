"""The UUID by which a source knows the receiver of a relay log. A new connection with it ends an
older one."""

from __future__ import annotations

import uuid
from pathlib import Path

from ..relay.file_list import replace_file

_NAME = "receiver.uuid"


def read_identity(folder: str | Path) -> str:
    """Return the UUID of the receiver in ``folder``; "" if no receiver ran there, or the file is
    damaged."""
    try:
        return str(uuid.UUID((Path(folder) / _NAME).read_text("ascii").strip()))
    except (OSError, ValueError):
        return ""


def identity(folder: Path) -> str:
    """Return the UUID of the receiver in ``folder``; create it if there is none."""
    if existing := read_identity(folder):
        return existing
    created = str(uuid.uuid4())
    replace_file(folder / _NAME, created.encode())
    return created
