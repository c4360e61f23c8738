"""spark-submit entry point: follows the relay folder of a configuration file.

spark-submit jobs/replicate.py conf/replica.toml [--available-now] [--until U]

It takes the options of ``spark-repl apply``, prints the same and ends with the same codes. It
follows the log until SIGTERM, as ``apply --follow`` does. With ``--available-now`` it ends where
the log ends now, as ``apply`` does. The master is spark-submit's.
"""

import sys

from spark_repl.cli.main import main

NOW = "--available-now"


def command(words: list[str]) -> list[str]:
    """Return the words of the command line for a job's words."""
    given = [word for word in words if word not in (NOW, "--follow")]
    return ["apply", "--config", *given, *([] if NOW in words else ["--follow"])]


if __name__ == "__main__":
    sys.exit(main(command(sys.argv[1:])))
