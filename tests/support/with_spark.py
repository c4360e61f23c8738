"""A command that runs ``spark-repl`` in a new process, which starts Spark at once, even for a small
log. ``apply --follow`` then also starts a stream."""

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
