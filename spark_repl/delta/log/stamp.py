"""Stamp: the position that a commit of ours records with its data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stamp:
    """A commit's stamp. ``app`` and ``position`` are the appId and the version of its ``txn``
    action."""

    app: str
    position: int
    user_metadata: str
