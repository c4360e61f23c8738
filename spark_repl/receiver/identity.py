"""The UUID by which a source knows the receiver of a relay log. A new connection with it ends an
older one.

``run`` derives it from a target on an object store. So the source also accepts the receiver of a
new machine while it still lists the receiver of a lost one. Only the owner of a target may derive
it: another receiver with this UUID would end the owner's connection.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..relay.file_list import replace_file
from ..runtime.private_files import make_private_folder
from ..runtime.target_uri import canonical, is_remote

if TYPE_CHECKING:
    from ..config import Config

_NAME = "receiver.uuid"
_NAMESPACE = uuid.UUID("0b2d7a3c-6c0e-4d39-9a3e-5f1c8e7b4a60")
"""of UUIDs that are derived from a target; never changed"""


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


def create_identity(config: Config) -> None:
    """Create the UUID of the channel's receiver in ``relay.path``, unless the folder has one.

    Do nothing for a target on a disk, because targets of several machines may have the same path.
    """
    folder, target = Path(config.relay.path), canonical(config.target.path)
    if not is_remote(target) or read_identity(folder):
        return
    # Receivers with different server ids are replicas of their own.
    parts = (target, config.channel, str(config.source.server_id))
    with suppress(OSError):  # the receiver reports what is wrong with the folder
        make_private_folder(folder)
        replace_file(folder / _NAME, str(uuid.uuid5(_NAMESPACE, "\n".join(parts))).encode())
