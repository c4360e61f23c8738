"""``spark-repl skip``: transactions to leave out, on record."""

from __future__ import annotations

import argparse
from functools import partial

from ..control.records.operator_decisions import SKIP, decide, skipped
from ..control.records.skips import check_absent
from ..errors import ConfigError
from ..gtid import GtidSet
from .inspect import channel_of, emit


def skip(options: argparse.Namespace) -> int:
    """Records GTIDs that are to be left out, as the target's owner: its applier must be stopped.
    Raises TargetError for what some table has already."""
    gtids = GtidSet.parse(options.gtid)
    if not gtids:
        raise ConfigError("--gtid is empty", hint="give one GTID, or a set")
    at = channel_of(options)
    control = at.control
    check = partial(check_absent, control, at.layout, gtids)
    decide(control, SKIP, {}, check=check, gtid_executed=str(gtids))
    emit({"skipped": str(skipped(control))}, options.json)
    return 0
