"""``spark-repl cut``: moments at which all tables can be read together, and how long each is
kept."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..control.cuts.cut_export import manifest
from ..control.cuts.cut_reader import find_cut
from ..control.cuts.previous_folders import former_lines, former_tables
from ..control.records.retention import pin, pins, promised_until, recorded, unpin
from ..control.records.shared_tables import shared_shards
from ..control.table.cut import shown_tables
from ..errors import ConfigError
from ..observe.status.status import position_text
from .inspect import channel_of, emit, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..control.table.control import Control
    from ..control.table.cut import Cut


def list_cuts(options: argparse.Namespace) -> int:
    """Every cut that is promised, and until when."""
    control = channel_of(options).control
    find_cut(control, "latest")
    kept = list(kept_cuts(control, datetime.now(UTC)))
    if options.json:
        shown = [{**cut_json(cut), "kept": until} for cut, until in kept]
        print(json.dumps({"cuts": shown}, default=str))
        return 0
    rows = [
        (str(cut.at), position_text(cut), cut.gtid_executed, str(len(shown_tables(cut))), until)
        for cut, until in kept
    ]  # fmt: skip
    print_table(("published", "position", "gtid_executed", "tables", "kept"), rows)
    return 0


def kept_cuts(control: Control, now: datetime) -> Iterator[tuple[Cut, str]]:
    """Each cut with what is promised of it: a time in UTC, the names that keep it, or that it is
    the newest. Those are left out whose promise has run out: files of them may be gone."""
    held, names = control.held(), dict[tuple[int, datetime], list[str]]()
    for name, one in sorted(pins(control).items()):
        names.setdefault(one.cut, []).append(name)
    until = promised_until(control, held, now)
    newest = max(until, default=None)
    for cut in held.all_cuts():
        assert cut.at is not None
        key = cut.position, cut.at
        if key in names:
            yield cut, ", ".join(f"pinned as {name}" for name in names[key])
        elif until[key] > now:
            yield cut, f"until {until[key].isoformat(timespec='seconds')}"
        elif key == newest:
            yield cut, "as long as it is the newest"


def show_cut(options: argparse.Namespace) -> int:
    at = channel_of(options)
    cut = find_cut(at.control, options.at)
    if options.json:
        print(json.dumps(cut_json(cut), default=str))
        return 0
    print(f"gtid_executed: {cut.gtid_executed}")
    print(f"position: {position_text(cut)}")
    rows = [(name, one.path, str(one.version)) for name, one in shown_tables(cut).items()]
    print_table(("table", "path", "version"), rows)
    for line in former_lines(former_tables(at.layout, find_cut(at.control, "latest"))):
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


def export_cut(options: argparse.Namespace) -> int:
    """Prints a manifest of the cut, or writes it to a file in one step."""
    at = channel_of(options)
    layout, control = at.layout, at.control
    cut = find_cut(control, options.at)
    if options.pin:  # first, so that nothing of what is listed can go
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
    """Keeps a cut until it is unpinned, also beside a running applier; says from when on VACUUM by
    others takes its files, which goes by the tables' retention and knows of no pin."""
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
    """``shards``, of a table that other channels feed, too: those whose rows are the cut's."""
    own = {name: {"shards": shards} for name, shards in shared_shards(cut).items()}
    return {
        "gtid_executed": cut.gtid_executed,
        "position": position_text(cut),
        "source": dict(cut.source),
        "at": cut.at,
        "tables": {
            name: {"path": table.path, "version": table.version, **own.get(name, {})}
            for name, table in shown_tables(cut).items()
        },
        "waiting": {name: asdict(why) for name, why in cut.waiting.items()},
        "quarantined": {name: asdict(why) for name, why in cut.quarantined.items()},
    }
