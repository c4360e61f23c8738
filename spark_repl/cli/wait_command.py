"""``spark-repl wait``: until readers can see a set of transactions."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from ..config import load
from ..control.cuts.cut_wait import unknown_sources, uuids_of, wait_at
from ..errors import SourceError, TargetError
from ..source.connection import DumpConnection
from .inspect import channel_of, emit

if TYPE_CHECKING:
    from ..config import Config
    from ..control.records.channels import Channel


def wait(options: argparse.Namespace) -> int:
    """Ends when a cut holds all of them. Raises TargetError at the timeout, and at once for
    transactions of a server that neither the source nor the target knows."""
    began = time.monotonic()
    at = channel_of(options)
    if options.config:
        _check_known(load(options.config), at, options.gtid)
    cut = wait_at(at.control, at.layout.target, options.gtid, options.timeout)
    seconds = round(time.monotonic() - began, 3)
    emit({"gtid_executed": cut.gtid_executed, "seconds": seconds}, options.json)
    return 0


def _check_known(config: Config, at: Channel, gtid_set: str) -> None:
    """Raise TargetError for a server that neither the source nor the target knows. The source is
    asked only if the target does not know it, and one that does not answer is no error."""
    unknown = unknown_sources(at.control, gtid_set)
    if not unknown:
        return
    try:
        connection = DumpConnection(config.source)
        try:
            server = connection.server()
        finally:
            connection.close()
    except SourceError:
        return
    known = uuids_of(server.executed) | {server.uuid.lower()}
    if lost := [uuid for uuid in unknown if uuid not in known]:
        raise TargetError(
            f"neither the source nor the target has a transaction of {', '.join(lost)}",
            file=at.layout.target,
            hint="give a set that SELECT @@GLOBAL.gtid_executed on the source returns",
        )
