"""Purging a relay log: removes files that the applier has passed, oldest first.

The list is replaced before the files are removed. After a crash in between, no reader looks for a
removed file; the next purge or the receiver's start removes the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..crash_points import reach
from ..errors import ConfigError, LogError
from ..relay.archived_ranges import SUFFIX
from ..relay.file_list import NAME as LIST
from ..relay.file_list import FileList, file_name, locked, read_list, write_list
from ..relay.lease import readers, unread
from ..relay.published_end import NAME as END
from ..relay.published_end import read_end
from .recovery import numbers_in, writing

_DECIDING = "relay.purge.lock"


@dataclass(frozen=True, slots=True)
class Purged:
    files: tuple[str, ...]
    bytes: int
    """bytes that the purge has freed"""
    warning: str = ""
    """MySQL's 1867, where a reader is in a file that nobody else needs"""


@contextmanager
def deciding(folder: Path) -> Iterator[None]:
    """Hold the lock under which a process decides how far to purge, or from which position on it
    needs the log.

    Neither decision may rely on a state that the other process is changing. Recorded files are
    never purged.
    """
    if read_end(folder) is None:
        yield
        return
    with locked(folder, _DECIDING):
        yield


def clear(folder: Path) -> None:
    """Remove the whole log if it can't continue, so that the receiver begins a new one.

    The list of files is removed first, and the published end, which marks the files as a
    receiver's, last. So after a crash in between, readers treat the remaining files neither as a
    log nor as recorded files. Raise LogError, before anything is removed, if a receiver writes the
    log or a reader uses it: it may be another target's.
    """
    with writing(folder), locked(folder):
        names = [file_name(number) for number in sorted(numbers_in(folder))]
        with unread([str(folder / name) for name in names]) as free:
            if len(free) < len(names):
                path = str(folder / names[len(free)])
                raise LogError(
                    f"the relay log can't be cleared while it is read{_by(readers(path))}",
                    file=path, hint="stop the reader, or give this target a relay.path of its own",
                )  # fmt: skip
            for name in (LIST, *names, END):
                (folder / name).unlink(missing_ok=True)
            for record in folder.glob(f"*{SUFFIX}"):
                record.unlink()


def purge(folder: Path, keep_from: int) -> Purged:
    """Remove the files below number ``keep_from``, except the file that is being written, and
    except a file that a reader uses and all later ones.

    Raise ConfigError if no receiver wrote the log: recorded files are not purged.
    """
    end = read_end(folder)
    if end is None:
        raise ConfigError(
            "only a receiver's relay log can be purged", file=str(folder),
            hint="remove recorded files by hand, with their lines in the index file",
        )  # fmt: skip
    with locked(folder):
        listed = read_list(folder)
        if listed is None or listed.log_id != end.log_id:
            return Purged((), 0)
        first = min(keep_from, end.position.file_no)
        candidates = [number for number in listed.numbers if number < first]
        with unread([str(folder / file_name(number)) for number in candidates]) as free:
            stay = listed.numbers[len(free) :]
            if stay != listed.numbers:
                write_list(folder, FileList(listed.log_id, stay))
                reach("relay_purged")
            gone = sorted(number for number in numbers_in(folder) if number < stay[0])
            size = 0
            for number in gone:
                path = folder / file_name(number)
                with suppress(FileNotFoundError):  # removed by hand
                    size += path.stat().st_size
                    path.unlink()
        warning = _warning(folder, stay[0], len(free), len(candidates))
    return Purged(tuple(file_name(number) for number in gone), size, warning)


def _warning(folder: Path, number: int, purged: int, candidates: int) -> str:
    if purged == candidates:
        return ""
    processes = readers(str(folder / file_name(number)))
    return (
        f"file {file_name(number)} was not purged because it was being read by"
        f" {len(processes) or 'some'} reader(s){_by(processes)}, purged only {purged}"
        f" out of {candidates} files (1867)"
    )


def _by(processes: tuple[int, ...]) -> str:
    return f" (process {', '.join(map(str, processes))})" if processes else ""
