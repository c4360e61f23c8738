"""Archived relay log: the archive that the configuration names, and the restoration at a receiver's
start."""

from __future__ import annotations

import errno
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.relative_paths import OFF
from ..control.records.channels import layout_of
from ..control.table.layout import Layout, encode
from ..errors import LogError
from ..receiver.archiver import Archiver
from ..receiver.restored_log import Place, restore
from ..relay.archive import RelayArchive
from ..runtime.target_uri import canonical, is_remote

if TYPE_CHECKING:
    from ..config import Config
    from ..gtid import GtidSet

logger = logging.getLogger(__name__)

_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
_FIRST_WAIT_S, _WAIT_MAX_S = 0.5, 60.0


def archive_of(config: Config) -> RelayArchive | None:
    """Return the archive of a configuration's relay log, or None if it has none. Raise ConfigError,
    and the errors of reading the target."""
    given = config.relay.archive
    if given == OFF:
        return None
    if given:
        return RelayArchive(f"{canonical(given)}/{encode(config.channel)}")
    if not is_remote(canonical(config.target.path)):
        return None
    return RelayArchive(layout_of(config).relay_archive)


def archiver_of(config: Config, archive: RelayArchive) -> Archiver:
    """Return the archiver of a configuration's relay log."""
    relay = config.relay
    return Archiver(
        Path(relay.path), archive, _target(config), chunk_bytes=relay.archive_bytes,
        after_s=relay.archive_after_s,
    )  # fmt: skip


def forget_archived(config: Config) -> None:
    """Remove what is archived of the relay logs of a configuration's target, because all tables are
    copied again: a start must not restore a log from before that copy. Raise OSError,
    TargetError."""
    if (archive := archive_of(config)) is not None:
        archive.forget(_target(config))


def restore_lost(
    config: Config,
    archive: RelayArchive,
    executed: GtidSet | None,
    place: Place | None,
    wait: Callable[[float], bool],
) -> None:
    """Restore the relay log if it is lost and the target needs archived transactions.

    The source may have purged transactions that the archive has. So retry while the store does not
    answer, until ``wait`` (seconds) returns True. ``executed``, ``place``: as ``restore``. Raise
    TargetError if the store refuses, LogError for the folder.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            restore(Path(config.relay.path), archive, _target(config), executed, place)
        except OSError as error:
            if error.errno in _OF_DISK:
                raise LogError(
                    f"can't restore the relay log: {error.strerror}", file=config.relay.path,
                    hint="make room, or give it the right to write, then start the receiver again",
                ) from error  # fmt: skip
            logger.warning("the relay log's archive can't be read: %s; tried again", error)
        else:
            return
        if wait(wait_s * random.uniform(0.5, 1.0)):
            return
        wait_s = min(2 * wait_s, _WAIT_MAX_S)


def _target(config: Config) -> str:
    return Layout.of(config.target).target
