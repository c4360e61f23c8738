"""GrowingLog: a recorded log that is written anew, at the rate of a live source."""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigError
from ..gtid import GtidSet
from ..position import RelayPosition
from ..relay.index import build_index
from ..relay.log import open_log

if TYPE_CHECKING:
    from ..schedule.until import Until

_STEP_S = 0.002


class GrowingLog:
    """The files of a recording, in a folder of their own, up to ``prepared``; what follows is
    appended as it is asked for. ``ends``: packed ends of the transactions that follow, ``at``: when
    each was there, in seconds of ``time.perf_counter``; 0: it is not yet."""

    def __init__(self, recorded: str, folder: str, prepared: Until) -> None:
        """Raises LogError, and ConfigError where nothing lies behind ``prepared``."""
        self._log, self._folder = open_log(recorded), folder
        with tempfile.TemporaryDirectory() as work:
            records = build_index(self._log, work).records
        count = prepared.count_before(records, GtidSet(), self._log, 0)
        if count is None or count + 1 >= len(records):
            raise ConfigError("--prepared: less than two transactions of the log lie behind it")
        self.ends = records["end"][count:].astype(np.int64)
        self.at = np.zeros(len(self.ends))
        self._there = 0
        self._number, self._offset = self._log.files[0].number, 0
        os.makedirs(folder)
        self._append(int(records["end"][count - 1]) if count else int(records["position"][0]))

    def add(self, count: int = 1) -> None:
        """Appends so many transactions more, or those that are left."""
        there = min(self._there + count, len(self.ends))
        if there > self._there:
            self._append(int(self.ends[there - 1]))
            self.at[self._there : there] = time.perf_counter()
            self._there = there

    def grow(self, rate: float) -> None:
        """Appends all that is left, ``rate`` transactions a second."""
        began, first = time.perf_counter(), self._there
        while self._there < len(self.ends):
            due = first + 1 + int((time.perf_counter() - began) * rate)
            self.add(due - self._there)
            time.sleep(_STEP_S)

    def _append(self, end: int) -> None:
        """Writes on up to a packed position; files that end before it are whole then."""
        place = RelayPosition.unpack(end)
        while self._number < place.file_no:
            self._copy(os.path.getsize(self._log.file(self._number).path))
            self._number, self._offset = self._number + 1, 0
        self._copy(place.offset)

    def _copy(self, upto: int) -> None:
        path = self._log.file(self._number).path
        with open(path, "rb") as source:
            source.seek(self._offset)
            data = source.read(upto - self._offset)
        with open(os.path.join(self._folder, os.path.basename(path)), "ab") as file:
            file.write(data)
        self._offset = upto
