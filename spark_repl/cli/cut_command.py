"""``spark-repl cut``: moments at which all tables can be read together, and how long each is kept.

``spark-repl wait``: wait until a cut holds a set of transactions.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import load
from ..control.cuts.cut_export import manifest
from ..control.cuts.cut_head import cell, head
from ..control.cuts.cut_reader import find_cut
from ..control.cuts.cut_wait import unknown_sources, uuids_of, wait_at
from ..control.cuts.previous_folders import previous_folder_lines, previous_folders
from ..control.records.retention import pin, pins, promised_until, recorded, unpin
from ..control.records.shared_tables import shared_shards
from ..control.table.cut import reader_tables
from ..errors import ConfigError, SourceError, TargetError
from ..observe.status.status import position_text
from .command_target import channel_of
from .output import emit, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..config import Config
    from ..control.records.channels import Channel
    from ..control.table.control import Control
    from ..control.table.cut import Cut


def list_cuts(options: argparse.Namespace) -> int:
    """Print each retained cut, and until when it is retained."""
    control = channel_of(options).control
    find_cut(control, "latest")
    kept = list(kept_cuts(control, datetime.now(UTC)))
    if options.json:
        shown = [{**cut_json(cut), "kept": until} for cut, until in kept]
        print(json.dumps({"cuts": shown}, default=str))
        return 0
    rows = [
        (str(cut.at), position_text(cut), cut.gtid_executed, str(len(reader_tables(cut))), until)
        for cut, until in kept
    ]  # fmt: skip
    print_table(("published", "position", "gtid_executed", "tables", "kept"), rows)
    return 0


def kept_cuts(control: Control, now: datetime) -> Iterator[tuple[Cut, str]]:
    """Yield each retained cut with the reason: a time in UTC, the names of its pins, or that it is
    the newest one. Leave out cuts whose retention has ended, because their files may already be
    removed."""
    cuts, names = control.snapshot(), dict[tuple[int, datetime], list[str]]()
    for name, pin_of_cut in sorted(pins(control).items()):
        names.setdefault(pin_of_cut.cut, []).append(name)
    until = promised_until(control, cuts, now)
    newest = max(until, default=None)
    for cut in cuts.all_cuts():
        assert cut.at is not None
        key = cut.position, cut.at
        if key in names:
            yield cut, ", ".join(f"pinned as {name}" for name in names[key])
        elif until[key] > now:
            yield cut, f"until {until[key].isoformat(timespec='seconds')}"
        elif key == newest:
            yield cut, "as long as it is the newest"


def show_cut(options: argparse.Namespace) -> int:
    """Print a cut: its position, the versions of its tables, and the tables that it does not
    show."""
    at = channel_of(options)
    cut = find_cut(at.control, options.at)
    if options.json:
        print(json.dumps(cut_json(cut), default=str))
        return 0
    print(f"gtid_executed: {cut.gtid_executed}")
    print(f"position: {position_text(cut)}")
    rows = [(name, table.path, str(table.version)) for name, table in reader_tables(cut).items()]
    print_table(("table", "path", "version"), rows)
    for line in previous_folder_lines(previous_folders(at.layout, find_cut(at.control, "latest"))):
        print(line)
    for name, shards in shared_shards(cut).items():
        print(f"other channels feed it, too: {name}: of the cut are the shards {', '.join(shards)}")
    for name, why in cut.waiting.items():
        print(f"not shown until it is copied: {name} since {why.since}: {why.reason}")
    for name, mark in cut.quarantined.items():
        print(
            f"in quarantine: {name} since {mark.since}, {mark.transactions} transactions:"
            f" {mark.reason}"
        )
    return 0


def print_head(options: argparse.Namespace) -> int:
    """Print some rows of a table at a cut, in no particular order. Raise ConfigError for a table
    that the cut does not show, and for a condition that delta-rs refuses."""
    at = channel_of(options)
    rows = head(at.layout, find_cut(at.control, options.at), options.table, options.rows,
                options.where)  # fmt: skip
    if options.json:
        print(json.dumps({"rows": rows.to_pylist()}, default=_json_value))
        return 0
    names = tuple(rows.column_names)
    print_table(names, [tuple(cell(row[name]) for name in names) for row in rows.to_pylist()])
    return 0


def _json_value(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def export_cut(options: argparse.Namespace) -> int:
    """Print a manifest of the cut, or write it to a file atomically."""
    at = channel_of(options)
    layout, control = at.layout, at.control
    cut = find_cut(control, options.at)
    if options.pin:  # first, so that no listed file can be removed
        pin(control, cut, options.pin)
    contents = manifest(layout, cut, quarantined=options.quarantined)
    _warn_of_statistics(contents["tables"])
    if not options.out:
        print(json.dumps(contents))
        return 0
    work = f"{options.out}.{os.getpid()}"
    try:
        Path(work).write_text(json.dumps(contents, indent=1) + "\n", "utf-8")
        os.replace(work, options.out)
    except OSError as error:
        raise ConfigError(
            f"can't write the manifest: {error.strerror}", file=options.out
        ) from error
    count = len(contents["tables"])
    fields = {"gtid_executed": cut.gtid_executed, "tables": count, "out": options.out}
    emit(fields, options.json)
    return 0


def _warn_of_statistics(tables: dict[str, Any]) -> None:
    """Name the tables whose files may have the statistics of an earlier version at the cut."""
    unsound = [name for name, table in tables.items() if not table["sound_statistics"]]
    if unsound:
        print(
            "Warning: with a condition delta-rs, DuckDB and Polars may miss rows of the cut, as an"
            f" earlier version wrote the statistics: {', '.join(unsound)}\n"
            "  Try: read these tables with Spark, or without a condition",
            file=sys.stderr,
        )


def pin_cut(options: argparse.Namespace) -> int:
    """Keep a cut until it is unpinned; this also works while an applier runs.

    Print the time from which another engine's VACUUM may remove the cut's files: such a VACUUM
    follows the tables' retention, and ignores pins.
    """
    control = channel_of(options).control
    cut = find_cut(control, options.at)
    pin(control, cut, options.name)
    assert cut.at is not None
    until = cut.at + timedelta(hours=recorded(control).longest)
    fields = {"pinned": options.name, "gtid_executed": cut.gtid_executed}
    fields["others_may_vacuum_until"] = until.isoformat(timespec="seconds")
    emit(fields, options.json)
    return 0


def unpin_cut(options: argparse.Namespace) -> int:
    unpin(channel_of(options).control, options.name)
    emit({"unpinned": options.name}, options.json)
    return 0


def cut_json(cut: Cut) -> dict[str, Any]:
    """Return a cut as JSON. ``shards`` lists, for a table that other channels also feed, the shards
    whose rows belong to the cut."""
    own = {name: {"shards": shards} for name, shards in shared_shards(cut).items()}
    return {
        "gtid_executed": cut.gtid_executed,
        "position": position_text(cut),
        "source": dict(cut.source),
        "at": cut.at,
        "tables": {
            name: {"path": table.path, "version": table.version, **own.get(name, {})}
            for name, table in reader_tables(cut).items()
        },
        "waiting": {name: asdict(why) for name, why in cut.waiting.items()},
        "quarantined": {name: asdict(why) for name, why in cut.quarantined.items()},
    }


def wait(options: argparse.Namespace) -> int:
    """Wait until a cut has the transactions. Raise TargetError after the timeout.

    Raise TargetError immediately for transactions of a server that neither the source nor the
    target knows.
    """
    began = time.monotonic()
    at = channel_of(options)
    if options.config:
        _check_known(load(options.config), at, options.gtid)
    cut = wait_at(at.control, at.layout.target, options.gtid, options.timeout)
    seconds = round(time.monotonic() - began, 3)
    emit({"gtid_executed": cut.gtid_executed, "seconds": seconds}, options.json)
    return 0


def _check_known(config: Config, at: Channel, gtid_set: str) -> None:
    """Raise TargetError for a server that neither the source nor the target knows. The source is
    asked only if the target does not know it, and one that does not answer is not an error."""
    unknown = unknown_sources(at.control, gtid_set)
    if not unknown:
        return
    from ..source.connection import DumpConnection

    try:
        connection = DumpConnection(config.source)
        try:
            server = connection.server()
        finally:
            connection.close()
    except SourceError:
        return
    known = uuids_of(server.executed) | {server.uuid.lower()}
    if lost := [uuid for uuid in unknown if uuid not in known]:
        raise TargetError(
            f"neither the source nor the target has a transaction of {', '.join(lost)}",
            file=at.layout.target,
            hint="give a set that SELECT @@GLOBAL.gtid_executed on the source returns",
        )
