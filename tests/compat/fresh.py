"""``make compat-fresh``: a new environment with only pyspark, for each release of Spark. The wheel
is installed beside it, and the README's examples run.

    python -m tests.compat.fresh [4.0 ...]

Each environment (1.3 GB) is removed after its run. Delta's jars, for the reader, are of the user's
cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from tests.compat.__main__ import RELEASES
from tests.support.examples import ALL, ROOT

_SHELL = ALL["README.md bash 2"].text
_PYTHON = (ALL["README.md python 1"].text, ALL["README.md python 2"].text)
_SCRIPT = """
from spark_repl import build_session
from spark_repl.runtime.spark_release import reads_delta

spark = build_session(delta=reads_delta())
for number, block in enumerate({blocks!r}):
    if number == 0 or reads_delta():
        exec(block)
        print("Python block", number + 1, "ran")
spark.stop()
"""


def environment(folder: Path, version: str, wheel: Path) -> Path:
    """Create an environment with a pyspark, install the wheel beside it, and return the folder of
    its commands. Raise AssertionError if that replaces the pyspark."""
    venv.create(folder, with_pip=True, symlinks=True)

    def pip(*words: str) -> str:
        command = [str(folder / "bin" / "python"), "-m", "pip", *words]
        ran = subprocess.run(command, env=variables(), check=True, stdout=subprocess.PIPE)
        return ran.stdout.decode()

    pip("install", "--quiet", f"pyspark=={version}")
    pip("install", "--quiet", str(wheel))
    pip("check")
    shown = pip("show", "pyspark")
    assert f"Version: {version}\n" in shown, shown
    return folder / "bin"


def variables() -> dict[str, str]:
    """Return this process's environment without what leads to another Python or Spark."""
    others = ("PYTHON", "PYSPARK", "SPARK_HOME")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


def run_examples(commands: Path, folder: Path) -> None:
    """Run the README's examples in ``folder``, which has the log where the README has it."""
    own = variables()
    own["PATH"] = f"{commands}:{own['PATH']}"
    (folder / "spark_repl" / "demo").mkdir(parents=True)
    (folder / "spark_repl" / "demo" / "bank").symlink_to(ROOT / "spark_repl" / "demo" / "bank")
    shell = ["bash", "-euo", "pipefail", "-c", _SHELL]
    python = [str(commands / "python"), "-c", _SCRIPT.format(blocks=_PYTHON)]
    for command in (shell, python):
        subprocess.run(command, cwd=folder, env=own, check=True)


def main() -> int:
    """Build the wheel, run each release, print the results, and return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat.fresh")
    parser.add_argument("releases", nargs="*", help="releases of Spark (default: all)")
    releases = parser.parse_args().releases or list(RELEASES)
    results = list[str]()
    with tempfile.TemporaryDirectory() as work:
        build = [sys.executable, "-m", "build", "--quiet", "--wheel", "--outdir", work, "."]
        subprocess.run(build, cwd=ROOT, check=True)
        (wheel,) = Path(work).glob("*.whl")
        for release in releases:
            began, result = time.monotonic(), "passed"
            with tempfile.TemporaryDirectory() as folder:
                print(f"== pyspark {RELEASES[release]}, and {wheel.name}", flush=True)
                try:
                    place = Path(folder)
                    commands = environment(place / "environment", RELEASES[release], wheel)
                    run_examples(commands, place)
                except (subprocess.CalledProcessError, AssertionError) as error:
                    result = f"FAILED: {error}"
            results.append(f"Spark {release}: {result} in {time.monotonic() - began:.0f} s")
    print(*results, sep="\n")
    return int(any("FAILED" in result for result in results))


if __name__ == "__main__":
    sys.exit(main())
