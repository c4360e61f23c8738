"""GrowingLog: a recorded log that is written again at the rate of a live source."""

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
    """A recording's files, in a folder of their own, up to ``prepared``; the rest is appended
    later.

    ``ends``: packed ends of the transactions after ``prepared``; ``at``: when each was appended, in
    seconds of ``time.perf_counter``; 0: not yet.
    """

    def __init__(self, recorded: str, folder: str, prepared: Until) -> None:
        """Raise LogError, or ConfigError if the log ends at ``prepared``."""
        self._log, self._folder = open_log(recorded), folder
        with tempfile.TemporaryDirectory() as work:
            records = build_index(self._log, work).records
        count = prepared.count_before(records, GtidSet(), self._log, 0)
        if count is None or count + 1 >= len(records):
            raise ConfigError("--prepared: less than two transactions of the log lie behind it")
        self.ends = records["end"][count:].astype(np.int64)
        self.at = np.zeros(len(self.ends))
        self._appended = 0
        self._number, self._offset = self._log.files[0].number, 0
        os.makedirs(folder)
        self._append(int(records["end"][count - 1]) if count else int(records["position"][0]))

    def add(self, count: int = 1) -> None:
        """Append ``count`` more transactions, or the remaining ones."""
        appended = min(self._appended + count, len(self.ends))
        if appended > self._appended:
            self._append(int(self.ends[appended - 1]))
            self.at[self._appended : appended] = time.perf_counter()
            self._appended = appended

    def grow(self, rate: float) -> None:
        """Append the remaining transactions, ``rate`` per second."""
        began, first = time.perf_counter(), self._appended
        while self._appended < len(self.ends):
            due = first + 1 + int((time.perf_counter() - began) * rate)
            self.add(due - self._appended)
            time.sleep(_STEP_S)

    def _append(self, end: int) -> None:
        """Append up to a packed position. Files that end before it are then complete."""
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
