"""``python -m tests.support.live.apply_once LOG TARGET BOUND MAPPING``: applies a log without
Spark, in groups of at most BOUND transactions. It prints ``ready`` before it begins, so that a test
can kill it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.local_delta import run


def main(log: Path, target: Path, bound: int, *, mapping: bool) -> None:
    print("ready", flush=True)
    assert run(log, target, group_max_transactions=bound, keys={"column_mapping": mapping})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), mapping=sys.argv[4] == "True")
