"""``spark-repl relay``: list, dump, verify and purge log files. No Spark is started."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..config import Config, load
from ..relay.index import TransactionIndex, build_index
from ..relay.lease import Lease
from ..relay.log import read_while_purged
from ..relay.verify import WRONG_CHECKSUM, dump, list_files, verify_log
from ..runtime.user_cache import cache_index_folder
from ..sql.redaction import redact_secrets
from .command_target import channel_of
from .output import emit, print_table

if TYPE_CHECKING:
    from ..relay.log import RelayLog


def list_relay(options: argparse.Namespace) -> int:
    """Print the files with their servers and transactions. Raise LogError for damage."""

    def see(relay: RelayLog) -> tuple[TransactionIndex, list[dict[str, Any]]]:
        index = build_index(relay, cache_index_folder(options.dir), up_to_damage=True)
        return index, [asdict(line) for line in list_files(relay, index)]

    _, (index, files) = read_while_purged(options.dir, see)
    if options.json:
        print(json.dumps({"files": files}, default=str))
    else:
        names = (
            "file", "bytes", "server_version", "transactions", "first_gtid", "last_gtid", "closed"
        )  # fmt: skip
        print_table(names, [tuple(str(line[name]) for name in names) for line in files])
    if index.damage:
        raise index.damage
    if index.tail and not options.json:
        print(f"tail: {index.tail.file}:{index.tail.offset}: {index.tail.reason}")
    return 0


def dump_relay(options: argparse.Namespace) -> int:
    """Print each event. Return 1 if a checksum is wrong."""
    damaged, lease = False, Lease()
    relay, _ = read_while_purged(options.dir, lambda log: lease.hold(log, 0))
    for line in dump(relay, lease=lease, show=redact_secrets):
        damaged |= line.info.startswith(WRONG_CHECKSUM)
        if options.json:
            print(json.dumps(asdict(line), default=str))
        else:
            print(f"{line.file}:{line.offset:<10} {line.type:<22} {line.length:>9}  {line.info}")
    return 1 if damaged else 0


def verify_relay(options: argparse.Namespace) -> int:
    """Check checksums and transaction boundaries of each file. Return 1 if one is bad."""
    _, checks = read_while_purged(options.dir, lambda relay: list(verify_log(relay)))
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


def purge_relay(options: argparse.Namespace) -> int:
    """Remove the files that every table has passed, and print their names."""
    from ..control.records.durability_barrier import DurabilityBarrier
    from ..service.applied_purge import purge_applied

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
