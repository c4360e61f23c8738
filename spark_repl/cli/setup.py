"""Set-up, once: check Java and create the class archive, which makes later starts quick.

``spark-repl setup`` needs no network. ``--delta`` also fetches the jars with which this Spark reads
the tables, ``--s3`` the jars for tables on S3; otherwise the first ``build_session`` that needs
them fetches them. The module itself, called with two paths, is the run whose classes are archived.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..errors import SetupError
from ..runtime.java import archive, check_java, delta_jars, jar_folder, s3_jars
from ..user_cache import cache_folder

_TRAINING = Path(__file__).parents[1] / "demo" / "bank"


def make_archive() -> Path:
    """Run the applier once on the demo's log, so that Java archives the classes that it loads."""
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        new_archive = os.path.join(work, "classes.jsa")
        command = [
            sys.executable,
            "-m",
            "spark_repl.cli.setup",
            new_archive,
            os.path.join(work, "lake"),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode or not os.path.exists(new_archive):
            raise SetupError(
                "Java could not write its class archive: "
                + "\n".join(ran.stderr.splitlines()[-8:]),
                hint="the applier also works without it, each start takes some seconds longer",
            )
        os.replace(new_archive, path)
    return path


def train(new_archive: str, target: str) -> None:
    """Run an applier whose JVM archives its classes at its end."""
    from pyspark import SparkContext

    from ..apply.start.replica import Replica
    from ..config import Config
    from ..runtime.spark_session import build_session

    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    spark = build_session(
        master="local[2]",
        java_options=f"-XX:ArchiveClassesAtExit={new_archive} {quiet}",
        delta=False,
    )
    config = Config.from_mapping({"relay": {"path": str(_TRAINING)}, "target": {"path": target}})
    with Replica(spark, config) as replica:
        replica.apply()
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.proc.stdin.close()  # the JVM ends with its input; the archive is written meanwhile
    gateway.proc.wait()


def setup(options: argparse.Namespace) -> int:
    """Print the results, and return 0. Raise SetupError without Java, or if requested jars cannot
    be fetched."""
    fields: dict[str, Any] = {"java": check_java()}
    print(f"Java {fields['java']}")
    if options.delta or options.s3:
        fields |= {"delta_jars": len(delta_jars()), "folder": str(jar_folder())}
        print(f"{fields['delta_jars']} Delta jars in {fields['folder']}")
    if options.s3:
        fields["s3_jars"] = len(s3_jars())
        print(f"{fields['s3_jars']} jars of S3A in {cache_folder() / 'jars'}")
    if not archive().exists():
        try:
            print("Creating Java's class archive: about a minute", flush=True)
            print(f"Class archive {make_archive()}")
        except SetupError as error:
            print(f"Warning: {error.message}\nTry: {error.hint}", file=sys.stderr)
    if options.json:
        print(json.dumps(fields | {"archive": str(archive()) if archive().exists() else None}))
    return 0


if __name__ == "__main__":
    train(*sys.argv[1:])
