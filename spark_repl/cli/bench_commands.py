"""``spark-repl bench``: figures of this machine; ``spark-repl demo``: the recorded bank, and a shop
on a live server."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from typing import Any

from ..config import Config, load
from ..errors import ConfigError
from .command_arguments import PASSWORD_VARIABLE
from .output import emit

_BANK_PREPARED = "relay:bank-bin.000002:4"
"""the position after the first of the recorded bank's two files"""


def decode_bench(options: argparse.Namespace) -> int:
    from ..bench.recorded import bench_decode

    emit(bench_decode(options.files), options.json)
    return 0


def receive_bench(options: argparse.Namespace) -> int:
    from ..bench.live import bench_receive, bench_steady

    config = load(options.config)
    if options.steady:
        figures = bench_steady(config, options.config, options.steady, options.readers)
    else:
        figures = bench_receive(config, options.mysqlbinlog, options.runs, options.readers)
    emit(figures, options.json)
    return 0


def snapshot_bench(options: argparse.Namespace) -> int:
    from ..bench.live import bench_snapshot

    config = load(options.config)
    config.check_supported()
    emit(bench_snapshot(config, options.runs), options.json)
    return 0


def latency_bench(options: argparse.Namespace) -> int:
    from ..bench.live import bench_latency

    config = load(options.config)
    config.check_supported()
    emit(bench_latency(config, options.config, options.seconds), options.json)
    return 0


def endurance_bench(options: argparse.Namespace) -> int:
    from ..bench.endurance import Age, bench_endurance
    from ..bench.recorded import Recording
    from ..demo.bank_demo import BANK
    from ..schedule.until import Until

    if bool(options.relay) != bool(options.prepared):
        raise ConfigError("--relay and --prepared: give both, or none for the recorded bank")
    if options.age_days < 0 or options.rate <= 0 or options.commits_per_day < 1:
        raise ConfigError("--age-days must be at least 0, --rate and --commits-per-day above it")
    settings = {
        "workers": options.workers,
        "group_max_transactions": options.group_transactions,
    }
    prepared = Until.parse(options.prepared or _BANK_PREPARED)
    recording = Recording(options.relay or str(BANK), settings, prepared)
    age = Age(options.age_days, options.commits_per_day)
    figures = bench_endurance(recording, age, options.rate, options.target or "")
    emit(figures, options.json)
    return 0


def ddl_bench(options: argparse.Namespace) -> int:
    from ..bench.ddl import DdlLoad, bench_ddl

    if min(options.statements, options.tables) < 1:
        raise ConfigError("--statements and --tables must be at least 1")
    load = DdlLoad(options.statements, options.tables, options.rows)
    figures = bench_ddl(load, options.workers)
    emit(figures, options.json)
    return 0


def apply_bench(options: argparse.Namespace) -> int:
    from ..bench.recorded import Recording, bench_apply
    from ..schedule.until import Until

    if options.fresh_index and not options.prepared:
        raise ConfigError("--fresh-index needs --prepared: a new target has no index")
    settings = {
        "workers": options.workers,
        "group_max_rows": options.group_rows,
        "group_max_transactions": options.group_transactions,
        "group_max_bytes": options.group_bytes,
    }
    prepared = Until.parse(options.prepared) if options.prepared else None
    recording = Recording(options.relay, settings, prepared, tuple(options.do_table or ()))
    figures = bench_apply(
        recording, options.runs, fresh_index=options.fresh_index, below=options.target or "",
        master=options.master or "",
    )  # fmt: skip
    emit(figures, options.json)
    return 0


def demo(options: argparse.Namespace) -> int:
    """Apply a recorded log, and check the content of the tables; or show a live server's rows."""
    if options.live:
        return _live_demo(options)
    from ..demo.bank_demo import run

    if named := [flag for flag, value in _live_values(options).items() if value]:
        raise ConfigError(f"{named[0]} needs --live", hint="add --live, or leave it out")
    return run(options.keep, log=options.log, target=options.target, as_json=options.json)


def _live_values(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of ``demo --live`` by their flags."""
    values = {"--database": options.database}
    for name, value in vars(options).items():
        if name.startswith("source_"):
            values["--" + name.removeprefix("source_").replace("_", "-")] = value
    return values


def _live_demo(options: argparse.Namespace) -> int:
    """Run the live demo. Raise ConfigError for options that contradict each other."""
    from ..demo.live_demo import LiveOptions, run

    for flag, value in (
        ("--log", options.log),
        ("--target", options.target),
        ("--json", options.json),
    ):
        if value:
            raise ConfigError(f"{flag} is not for demo --live", hint="leave it out")
    given = {name: value for name, value in _live_values(options).items() if value is not None}
    database = given.pop("--database")
    if not given and not database:
        return run(LiveOptions(keep=options.keep or ""))
    if not {"--host", "--socket"} & set(given):
        raise ConfigError("no server is named", hint="give --host HOST, or --socket PATH")
    if not database:
        raise ConfigError(
            "the demo creates a database on that server, and needs a name for it",
            hint="--database spark_repl_demo",
        )
    values = {f"source.{flag[2:].replace('-', '_')}": value for flag, value in given.items()}
    if not {"--password-env", "--password-file", "--password-command"} & set(given):
        values["source.password_env"] = PASSWORD_VARIABLE
        if PASSWORD_VARIABLE not in os.environ and sys.stdin.isatty():
            asked = f"Password of {given.get('--user', Config().source.user)}: "
            os.environ[PASSWORD_VARIABLE] = getpass.getpass(asked)
    for key in ("source.socket", "source.password_file", "source.tls_ca"):
        if key in values:
            values[key] = os.path.abspath(values[key])
    return run(LiveOptions(Config().override(values).source, database, options.keep or ""))
