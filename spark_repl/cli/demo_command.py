"""``spark-repl demo``: a recorded log into tables, and what they hold."""

from __future__ import annotations

import argparse


def demo(options: argparse.Namespace) -> int:
    from ..demo.bank_demo import run

    return run(options.keep, log=options.log, as_json=options.json)
