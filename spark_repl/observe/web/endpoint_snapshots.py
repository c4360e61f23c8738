"""Endpoint snapshots: what the endpoint answers, by path."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..metrics import metrics
from ..status.status import status
from .lag_history import lag_history
from .page import page

if TYPE_CHECKING:
    from ...config import Config
    from ...control.records.channels import Channel

TEXT = "text/plain; version=0.0.4; charset=utf-8"


_STATUS_AGE_MAX_S = 1.0
"""age up to which requests of all paths share one status"""


@dataclass(frozen=True)
class EndpointSnapshot:
    """``kind``: the Content-Type; ``text`` takes the snapshot and returns it."""

    kind: str
    text: Callable[[], str]


def endpoint_snapshots(config: Config, relay: str, at: Channel) -> dict[str, EndpointSnapshot]:
    """Return the page, `status --json` and `status --metrics`, by path.

    They leave out what only the tables' own logs show. They share one status; the endpoint calls
    one of them at a time.
    """
    target = config.target
    last = [(-_STATUS_AGE_MAX_S, dict[str, Any]())]

    def current() -> dict[str, Any]:
        at_s, fields = last[0]
        if time.monotonic() - at_s > _STATUS_AGE_MAX_S:
            fields = status(target.path, relay, target.state_path, at=at, each_table=False)
            last[0] = time.monotonic(), fields
        return fields

    return {
        "/": EndpointSnapshot(
            "text/html; charset=utf-8", lambda: page(current(), lag_history(at.control), live=True)
        ),
        "/metrics": EndpointSnapshot(TEXT, lambda: metrics(current())),
        "/status.json": EndpointSnapshot(
            "application/json", lambda: json.dumps(current(), default=str) + "\n"
        ),
    }
