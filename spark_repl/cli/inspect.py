"""The commands that only look into log files, and what all of them print. No Spark is started."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..config import load
from ..control.records.channels import channel_at, opened
from ..errors import ConfigError, TargetError
from ..observe.screen import columns
from ..relay.index import TransactionIndex, build_index
from ..relay.lease import Lease
from ..relay.log import read_while_purged
from ..relay.verify import WRONG_CHECKSUM, dump, list_files, verify_log
from ..runtime.user_cache import cache_index_folder
from ..sql.shown_text import without_secrets

if TYPE_CHECKING:
    from ..control.records.channels import Channel
    from ..observe.reports.applier_status import Result  # Spark, which these commands do without
    from ..relay.log import RelayLog


def emit(fields: Any, as_json: bool) -> None:
    """Prints JSON, one object on the last line of standard output; else ``name: value`` lines."""
    if as_json:
        print(json.dumps(fields, default=str))
        return
    for name, value in fields.items():
        print(f"{name}: {json.dumps(value, default=str) if isinstance(value, dict) else value}")


def target_of(options: argparse.Namespace) -> str:
    if options.target:
        return str(options.target)
    if options.config:
        return load(options.config).target.path
    raise ConfigError("--target is missing", hint="give it, or --config FILE")


def channel_of(options: argparse.Namespace, *, begun: bool = True) -> Channel:
    """The channel that a command is about: that of its configuration, or the target's only one,
    unless it is named. Raises TargetError where it has applied nothing yet, unless not ``begun``,
    and ConfigError where there are several and none is named."""
    file = getattr(options, "config", None)
    if not file:
        return channel_at(target_of(options), options.channel)
    given = {"target.path": options.target, "channel": options.channel}
    at = opened(load(file).override({key: text for key, text in given.items() if text}))
    if begun and not at.control.exists():
        raise TargetError(
            f'the channel "{at.name}" has applied nothing to this target yet',
            file=at.layout.target,
            hint="start it: spark-repl run, or apply; or is target.path another one?",
        )
    return at


def _fields(result: Result) -> dict[str, Any]:
    counters = result.counters
    return {
        "transactions": counters.transactions,
        "row_changes": counters.row_changes,
        "groups": counters.groups,
        "waves": counters.waves,
        "cuts": counters.cuts,
        "statements": counters.statements,
        "statements_by_way": counters.ways,
        "seconds": round(result.seconds, 3),
        "gtid_executed": result.gtid_executed,
        "relay_position": result.relay_position,
        "retries": counters.retries,
        "task_retries": counters.task_retries,
        "already_there": counters.already,
        "skipped": counters.skipped,
        "applied_at_start": counters.at_start,
        "zero_dates": counters.zero_dates,
        "text_errors": counters.text_errors,
        "warnings": counters.warnings,
        "tail": result.tail,
    }


def print_results(results: Mapping[str, Result], as_json: bool) -> None:
    """Those of several channels."""
    if as_json:
        emit({name: _fields(result) for name, result in results.items()}, True)
        return
    for name, result in results.items():
        print(f"channel: {name}")
        print_result(result, False)


def print_result(result: Result, as_json: bool) -> None:
    fields = _fields(result)
    if not as_json:
        fields = {name: value for name, value in fields.items() if value not in (None, [], {})}
    emit(fields, as_json)
    if result.tail and not as_json:
        print(f"Not applied: {result.tail}", file=sys.stderr)


def list_relay(options: argparse.Namespace) -> int:
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
    damaged, lease = False, Lease()
    relay, _ = read_while_purged(options.dir, lambda log: lease.hold(log, 0))
    for line in dump(relay, lease=lease, show=without_secrets):
        damaged |= line.info.startswith(WRONG_CHECKSUM)
        if options.json:
            print(json.dumps(asdict(line), default=str))
        else:
            print(f"{line.file}:{line.offset:<10} {line.type:<22} {line.length:>9}  {line.info}")
    return 1 if damaged else 0


def verify_relay(options: argparse.Namespace) -> int:
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


def cells(names: Sequence[str], line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a line; what is not known is blank, and a zero is not."""
    return tuple("" if line[name] is None else str(line[name]) for name in names)


def print_table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Prints columns as wide as their longest cell, uncut: cells are copied into other commands."""
    for line in columns(names, rows):
        print(line)
