"""``spark-repl relay``: list, dump, verify and purge log files. No Spark is started.

An archived log is copied into a temporary folder (``TMPDIR``), and read there as any other.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Config, load
from ..errors import ConfigError
from ..relay.archive_download import archive_at, download_log
from ..relay.index import TransactionIndex, build_index
from ..relay.lease import Lease
from ..relay.log import read_while_purged
from ..relay.log_inspection import (
    CUT_AT_END,
    WRONG_CHECKSUM,
    FileCheck,
    dump,
    list_files,
    verify_log,
)
from ..sql.redaction import redact_secrets
from ..user_cache import cache_index_folder
from .command_target import channel_of
from .output import emit, print_table

if TYPE_CHECKING:
    from ..relay.archive import ArchivedLog, RelayArchive
    from ..relay.log import RelayLog


@dataclass(frozen=True)
class _LogPlace:
    """A log to read: its folder or file, and the folder of its index. ``archived``: the archived
    log that it is a copy of, and the archive; None: it is not a copy."""

    path: str
    index: str
    archived: tuple[RelayArchive, ArchivedLog] | None = None


@contextmanager
def _log_at(path: str) -> Iterator[_LogPlace]:
    """A context with the log at a path or URI; an archived log is copied for the context."""
    named = archive_at(path)
    if named is None:
        yield _LogPlace(path, cache_index_folder(path))
        return
    archive, generation = named
    log = archive.chosen(generation)
    with tempfile.TemporaryDirectory(prefix="spark_repl-") as folder:
        copy = Path(folder) / "log"
        copy.mkdir()
        download_log(log, copy)
        yield _LogPlace(str(copy), str(Path(folder) / "index"), (archive, log))


def list_relay(options: argparse.Namespace) -> int:
    """Print the files with their servers and transactions; for an archive also its logs. Raise
    LogError for damage."""
    with _log_at(options.dir) as place:
        return _list(place, as_json=options.json)


def _list(place: _LogPlace, *, as_json: bool) -> int:
    def see(relay: RelayLog) -> tuple[TransactionIndex, list[dict[str, Any]]]:
        index = build_index(relay, place.index, up_to_damage=True)
        return index, [asdict(line) for line in list_files(relay, index)]

    _, (index, files) = read_while_purged(place.path, see)
    logs = _archived_logs(*place.archived) if place.archived else {}
    if as_json:
        print(json.dumps({**logs, "files": files}, default=str))
    else:
        if logs:
            print_table(
                tuple(logs["logs"][0]), [tuple(map(str, log.values())) for log in logs["logs"]]
            )
            print(f"files of {logs['log']}:")
        names = (
            "file", "bytes", "server_version", "transactions", "first_gtid", "last_gtid", "closed"
        )  # fmt: skip
        print_table(names, [tuple(str(line[name]) for name in names) for line in files])
    if index.damage:
        raise index.damage
    if index.tail and not as_json:
        print(f"tail: {index.tail.file}:{index.tail.offset}: {index.tail.reason}")
    return 0


def _archived_logs(archive: RelayArchive, listed: ArchivedLog) -> dict[str, Any]:
    """Return the fields of an archive's logs, and which of them is listed."""
    logs = list[dict[str, Any]]()
    for log in archive.logs():
        if not log.has_begun:
            continue
        note = archive.note(log.generation)
        logs.append(
            {
                "log": archive.folder(log.generation),
                "target": note.target,
                "log_id": note.log_id,
                "files": len(log.numbers),
                "bytes": sum(file.end for file in log.files),
                "whole": note.covered_by(log),
            }
        )
    return {"log": archive.folder(listed.generation), "logs": logs}


def dump_relay(options: argparse.Namespace) -> int:
    """Print each event. Return 1 if a checksum is wrong."""
    with _log_at(options.dir) as place:
        return _dump(place.path, options)


def _dump(path: str, options: argparse.Namespace) -> int:
    damaged, lease = False, Lease()
    relay, _ = read_while_purged(path, lambda log: lease.hold(log, 0))
    for line in dump(relay, lease=lease, show=redact_secrets):
        damaged |= line.info.startswith(WRONG_CHECKSUM)
        if options.json:
            print(json.dumps(asdict(line), default=str))
        else:
            print(f"{line.file}:{line.offset:<10} {line.type:<22} {line.length:>9}  {line.info}")
    return 1 if damaged else 0


def verify_relay(options: argparse.Namespace) -> int:
    """Check checksums and transaction boundaries of each file. Return 1 if one is bad."""
    with _log_at(options.dir) as place:
        _, checks = read_while_purged(place.path, lambda relay: list(verify_log(relay)))
        if place.archived and not place.archived[1].files[-1].is_sealed:
            checks[-1] = _without_cut(checks[-1])
    bad = [check for check in checks if not check.ok]
    if options.json:
        print(json.dumps({"ok": not bad, "files": [asdict(c) for c in checks]}, default=str))
    else:
        for check in checks:
            verdict = "ok" if check.ok else f"{check.problem} at {check.offset}"
            print(
                f"{check.file}: {check.transactions} transactions, {check.bytes} bytes: {verdict}"
            )
            if check.note:
                print(f"  {check.note}")
    return 1 if bad else 0


def _without_cut(check: FileCheck) -> FileCheck:
    """Return the check of a last archived file, whose end may be within an event."""
    if check.problem in CUT_AT_END:
        return replace(check, problem=None, offset=None, note=f"ends with {check.problem}")
    return check


def purge_relay(options: argparse.Namespace) -> int:
    """Remove the files that every table has passed, and print their names."""
    from ..control.records.durability_barrier import DurabilityBarrier
    from ..service.applied_purge import purge_applied

    if (place := archive_at(options.dir)) is not None:
        return _purge_archive(options, place[0])
    config = load(options.config) if options.config else Config()
    at = channel_of(options)
    given = {"relay.path": options.dir, "target.path": at.layout.target}
    purged = purge_applied(
        config.override(given), at.control, DurabilityBarrier(at.control, at.layout)
    )
    if purged.warning:
        print(f"warning: {purged.warning}", file=sys.stderr)
    fields = {"files": list(purged.files), "bytes": purged.bytes}
    emit(fields | ({"warning": purged.warning} if purged.warning else {}), options.json)
    return 0


def _purge_archive(options: argparse.Namespace, archive: RelayArchive) -> int:
    """Remove the logs and files of an archive that the target does not need. Raise ConfigError if
    the configuration's channel has another archive."""
    from ..service.archived_relay import archive_of, purge_archive
    from ..service.receiving import needed_of

    if not options.config:
        raise ConfigError(
            "a purge of an archive needs the configuration of its channel", file=options.dir,
            hint="give --config FILE",
        )  # fmt: skip
    given = {"target.path": options.target, "channel": options.channel}
    config = load(options.config).override({key: text for key, text in given.items() if text})
    configured = archive_of(config)
    if configured is None or configured.root != archive.root:
        raise ConfigError(
            "this is not the archive of the configuration's channel, whose target decides what is"
            f" needed: {configured.root if configured else 'it has none'}",
            file=archive.root, hint="give --config FILE of the channel that writes this archive",
        )  # fmt: skip
    purged = purge_archive(config, archive, needed_of(config))
    emit({"logs": list(purged.logs), "files": list(purged.files)}, options.json)
    return 0
