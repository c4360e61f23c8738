"""``spark-repl skip``: transactions to leave out, on record."""

from __future__ import annotations

import argparse
from functools import partial

from ..control.by_hand import SKIP, decide, skipped
from ..control.control import Control
from ..control.layout import Layout
from ..control.skips import check_absent
from ..errors import ConfigError
from ..gtid import GtidSet
from .inspect import emit


def skip(options: argparse.Namespace) -> int:
    """Records GTIDs that are to be left out, as the target's owner: its applier must be stopped.
    Raises TargetError for what some table has already."""
    gtids = GtidSet.parse(options.gtid)
    if not gtids:
        raise ConfigError("--gtid is empty", hint="give one GTID, or a set")
    control = Control.existing(options.target)
    check = partial(check_absent, control, Layout(options.target), gtids)
    decide(control, SKIP, {}, check=check, gtid_executed=str(gtids))
    emit({"skipped": str(skipped(control))}, options.json)
    return 0
