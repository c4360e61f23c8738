"""``spark-repl reset``: tables begin again, instead of folders that are removed by hand."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..control.records.channel_reset import plan_all, plan_tables, reset_all, reset_tables
from ..control.records.channels import check_unowned, opened
from ..delta.removing import Remover
from ..errors import ConfigError
from .configuration import loaded
from .inspect import emit

if TYPE_CHECKING:
    from ..control.records.channel_reset import Planned
    from ..control.records.channels import Channel


def reset(options: argparse.Namespace) -> int:
    """List what is removed, then remove it as the target's owner: its applier must be stopped."""
    config = loaded(options)
    if odd := [name for name in options.table if not all(name.partition("."))]:
        raise ConfigError(f"--table {odd[0]}: give DATABASE.TABLE, as the target has it")
    at = opened(config)
    planned = plan_all(at) if options.all else plan_tables(at, options.table)
    for line in planned.said:
        print(line, file=sys.stderr)
    if not options.dry_run and at.control.exists():
        check_unowned(config, take_over=options.take_over)
        planned = _carry_out(at, options)
    tables, folders = list(planned.tables), list(planned.folders)
    emit({"tables": tables, "folders": folders, "dry_run": options.dry_run}, options.json)
    return 0


def _carry_out(at: Channel, options: argparse.Namespace) -> Planned:
    control = at.control
    control.claim(take_over=options.take_over)
    try:
        if options.all:
            return reset_all(at, Remover(control.check_owner))
        return reset_tables(at, options.table)
    finally:
        control.release()
