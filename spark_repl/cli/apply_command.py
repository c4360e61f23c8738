"""``spark-repl apply``: a folder of log files into tables."""

from __future__ import annotations

import argparse
import signal

from . import inspect
from .configuration import configuration


def apply(options: argparse.Namespace) -> int:
    config = configuration(options)
    from ..apply.start.replica import Replica
    from ..control.records.channels import check_unowned
    from ..observe.progress import Progress
    from ..relay.log import open_log
    from ..runtime.session import build_session
    from ..schedule.until import Until

    until = Until.parse(options.until) if options.until else None
    relay = open_log(config.relay.path)  # a wrong folder is an error before Spark starts
    if until is not None:
        until.check_file(relay)
    check_unowned(config, take_over=options.take_over)
    master = options.master or f"local[{config.apply.workers}]"
    spark = build_session(master=master, delta=False)
    with Progress(config) as progress:
        replica = Replica(spark, config, progress.group, take_over=options.take_over, until=until)
        if options.from_here:
            replica.begin_here()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: replica.stop())
        with replica:
            progress.begin(replica)
            result = replica.apply(follow=options.follow)
    inspect.print_result(result, options.json)
    return 0
