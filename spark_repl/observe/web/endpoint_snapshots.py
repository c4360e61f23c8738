"""Looks: what the endpoint answers, by path, each from one look at the target."""

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


_KEPT_S = 1.0
"""however many paths are asked for, there is no more than one look at the target in so long"""


@dataclass(frozen=True)
class EndpointSnapshot:
    """``kind``: the text's Content-Type; ``text`` looks when it is called."""

    kind: str
    text: Callable[[], str]


def endpoint_snapshots(config: Config, relay: str, at: Channel) -> dict[str, EndpointSnapshot]:
    """The page, what `status --json` has, and what `status --metrics` has; but for the tables' own
    logs, which are asked for nothing. They share a look; the endpoint takes one at a time."""
    target = config.target
    last = [(-_KEPT_S, dict[str, Any]())]

    def fields() -> dict[str, Any]:
        looked, seen = last[0]
        if time.monotonic() - looked > _KEPT_S:
            seen = status(target.path, relay, target.state_path, at=at, each_table=False)
            last[0] = time.monotonic(), seen
        return seen

    return {
        "/": EndpointSnapshot(
            "text/html; charset=utf-8", lambda: page(fields(), lag_history(at.control), live=True)
        ),
        "/metrics": EndpointSnapshot(TEXT, lambda: metrics(fields())),
        "/status.json": EndpointSnapshot(
            "application/json", lambda: json.dumps(fields(), default=str) + "\n"
        ),
    }
