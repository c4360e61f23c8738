"""Table rows: the first rows of a table at a cut, as JSON for the page.

A process of its own reads them, with limited memory and time, so that a large row cannot harm the
applier.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

from ...errors import TargetError

_READER = "spark_repl.control.cuts.cut_head"
_NAME_MOST, _AT_MOST = 300, 300
_TIMEOUT_S = 30.0
_PACKAGES = Path(__file__).parents[3]


class TableRows:
    """Reads rows of a target, for one request at a time."""

    def __init__(self, target: str, state_path: str, channel: str) -> None:
        self._place = {"target": target, "state_path": state_path, "channel": channel}
        self._lock = threading.Lock()

    def read(self, table: str, at: str) -> str:
        """Return the rows as JSON. Raise TargetError if they can't be read in time, or need too
        much memory."""
        if len(table) > _NAME_MOST or len(at) > _AT_MOST:
            raise TargetError("the name of the table or the cut is too long")
        request = json.dumps({**self._place, "table": table, "at": at})
        with self._lock:
            try:
                ran = subprocess.run(
                    [sys.executable, "-m", _READER], input=request.encode(), timeout=_TIMEOUT_S,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                    process_group=0, env={**os.environ, "PYTHONPATH": _path()},
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise TargetError(f"the rows took more than {_TIMEOUT_S:g} s", table=table,
                                  hint=_by_command(table)) from error  # fmt: skip
        if ran.returncode:
            raise TargetError("the rows can't be read: they may be too large", table=table,
                              hint=_by_command(table))  # fmt: skip
        return ran.stdout.decode()


def _path() -> str:
    return os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))


def _by_command(table: str) -> str:
    return f"spark-repl cut head --config F {shlex.quote(table)} -n 1"
