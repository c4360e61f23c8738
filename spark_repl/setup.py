"""Set-up, once: Java is checked, Delta's jars are fetched, the class archive is made.

``python -m spark_repl.setup``; every later start is offline and quick. ``... setup s3`` fetches the
jars for a target on S3 too, which else the first start with such a target does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .errors import SetupError
from .java import archive, check_java, delta_jars, jar_folder, s3_jars
from .user_cache import cache_folder

_TRAINING = Path(__file__).parent / "demo" / "bank"


def make_archive() -> Path:
    """Runs the applier once on the demo's log; Java writes down the classes that it loaded."""
    place = archive()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        made = os.path.join(work, "classes.jsa")
        command = [sys.executable, "-m", "spark_repl.setup", made, os.path.join(work, "lake")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode or not os.path.exists(made):
            raise SetupError(
                "Java could not write its class archive: "
                + "\n".join(ran.stderr.splitlines()[-8:]),
                hint="the applier also works without it, each start takes some seconds longer",
            )
        os.replace(made, place)
    return place


def train(made: str, target: str) -> None:
    """A run whose JVM archives its classes when it ends."""
    from pyspark import SparkContext

    from .config import Config
    from .replica import Replica
    from .session import build_session

    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    spark = build_session(
        master="local[2]", java_options=f"-XX:ArchiveClassesAtExit={made} {quiet}"
    )
    config = Config.from_mapping({"relay": {"path": str(_TRAINING)}, "target": {"path": target}})
    with Replica(spark, config) as replica:
        replica.apply()
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.proc.stdin.close()  # the JVM ends with its input; the archive is written meanwhile
    gateway.proc.wait()


def main() -> int:
    """Says what was found and made. Exit code 0."""
    if sys.argv[1:] == ["s3"]:
        print(f"{len(s3_jars())} jars of S3A in {cache_folder() / 'jars'}")
    print(f"Java {check_java()}, {len(delta_jars())} Delta jars in {jar_folder()}")
    if not archive().exists():
        try:
            print(f"Class archive {make_archive()}")
        except SetupError as error:
            print(f"Warning: {error.message}\nTry: {error.hint}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        train(*sys.argv[1:])
    else:
        sys.exit(main())
