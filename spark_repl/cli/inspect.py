"""The commands that only look: status, cuts, and log files. None of them starts Spark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..config import load
from ..control.control import Control
from ..control.cut_reader import find_cut, published
from ..control.layout import Layout
from ..errors import ConfigError
from ..observe.metrics import metrics
from ..observe.status import position_text, status
from ..relay.index import TransactionIndex, build_index
from ..relay.log import RelayLog, open_log
from ..relay.look import look
from ..relay.verify import WRONG_CHECKSUM, dump, list_files, verify_log
from ..runtime.user_cache import cache_index_folder

if TYPE_CHECKING:
    from ..control.cut import Cut
    from ..observe.applier_status import Result  # Spark, which these commands do without


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


def print_result(result: Result, as_json: bool) -> None:
    counters = result.counters
    fields = {
        "transactions": counters.transactions,
        "row_changes": counters.row_changes,
        "groups": counters.groups,
        "waves": counters.waves,
        "cuts": counters.cuts,
        "statements": counters.statements,
        "seconds": round(result.seconds, 3),
        "gtid_executed": result.gtid_executed,
        "relay_position": result.relay_position,
        "retries": counters.retries,
        "task_retries": counters.task_retries,
        "already_there": counters.already,
        "skipped": counters.skipped,
        "applied_at_start": counters.at_start,
        "zero_dates": counters.zero_dates,
        "warnings": counters.warnings,
        "tail": result.tail,
    }
    if not as_json:
        fields = {name: value for name, value in fields.items() if value not in (None, [])}
    emit(fields, as_json)
    if result.tail and not as_json:
        print(f"Not applied: {result.tail}", file=sys.stderr)


def show_status(options: argparse.Namespace) -> int:
    config = load(options.config) if options.config else None
    relay, state_path = (config.relay.path, config.target.state_path) if config else (None, "")
    target_status = status(target_of(options), relay, state_path)
    if options.metrics:
        print(metrics(target_status), end="")
        return 0
    if options.json:
        emit(target_status, True)
        return 0
    owner = target_status["owner"]
    if owner:
        alive = "running" if owner["alive"] else "stopped"
        print(f"applier: {alive}, pid {owner['pid']} on {owner['host']} since {owner['since']}")
    applying = target_status["replication_applier_status_by_coordinator"]
    workers = target_status["replication_applier_status_by_worker"]
    states = [row.get("PROCESSLIST_STATE") for row in (*applying, *workers)]
    for state in dict.fromkeys(filter(None, states)):
        print(f"state: {state}")
    for error in filter(None, (row.get("LAST_ERROR_MESSAGE") for row in applying)):
        print(f"last error: {error}")
    for receiver in target_status["replication_connection_status"]:
        doing = f", {receiver['SERVICE_DOING']}" if receiver["SERVICE_DOING"] else ""
        print(f"receiver: {receiver['SERVICE_STATE']}{doing}, source {receiver['SOURCE_HOST']},"
              f" {receiver['SOURCE_LOG_FILE']}:{receiver['READ_SOURCE_LOG_POS']},"
              f" received {receiver['RECEIVED_TRANSACTION_SET']}")  # fmt: skip
        if receiver["LAST_ERROR_MESSAGE"]:
            print(f"receiver's last error, {receiver['LAST_ERROR_TIMESTAMP']}: "
                  f"{receiver['LAST_ERROR_MESSAGE']}")  # fmt: skip
    print(f"gtid_executed: {target_status['gtid_executed']}")
    if target_status["relay_position"]:
        print(f"relay_position: {target_status['relay_position']}")
    print(f"cuts: {target_status['cuts']}")
    for branch in target_status["xa_recover"]:
        old = " (old: is its XA COMMIT lost?)" if branch["old"] else ""
        print(
            f"prepared: {branch['gtrid']},{branch['bqual']},{branch['format_id']}"
            f" {branch['bytes']} bytes, {branch['age_s']} s{old}"
        )
    if target_status["source"].get("file") and not target_status["replication_connection_status"]:
        print(f"source: {target_status['source']['file']}:{target_status['source']['position']}")
    rows = [
        (n, t["path"], str(t["version"]), t["position"]) for n, t in target_status["tables"].items()
    ]
    print_table(("table", "path", "version", "position"), rows)
    return 0


def list_cuts(options: argparse.Namespace) -> int:
    cuts = published(Control(Layout(target_of(options)).control).cuts(), target_of(options))
    if options.json:
        print(json.dumps({"cuts": [cut_json(cut) for cut in cuts]}, default=str))
        return 0
    rows = [
        (str(cut.at), position_text(cut), cut.gtid_executed, str(len(cut.tables)))
        for cut in cuts
    ]  # fmt: skip
    print_table(("published", "position", "gtid_executed", "tables"), rows)
    return 0


def show_cut(options: argparse.Namespace) -> int:
    target = target_of(options)
    cut = find_cut(Control(Layout(target).control).cuts(), options.at, target)
    if options.json:
        print(json.dumps(cut_json(cut), default=str))
        return 0
    print(f"gtid_executed: {cut.gtid_executed}")
    print(f"position: {position_text(cut)}")
    rows = [(name, table.path, str(table.version)) for name, table in cut.tables.items()]
    print_table(("table", "path", "version"), rows)
    return 0


def cut_json(cut: Cut) -> dict[str, Any]:
    return {
        "gtid_executed": cut.gtid_executed,
        "position": position_text(cut),
        "source": dict(cut.source),
        "at": cut.at,
        "tables": {
            name: {"path": table.path, "version": table.version}
            for name, table in cut.tables.items()
        },
    }


def list_relay(options: argparse.Namespace) -> int:
    def see(relay: RelayLog) -> tuple[TransactionIndex, list[dict[str, Any]]]:
        index = build_index(relay, cache_index_folder(options.dir), up_to_damage=True)
        return index, [asdict(line) for line in list_files(relay, index)]

    _, (index, files) = look(options.dir, see)
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
    damaged = False
    for line in dump(open_log(options.dir)):
        damaged |= line.info.startswith(WRONG_CHECKSUM)
        if options.json:
            print(json.dumps(asdict(line), default=str))
        else:
            print(f"{line.file}:{line.offset:<10} {line.type:<22} {line.length:>9}  {line.info}")
    return 1 if damaged else 0


def verify_relay(options: argparse.Namespace) -> int:
    _, checks = look(options.dir, lambda relay: list(verify_log(relay)))
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


def print_table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Prints columns as wide as their longest cell, uncut: cells are copied into other commands."""
    width = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        cells = (cell.ljust(size) for cell, size in zip(row, width, strict=True))
        print("  ".join(cells).rstrip())
