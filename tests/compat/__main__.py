"""``make compat``: the acceptance tests on each release of Spark 4.

    python -m tests.compat            # on all releases, and how fast each one applies
    python -m tests.compat --short 4.0
    python -m tests.compat --speed [--log DIR...]  # only how fast each one applies logs

Each release has an environment below ``.cache/compat``, with a pyspark of its own. Everything else
is the environment's that runs this. An environment that exists is used without the network. The
tests are ordinary ones of the other suites; a test that is named here and does not exist is an
error.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

from tests.compat.speed import compare

ROOT = Path(__file__).parents[2]
RELEASES = {"4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}
"""by release, its newest patch"""
BANK = str(ROOT / "spark_repl" / "demo" / "bank")
SHORT = (
    "tests/spark/test_apply.py::test_bank_ends_as_the_server",
    "tests/spark/test_apply.py::test_second_run_changes_nothing",
    "tests/spark/test_stream.py::test_a_stream_goes_on_from_its_checkpoint",
    "tests/spark/test_stream.py::test_the_applier_reads_to_the_end_of_a_log_of_several_batches",
    "tests/spark/test_schema_changes.py::test_spark_reads_each_cuts_columns_and_rows_after_schema_changes",
    "tests/spark/test_worker_daemon.py",
    "tests/crash/test_kill.py::test_kills_at_random_moments_leave_the_servers_tables[2]",
    "tests/live/test_copy.py::test_killed_copy_goes_on",
)
"""apply, follow, statements, kills and a copy"""
WHOLE = (
    *SHORT,
    "tests/spark/test_apply.py",
    "tests/spark/test_stream.py",
    "tests/spark/test_schema_changes.py",
    "tests/spark/test_workers.py",
    "tests/spark/test_without_delta.py",
    "tests/live/test_copy.py",
    "tests/live/test_run.py",
    "tests/live/test_readers_agree.py",
)
"""and what they show in more cases; the readers of the tables"""


def environment(release: str) -> Path:
    """Return the Python of a release's environment, made if it is missing."""
    version = RELEASES[release]
    folder = ROOT / ".cache" / "compat" / version
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        print(f"Installing pyspark {version} into {folder}", flush=True)
        venv.create(folder, clear=True, with_pip=True, symlinks=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"pyspark=={version}"], check=True)
        shared = sysconfig.get_paths()["purelib"]
        own = Path(sysconfig.get_paths(vars={"base": str(folder)})["purelib"])
        # The last place on the path: the environment's own pyspark comes first.
        (own / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
        complete.touch()
    return python


def run(release: str, *, short: bool, processes: str) -> int:
    """Make the class archive, run the tests on a release, and return pytest's exit code."""
    python = str(environment(release))
    if code := subprocess.run([python, "-m", "spark_repl", "setup"], cwd=ROOT).returncode:
        return code
    command = [python, "-m", "pytest", "-q", "-n", processes, "--dist", "worksteal"]
    tests = [*SHORT, "-m", "not soak"] if short else [*WHOLE, "-m", "not soak"]
    return subprocess.run([*command, *tests], cwd=ROOT, env=dict(os.environ)).returncode


def main() -> int:
    """Run the releases one after the other, print the results, and return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat")
    parser.add_argument("releases", nargs="*", help="releases of Spark (default: all)")
    parser.add_argument("--short", action="store_true", help="run the short form, as CI does")
    parser.add_argument("--speed", action="store_true", help="run no tests, only measure")
    parser.add_argument("--log", nargs="+", default=[BANK], help="folders of logs to measure with")
    parser.add_argument("--rounds", type=int, default=10, help="measured runs of each release")
    parser.add_argument("--processes", default="2", help="number of pytest's processes")
    options = parser.parse_args()
    if unknown := set(options.releases) - set(RELEASES):
        parser.error(f"unknown releases {sorted(unknown)}: there are {', '.join(RELEASES)}")
    releases, results = options.releases or [*RELEASES], dict[str, int]()
    for release in [] if options.speed else releases:
        print(f"== Spark {release}: pyspark {RELEASES[release]}", flush=True)
        began = time.monotonic()
        code = run(release, short=options.short, processes=options.processes)
        results[f"Spark {release} after {time.monotonic() - began:.0f} s"] = code
    if not options.short:
        compare({f"Spark {r}": environment(r) for r in releases}, options.log, options.rounds)
    for name, code in results.items():
        print(f"{name}: {'passed' if not code else 'FAILED'}")
    return int(any(results.values()))


if __name__ == "__main__":
    sys.exit(main())
