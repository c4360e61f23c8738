"""``spark-repl setup`` and ``demo``."""

from __future__ import annotations

import argparse


def setup(options: argparse.Namespace) -> int:
    from .setup import run

    return run(s3=options.s3, as_json=options.json)


def demo(options: argparse.Namespace) -> int:
    from ..demo.bank_demo import run

    return run(options.keep, log=options.log, as_json=options.json)
