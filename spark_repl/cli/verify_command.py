"""``spark-repl verify``: compare the server's rows with the tables'.

Exit code 0: equal; 1: rows differ, a table could not be compared, or another writer changed it; 3:
no row differs for certain, but some changed at every look.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ..config import load
from ..errors import ConfigError
from ..observe.hints import pasteable
from ..observe.reports.verify_status import failed_comparisons

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..config import Config
    from ..verify.verifier import VerifyLimits

UNDECIDED = 3
_NICE = 10


def verify(options: argparse.Namespace) -> int:
    config = load(options.config)
    config.check_supported()
    if odd := [name for name in options.table if not all(name.partition("."))]:
        raise ConfigError(f"--table {odd[0]}: give DATABASE.TABLE, as the target has it")
    limits = _limits(options, config.apply.workers)
    only = tuple(options.table)
    if options.supervised:
        _stand_back(options.supervised)
    if options.between:
        return _between(options, config, only, limits)
    from ..verify.verify_run import verify as verify_tables

    repair = _repair(config, options.master) if options.repair else None
    fields = verify_tables(config, only, limits, master=options.master, repair=repair)
    if options.json:
        print(json.dumps(fields, default=str))
    else:
        _print(fields, vars(options))
    return exit_code(fields, only)


def exit_code(fields: dict[str, Any], only: Sequence[str] = ()) -> int:
    """Return the exit code. A table whose mode keeps other rows than the source is not compared.
    This is not an error, unless the user named the table (``only``)."""
    wanting = failed_comparisons(fields).keys() | fields["not_compared"].keys() & set(only)
    if fields["differing"] or wanting or fields["by_others"] or fields["not_repaired"]:
        return 1
    return UNDECIDED if fields["undecided"] else 0


def _repair(config: Config, master: str | None) -> Callable[..., dict[str, Any]]:
    from ..runtime.spark_session import build_session
    from ..service.snapshot_run import snapshot
    from ..service.table_repairs import repair_tables

    used = master or f"local[{config.apply.workers}]"
    session = partial(build_session, master=used, delta=False)
    return partial(
        repair_tables, config, session=session, copy=partial(snapshot, config, master=master)
    )


def _stand_back(parent: int) -> None:
    """Lower the priority of a scheduled verify's process, and end it with its ``parent``."""
    os.nice(_NICE)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _between(
    options: argparse.Namespace, config: Config, only: tuple[str, ...], limits: VerifyLimits
) -> int:
    for name in ("repair", "rows_per_second", "wait", "sample"):
        if getattr(options, name):
            raise ConfigError(
                f"--between has no --{name.replace('_', '-')}: two cuts of the target are compared,"
                " and the source is not asked"
            )
    from ..verify.verify_run import between

    first, second = options.between
    fields = between(config, (first, second), only, limits, options.master)
    if options.json:
        print(json.dumps(fields, default=str))
    else:
        _print_rows(fields)
        for name in ("tables", "rows", "differing", "ranges", "seconds"):
            print(f"{name}: {fields[name]}")
    return 1 if fields["differing"] or fields["not_compared"] else 0


def _limits(options: argparse.Namespace, workers: int) -> VerifyLimits:
    from ..verify.verifier import VerifyLimits

    usual = VerifyLimits(workers)
    given = (options.connections, options.rows_per_second, options.wait, options.show)
    connections, rows, wait, show = given
    for name, value in (("connections", connections), ("rows-per-second", rows)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: give 1 or more")
    return VerifyLimits(
        connections or workers, rows or 0, usual.wait_s if wait is None else wait,
        usual.shown_rows if show is None else show, options.sample or 100, repairs=options.repair,
    )  # fmt: skip


def _print_rows(fields: dict[str, Any]) -> None:
    """Print the rows that differ, and on standard error the tables that were not compared."""
    for one in fields["differences"]:
        columns = f", columns {', '.join(one['columns'])}" if one.get("columns") else ""
        counts = f", {one['source']} on the source, {one['target']} here" if "source" in one else ""
        if "channels" in one:
            counts = f", also of {', '.join(one['channels'])}"
        if "first" in one:
            counts = f", {one['first']} in the first cut, {one['second']} in the second"
        print(f"{one['table']}: {one['kind']} {json.dumps(one['row'], default=str)}"
              f"{columns}{counts}")  # fmt: skip
    for name, kinds in fields["by_kind"].items():
        print(f"{name}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    for name, reason in fields["not_compared"].items():
        print(f"{name}: not compared: {reason}", file=sys.stderr)


def _print(fields: dict[str, Any], options: Mapping[str, object]) -> None:
    _print_rows(fields)
    from ..verify.changed_above_cut import ByOthers

    for name, one in fields["by_others"].items():
        hint = pasteable(one["hint"], options, table=name)
        print(f"{name}: {ByOthers(**one).description}\nTry: {hint}", file=sys.stderr)
    if fields["undecided"]:
        print(f"{fields['undecided']} rows changed at every look", file=sys.stderr)
    names = ("tables", "rows", "differing", "undecided", "seconds", "rows_per_s", "gtid_executed")
    for name in names:
        print(f"{name}: {fields[name]}")
    for name, rows in fields["repaired_rows"].items():
        print(f"repaired: {name}, {rows} rows")
    for name, reason in fields["copied"].items():
        print(f"copied: {name}: {reason}")
    for name, reason in fields["not_repaired"].items():
        print(f"not repaired: {name}: {reason}", file=sys.stderr)
