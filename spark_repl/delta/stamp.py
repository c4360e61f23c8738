"""Stamp: what a commit of ours bears beside its data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stamp:
    """``app`` and ``position`` are the appId and the version of the commit's ``txn`` action."""

    app: str
    position: int
    user_metadata: str
