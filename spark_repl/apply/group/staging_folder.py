"""StagingFolder: the folder of an owner's groups in work, on the driver's disk or in the target's
store.

Each group has a folder of its own. No reader sees these folders.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
import time
from typing import TYPE_CHECKING

from ...control.table.owner import succeed
from ...delta.store import storage
from ...delta.store.remover import Remover
from ...errors import TargetError
from ...runtime.target_uri import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...control.table.layout import Layout

logger = logging.getLogger(__name__)

_DEAD_S = 86400
"""age in seconds at which a file that is in no owner's folder, such as a verify's, is removed"""


class StagingFolder:
    """The staging folder of one owner; its name is the owner's epoch. ``own_disks`` returns whether
    executors can't read the driver's disk; it may wait for Spark."""

    def __init__(self, layout: Layout, epoch: int, own_disks: Callable[[], bool]) -> None:
        self._local, self._remote = layout.staging(epoch), layout.staging(epoch, in_target=True)
        self._numbers, self._own_disks = itertools.count(1), own_disks
        self._first, self._is_remote = threading.Lock(), False

    def begin(self) -> None:
        """Empty the folder on the driver's disk, and remove earlier owners' files from that disk.
        Raise OSError."""
        remove_staged(self._local)
        succeed(self._local, inherit=False)

    def clean(self) -> None:
        """Remove everything that this owner staged."""
        remove_staged(self._local)
        if self._is_remote:
            remove_staged(self._remote)

    def name(self) -> str:
        """Return the path of a new folder that no other group uses. Raise OSError, TargetError."""
        with self._first:
            if self._own_disks() and not self._is_remote:
                _remove_former(self._remote)
                self._is_remote = True
        # Retries stage in threads of their own: ``next`` is atomic, so no number is used twice.
        name = f"group-{next(self._numbers)}"
        return os.path.join(self._remote if self._is_remote else self._local, name)

    def make(self) -> str:
        """Make a folder for a group. Raise OSError."""
        folder = self.name()
        storage.make_folder(folder)
        return folder


def remove_staged(folder: str | None) -> None:
    """Remove a folder of staged files. A later start removes what remains after an error."""
    if folder is None:
        return
    if not is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    try:  # its own files, which no successor uses
        Remover().folder(folder, bool)
    except (OSError, TargetError) as error:
        logger.warning("staged files remain until the next start: %s", error)


def _remove_former(folder: str) -> None:
    """Remove the objects of earlier owners and of this one, and old objects of no owner, by one
    listing. No later owner uses these names."""
    parent, epoch = os.path.split(folder)
    useless = [
        os.path.join(parent, path)
        for path, file in storage.walk(parent)
        if _is_former(path.split("/")[0], int(epoch), time.time() - file.modified)
    ]
    Remover().files(useless)


def _is_former(owner: str, epoch: int, age_s: float) -> bool:
    return int(owner) <= epoch if owner.isdigit() else age_s > _DEAD_S
