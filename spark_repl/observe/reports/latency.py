"""Latency: from a transaction's commit on the source to the cut that shows it, as a histogram."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 86400.0)
_WAITING_MOST = 1 << 17
_MICROSECONDS = 1_000_000

Times = npt.NDArray[np.int64]


class Latency:
    """Counts transactions by the time from their commit to their cut. Not thread-safe.

    Committed transactions wait for their cut (``landed``). Transactions without a time in the log
    (before MySQL 8.0) are not counted.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(len(BOUNDS_S) + 1, np.int64)  # the last: above all bounds
        self._sum_s = 0.0
        self._waiting: list[tuple[Times, Times]] = []  # microseconds, how many
        self._size, self._limit = 0, _WAITING_MOST

    def landed(self, commit_times: Times) -> None:
        """Add transactions that are in the tables. ``commit_times``: microseconds UTC."""
        times = commit_times[commit_times > 0]
        part = (times, np.ones(len(times), np.int64))
        self._waiting.append(part if len(times) < _WAITING_MOST else _by_second(*part))
        self._size += len(self._waiting[-1][0])
        if self._size > self._limit:
            self._coarsen()

    def cut(self) -> None:
        """Count the waiting transactions: a cut shows them now."""
        now = time.time()
        for times, weights in self._waiting:
            # A source's clock that is ahead of this one's makes no negative time.
            seconds = np.maximum(0.0, now - times / _MICROSECONDS)
            places = np.searchsorted(BOUNDS_S, seconds, "left")
            self._counts += np.bincount(places, weights, len(self._counts)).astype(np.int64)
            self._sum_s += float(seconds @ weights)
        self._waiting, self._size, self._limit = [], 0, _WAITING_MOST

    def _coarsen(self) -> None:
        """Round the waiting times to seconds, to bound memory while no cut is published."""
        times = np.concatenate([part for part, _ in self._waiting])
        weights = np.concatenate([part for _, part in self._waiting])
        self._waiting = [_by_second(times, weights)]
        self._size = len(self._waiting[0][0])
        self._limit = self._size + _WAITING_MOST

    def fields(self) -> dict[str, Any]:
        return {
            "bounds_s": list(BOUNDS_S), "counts": self._counts.tolist(),
            "sum_s": round(self._sum_s, 3),
        }  # fmt: skip


def _by_second(times: Times, weights: Times) -> tuple[Times, Times]:
    """Return the times rounded down to seconds, once each and ascending, and their weights."""
    rounded = times // _MICROSECONDS
    first = rounded.min()
    if rounded.max() - first < _WAITING_MOST:  # counting takes less time than sorting
        counts = np.bincount(rounded - first, weights)
        seconds = np.flatnonzero(counts) + first
        return seconds * _MICROSECONDS, counts[seconds - first].astype(np.int64)
    seconds, places = np.unique(rounded, return_inverse=True)
    return seconds * _MICROSECONDS, np.bincount(places, weights).astype(np.int64)


def quantile(histogram: Mapping[str, Any], share: float) -> float | None:
    """Return the bound, in seconds, below which ``share`` of the transactions are.

    Return None without transactions, infinity if the quantile is above all bounds.
    """
    counts = np.cumsum(histogram.get("counts") or [0])
    if not counts[-1]:
        return None
    place = int(np.searchsorted(counts, share * counts[-1], "left"))
    bounds: list[float] = [*histogram["bounds_s"], float("inf")]
    return bounds[place]
