"""What has to do with a live server: ``run``, ``snapshot``, ``receive``, ``relay purge``."""

from __future__ import annotations

import argparse
import sys

from ..config import Config, load
from ..errors import ConfigError, SparkReplError
from ..service import following
from ..service.applied_purge import purge_applied
from . import inspect
from .configuration import loaded


def run(options: argparse.Namespace) -> int:
    config = loaded(options)
    result = following.run(
        config, options.config, master=options.master, take_over=options.take_over
    )
    if result is not None:
        inspect.print_result(result, options.json)
    return 0


def snapshot(options: argparse.Namespace) -> int:
    config = loaded(options)
    if odd := [name for name in options.table if not all(name.partition("."))]:
        raise ConfigError(f"--table {odd[0]}: give DATABASE.TABLE, as the target has it")
    copied = following.snapshot(
        config, tuple(options.table), master=options.master, take_over=options.take_over
    )
    if not copied.seconds:
        print("Nothing was copied: the first copy is done already", file=sys.stderr)
    fields = {
        "tables": copied.tables,
        "rows": copied.rows,
        "seconds": round(copied.seconds, 3),
        "rows_per_s": copied.rows_per_s,
        "start": str(copied.start),
        "high_water_mark": str(copied.until),
    }
    inspect.emit(fields, options.json)
    return 0


def receive(options: argparse.Namespace) -> int:
    config = loaded(options)
    from ..receiver.report import has_said

    try:
        received = following.receive(config, parent=options.supervised, from_end=options.from_end)
    except SparkReplError as error:
        if options.supervised and has_said(config.relay.path, error):
            return 1  # the supervisor says it
        raise
    inspect.emit(received, options.json)
    return 0


def purge(options: argparse.Namespace) -> int:
    from ..control.settle import Settle

    config = load(options.config) if options.config else Config()
    at = inspect.channel_of(options)
    given = {"relay.path": options.dir, "target.path": at.layout.target}
    purged = purge_applied(config.override(given), at.control, Settle(at.control, at.layout))
    if purged.warning:
        print(f"warning: {purged.warning}", file=sys.stderr)
    fields = {"files": list(purged.files), "bytes": purged.bytes}
    inspect.emit(fields | ({"warning": purged.warning} if purged.warning else {}), options.json)
    return 0
