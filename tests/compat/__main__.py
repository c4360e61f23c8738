"""``make compat``: the acceptance tests on each release of Spark 4.

    python -m tests.compat            # on all releases
    python -m tests.compat --short 4.0

Each release has an environment below ``.cache/compat``, with a pyspark of its own. Everything else
is the environment's that runs this. An environment that exists is used without the network. The
tests are ordinary ones of the other suites; a test that is named here and does not exist is an
error.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from contextlib import suppress
from pathlib import Path

from tests.support.wait_until import wait_until

_PR_SET_CHILD_SUBREAPER = 36
_ORPHANS_S = 30.0
ROOT = Path(__file__).parents[2]
RELEASES = {"4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}
"""by release, its newest patch"""
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


def apply_seconds(release: str) -> float:
    """Return the least processor time of three runs of ``apply`` on the bank's log, in seconds.

    It depends less than the tests' time on how busy the machine is, and on what the tests of a
    release read tables by.
    """
    python, figures = str(environment(release)), list[float]()
    for _ in range(3):
        with tempfile.TemporaryDirectory() as target:
            words = ["apply", "--relay", "spark_repl/demo/bank", "--target", f"{target}/lake"]
            before = processor_seconds()
            subprocess.run(
                [python, "-m", "spark_repl", *words], cwd=ROOT, check=True,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            figures.append(processor_seconds() - before)
    return min(figures)


def adopt_orphans() -> None:
    """Have Linux give this process the children of ended ones: a JVM outlives its driver."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


def processor_seconds() -> float:
    """Return the processor time of all children that have ended, in seconds. Wait for orphans."""
    with suppress(AssertionError):  # an orphan that stays is not counted
        wait_until(_has_no_child, _ORPHANS_S, each_s=0.1)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _has_no_child() -> bool:
    """Return whether all children have ended, and take the result of one that has."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def main() -> int:
    """Run the releases one after the other, print the results, and return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat")
    parser.add_argument("releases", nargs="*", help="releases of Spark (default: all)")
    parser.add_argument("--short", action="store_true", help="run the short form, as CI does")
    parser.add_argument("--processes", default="2", help="number of pytest's processes")
    options = parser.parse_args()
    if unknown := set(options.releases) - set(RELEASES):
        parser.error(f"unknown releases {sorted(unknown)}: there are {', '.join(RELEASES)}")
    if not options.short:
        adopt_orphans()
    results = list[tuple[str, int, float, float]]()
    for release in options.releases or RELEASES:
        print(f"== Spark {release}: pyspark {RELEASES[release]}", flush=True)
        began = time.monotonic()
        code = run(release, short=options.short, processes=options.processes)
        used = 0.0 if options.short else apply_seconds(release)
        results.append((release, code, time.monotonic() - began, used))
    least = min(used for *_, used in results)
    for release, code, seconds, used in results:
        line = f"Spark {release}: {'passed' if not code else 'FAILED'} in {seconds:.0f} s"
        if least:
            line += f"; apply takes {used:.1f} s of processor time, {used / least:.2f} of the least"
        print(line)
    return int(any(code for _, code, *_ in results))


if __name__ == "__main__":
    sys.exit(main())
