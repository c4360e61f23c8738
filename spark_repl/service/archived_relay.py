"""Archived relay log: the archive that the configuration names, and the restoration at a receiver's
start."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.relative_paths import OFF
from ..control.records.channels import control_of, layout_of, opened
from ..control.records.durability_barrier import DurabilityBarrier
from ..control.table.layout import Layout, encode
from ..errors import ArchiveUnreadableError, LogError, Stopped
from ..receiver.archiver import Archiver
from ..receiver.restored_log import Needed, is_needed, restore
from ..relay.archive import RelayArchive
from ..runtime.target_uri import canonical, is_remote

if TYPE_CHECKING:
    from ..config import Config

logger = logging.getLogger(__name__)

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
        Path(relay.path), archive, target_of(config), target_id=_target_id(config),
        chunk_bytes=relay.archive_bytes, after_s=relay.archive_after_s,
    )  # fmt: skip


def archived_folders(config: Config) -> tuple[str, ...]:
    """Return the folders of the archived relay logs of a configuration's target. Raise OSError,
    TargetError."""
    if (archive := archive_of(config)) is None:
        return ()
    logs = archive.logs_of(target_of(config), _target_id(config))
    return tuple(archive.folder(log.generation) for log, _ in logs)


def forget_archived(config: Config) -> None:
    """Remove the archived relay logs of a configuration's target, because all its tables start
    again: a start must not restore an earlier log. Raise OSError, TargetError."""
    if (archive := archive_of(config)) is not None:
        archive.forget(target_of(config), _target_id(config))


@dataclass(frozen=True)
class PurgedArchive:
    """The result of a purge of an archive: removed folders of whole logs, and of single files."""

    logs: tuple[str, ...]
    files: tuple[str, ...]


def purge_archive(config: Config, archive: RelayArchive, needed: Needed) -> PurgedArchive:
    """Remove the archived logs of a configuration's target that it does not need, except the newest
    one. From the remaining logs, remove the files that it does not need. First the tables are made
    durable. ``needed``: decides by what the target currently has.

    A log that is damaged or incomplete stays. Raise OSError, TargetError, ArchiveUnreadableError.
    """
    at = opened(config)
    logs = [log for log, _ in archive.logs_of(target_of(config), _target_id(config)) if log.files]
    unneeded, files = list[int](), list[tuple[int, int]]()
    for log in logs:
        try:
            if log is not logs[-1] and not is_needed(log, needed):
                unneeded.append(log.generation)
            elif (first := needed.first_file(log)) is not None:
                files += [(log.generation, number) for number in log.numbers if number < first]
        except (LogError, FileNotFoundError) as error:
            logger.warning("%s is not purged: %s", archive.folder(log.generation), error)
    if unneeded or files:
        DurabilityBarrier(at.control, at.layout)()
    for generation in unneeded:
        archive.remove_log(generation)
    for generation, number in files:
        archive.remove_file(generation, number)
    return PurgedArchive(
        tuple(map(archive.folder, unneeded)), tuple(archive.file_folder(*file) for file in files)
    )


def restore_lost(
    config: Config, archive: RelayArchive, needed: Needed, wait: Callable[[float], bool]
) -> bool:
    """Restore the relay log if it is lost and the target needs archived transactions. Return False
    if the receiver is stopped meanwhile; it must not begin a new log then.

    Retry while the store does not answer, because the source may have purged transactions that the
    archive has. ``wait``: waits for some seconds, and returns whether the receiver is stopped.
    Raise TargetError if the store refuses, LogError for the folder.
    """
    folder, target, target_id = Path(config.relay.path), target_of(config), _target_id(config)
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            restore(
                folder, archive, target, needed, target_id=target_id,
                is_stopping=lambda: wait(0.0),
            )  # fmt: skip
        except Stopped:
            return False
        except ArchiveUnreadableError as error:
            logger.warning("the relay log's archive can't be read: %s; tried again", error)
        except OSError as error:
            raise LogError(
                f"can't restore the relay log into relay.path: {error.strerror or error}",
                file=str(error.filename or folder),
                hint="make room, or give it the right to write, then start the receiver again",
            ) from error
        else:
            return True
        if wait(wait_s * random.uniform(0.5, 1.0)):
            return False
        wait_s = min(2 * wait_s, _WAIT_MAX_S)


def target_of(config: Config) -> str:
    """Return the name that the archive uses for a configuration's target."""
    return Layout.of(config.target).target


def _target_id(config: Config) -> str:
    """Return the id of the control table of a target on a disk, which tells apart targets of one
    path on several machines; "" for a URI, which names one target."""
    if is_remote(target_of(config)):
        return ""
    return control_of(config).table_id()
