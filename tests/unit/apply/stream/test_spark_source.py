"""The source's process of Spark, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# As Spark's python_streaming_source_runner calls the reader.
_WORKER = """
import sys
from spark_repl.apply.stream.spark_source import MySQLRelayReader
reader = MySQLRelayReader({"path": sys.argv[1]})
try:
    try:
        raise eval(sys.argv[2])
    finally:
        reader.stop()
except BaseException:
    raise BrokenPipeError("the answer has no reader")
"""


@pytest.mark.parametrize(
    ("error", "is_printed"),
    [("EOFError", False), ("BrokenPipeError", False), ("ValueError", True)],
)
def test_a_connection_that_spark_has_closed_is_not_printed(
    tmp_path: Path, error: str, is_printed: bool
) -> None:
    """Found: each end of a stream could print two tracebacks, depending on who was faster."""
    command = [sys.executable, "-c", _WORKER, str(tmp_path), error]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ("Traceback" in ended.stderr) == is_printed
