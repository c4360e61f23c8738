"""A process of ours that has no use for pandas does not load it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import pyarrow
from spark_repl.service.worker_daemon import block_imports
{}
assert pyarrow.array([1, None]).to_pylist() == [1, None]
print("pandas" in sys.modules, len(sys.argv))
"""


RECEIVER = """
import importlib.util, os, sys
from spark_repl.cli.main import main
assert main(["receive", "--config", "none.toml", *sys.argv[1:]]) == 2
try:
    print(bool(importlib.util.find_spec("pandas")))
except ModuleNotFoundError:
    print(False)
"""


def loaded(first: str) -> str:
    command = [sys.executable, "-c", SCRIPT.format(first)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_pyarrow_does_without_pandas() -> None:
    assert loaded("") == "True 1\n", "else there is nothing to leave out"
    assert loaded("block_imports('pandas')") == "False 1\n"


def test_a_receiver_beside_an_applier_does() -> None:
    for words, there in (([], "True\n"), (["--supervised", "1"], "False\n")):
        command = [sys.executable, "-c", RECEIVER, *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ran.stdout == there
