"""RelayArchive: copies of a channel's relay logs in an object store, or in a folder.

Below the root each log has a folder with a number of its own, its generation:

    00000002/log                         the log's id, its target, and what was restored into it
    00000002/target.<id>                 the id of the target's control table, if it is known
    00000002/relay.000005/000000000000   a chunk of a log file, named by its first byte
    00000002/relay.000005/sealed.<size>  the file is whole, and has that size
    removed.00000001                     generation 1 was removed

The archiver writes each object once and never replaces one. A chunk begins where the previous one
ends, so one listing shows which bytes of which files the archive has. The archiver writes ``log``
before any chunk, and only if the name is free, so two logs never share a generation. ``removed``
keeps a removed generation's number taken: records and caches name objects by it. A generation that
was restored from an earlier one replaces that one after it has all that was restored.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass

from .. import formats
from ..errors import LogError
from ..position import RelayPosition
from ..runtime.stores import put_durably, store_of
from .archived_ranges import ArchivedChunk, chunk_uri
from .file_list import file_name

logger = logging.getLogger(__name__)

_LOG, _TARGET, _REMOVED = "log", "target.", "removed."
_FORMAT = 1
_NAME = re.compile(
    r"(?P<generation>\d{8})/(?:(?P<log>log)|target\.(?P<target_id>[^/]+)"
    r"|relay\.(?P<number>\d{6,})/(?:(?P<begin>\d{12,})|sealed\.(?P<size>\d+)))"
)
_TAKEN = re.compile(rf"(?:{re.escape(_REMOVED)})?(\d{{8}})")
_GENERATIONS_MAX = 99_999_999


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """The archived part of one log file."""

    number: int
    chunks: tuple[ArchivedChunk, ...]
    """ascending, contiguous from 0"""
    is_sealed: bool
    """whether the chunks are the whole file"""

    @property
    def end(self) -> int:
        return self.chunks[-1].end if self.chunks else 0


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """One generation of an archive: one relay log."""

    generation: int
    has_begun: bool
    """whether its ``log`` object exists"""
    files: tuple[ArchivedFile, ...]
    """the newest files, without a gap; all but the last are sealed"""
    numbers: tuple[int, ...]
    """ascending; all files of which the archive has any object"""
    target_ids: frozenset[str] = frozenset()
    """the id of the target's control table; empty if no receiver of the log knew it"""

    @property
    def end(self) -> RelayPosition:
        """Return the position up to which the archive has the log. ``files`` must not be empty."""
        return RelayPosition(self.files[-1].number, self.files[-1].end)


@dataclass(frozen=True, slots=True)
class LogNote:
    """The content of a generation's ``log`` object."""

    log_id: str
    target: str
    """the URI or path of the target that the log is applied to"""
    restored_to: tuple[int, int] | None = None
    """file number and size up to which an earlier generation was restored into this log; None: the
    log was begun at the source"""
    restored_from: int | None = None
    """the generation that was restored as a whole; None: none, or only a part of one"""

    def covered_by(self, log: ArchivedLog) -> bool:
        """Return whether the archive has everything from which this log was restored."""
        restored = self.restored_to
        return restored is None or (bool(log.files) and log.end >= RelayPosition(*restored))


class RelayArchive:
    """The archive at ``root``, a canonical URI or an absolute path. Safe from any thread."""

    def __init__(self, root: str) -> None:
        self.root = root

    def folder(self, generation: int) -> str:
        return f"{self.root}/{generation:08d}"

    def file_folder(self, generation: int, number: int) -> str:
        """Return the URI of the folder with a log file's chunks."""
        return f"{self.folder(generation)}/{file_name(number)}"

    def logs(self) -> list[ArchivedLog]:
        """Return all generations, ascending, with one listing. Raise OSError, TargetError."""
        begun, targets = set[int](), defaultdict[int, set[str]](set)
        sizes = defaultdict[int, defaultdict[int, dict[int, int]]](
            lambda: defaultdict(dict[int, int])
        )
        sealed = dict[tuple[int, int], int]()
        for name, stored in store_of(self.root).walk(self.root):
            if (match := _NAME.fullmatch(name)) is None:
                continue
            generation = int(match["generation"])
            files = sizes[generation]
            if match["log"]:
                begun.add(generation)
            elif match["target_id"]:
                targets[generation].add(match["target_id"])
            elif match["begin"]:
                files[int(match["number"])][int(match["begin"])] = stored.size
            else:
                sealed[generation, int(match["number"])] = int(match["size"])
        return [
            ArchivedLog(
                generation, generation in begun, self._files(generation, files, sealed),
                tuple(sorted({*files, *(n for of, n in sealed if of == generation)})),
                frozenset(targets[generation]),
            )
            for generation, files in sorted(sizes.items())
        ]  # fmt: skip

    def _files(
        self, generation: int, files: dict[int, dict[int, int]], sealed: dict[tuple[int, int], int]
    ) -> tuple[ArchivedFile, ...]:
        run = list[ArchivedFile]()
        for number in sorted(files, reverse=True):
            folder = self.file_folder(generation, number)
            chunks, end = list[ArchivedChunk](), 0
            while size := files[number].get(end):
                chunks.append(ArchivedChunk(end, end + size, chunk_uri(folder, end)))
                end += size
            is_sealed = sealed.get((generation, number)) == end
            if run and (number != run[-1].number - 1 or not is_sealed):
                break
            if chunks:
                run.append(ArchivedFile(number, tuple(chunks), is_sealed))
        return tuple(reversed(run))

    def logs_of(self, target: str, target_id: str = "") -> list[tuple[ArchivedLog, LogNote]]:
        """Return the logs of a target with their notes, ascending. ``target_id``: the id of its
        control table, or "" if it has none yet. A log without a recorded id belongs to the target
        if its path is equal. Leave out a log whose note is damaged, with a warning. Raise OSError,
        TargetError, FormatError."""
        logs = list[tuple[ArchivedLog, LogNote]]()
        for log in self.logs():
            if not log.has_begun or (log.target_ids and target_id not in log.target_ids):
                continue
            try:
                note = self.note(log.generation)
            except FileNotFoundError:  # removed since it was listed
                continue
            except LogError as error:
                logger.warning("%s", error)
                continue
            if note.target == target:
                logs.append((log, note))
        return logs

    def chosen(self, generation: int | None) -> ArchivedLog:
        """Return a generation; with None, the newest one that also has everything from which it was
        restored. Raise LogError if there is none with a complete file, OSError, TargetError."""
        for log in reversed(self.logs()):
            is_asked = generation == log.generation
            if log.has_begun and log.files and (is_asked or generation is None):
                with suppress(FileNotFoundError):
                    if is_asked or self.note(log.generation).covered_by(log):
                        return log
        raise LogError(
            "the archive has no relay log with a sound file", file=self.root,
            hint="see what it has: spark-repl relay ls",
        )  # fmt: skip

    def note(self, generation: int) -> LogNote:
        """Return a generation's ``log``. Raise FileNotFoundError, FormatError, LogError."""
        path = f"{self.folder(generation)}/{_LOG}"
        text = store_of(path).read(path).decode("utf-8", "replace")
        try:
            fields = json.loads(formats.unstamp(text, _FORMAT, "this archive of a relay log", path))
            restored = fields["restored_to"]
            return LogNote(
                fields["log_id"], fields["target"], None if restored is None else tuple(restored),
                fields.get("restored_from"),
            )  # fmt: skip
        except (ValueError, LookupError, TypeError) as error:
            raise LogError(
                "the archive's note of a relay log is damaged", file=path,
                hint="remove this generation of the archive, or restore the object",
            ) from error  # fmt: skip

    def begin(self, note: LogNote) -> int:
        """Return the log's generation, or claim the next one for it. Never use the number of a
        removed generation again. Raise OSError, TargetError, LogError."""
        names = store_of(self.root).names(self.root)
        taken = sorted(int(match[1]) for name in names if (match := _TAKEN.fullmatch(name)))
        for generation in reversed(taken):
            with suppress(FileNotFoundError, LogError):  # a generation that was removed, or damaged
                existing = self.note(generation)
                if (existing.log_id, existing.target) == (note.log_id, note.target):
                    return generation
        content = formats.stamp(json.dumps(asdict(note)), _FORMAT).encode()
        for generation in range(max(taken, default=0) + 1, _GENERATIONS_MAX):
            with suppress(FileExistsError):
                put_durably(f"{self.folder(generation)}/{_LOG}", content)
                return generation
        raise LogError("the archive has no free generation", file=self.root, hint="empty it")

    def has(self, generation: int) -> bool:
        """Return whether a generation's ``log`` exists. Raise OSError, TargetError."""
        path = f"{self.folder(generation)}/{_LOG}"
        return store_of(path).exists(path)

    def record_target(self, generation: int, target_id: str) -> None:
        """Record the id of the control table of a log's target. Raise OSError, TargetError."""
        with suppress(FileExistsError):
            put_durably(f"{self.folder(generation)}/{_TARGET}{target_id}", b"target\n")

    def forget(self, target: str, target_id: str = "") -> None:
        """Remove all generations of a target. Raise OSError, TargetError."""
        for log, _ in self.logs_of(target, target_id):
            self.remove_log(log.generation)

    def seal(self, generation: int, number: int, size: int) -> None:
        """Record that the archive has a log file completely. Raise OSError, TargetError."""
        with suppress(FileExistsError):
            put_durably(f"{self.file_folder(generation, number)}/sealed.{size}", b"sealed\n")

    def remove_file(self, generation: int, number: int) -> None:
        """Remove the objects of a log file, if there are any."""
        self._remove(self.file_folder(generation, number))

    def remove_log(self, generation: int) -> None:
        """Remove a generation, but keep its number reserved. Remove its ``log`` before its files,
        because without it no start restores the generation. Raise OSError, TargetError."""
        with suppress(FileExistsError):
            put_durably(f"{self.root}/{_REMOVED}{generation:08d}", b"removed\n")
        path = f"{self.folder(generation)}/{_LOG}"
        with suppress(FileNotFoundError):
            store_of(path).remove(path)
        self._remove(self.folder(generation))

    @staticmethod
    def _remove(folder: str) -> None:
        with suppress(FileNotFoundError):
            store_of(folder).remove_folder(folder)
