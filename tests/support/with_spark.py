"""The commands in a process of their own that starts Spark, and a stream, at once: however small
the log is, and although nothing needs them yet."""

from __future__ import annotations

import sys

_CODE = """
import sys
from spark_repl.apply.stream import stream
from spark_repl.cli.main import main
stream._MANY = -1
sys.exit(main(sys.argv[1:]))
"""

WITH_SPARK = [sys.executable, "-c", _CODE]
"""command; arguments of ``spark-repl`` follow"""
