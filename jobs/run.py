"""spark-submit entry point: first copy, receiver and applier, until SIGTERM.

spark-submit jobs/run.py conf/replica.toml [--take-over] [--verbose]

It takes the options of ``spark-repl run``, prints the same and ends with the same codes. The master
is spark-submit's.
"""

import sys

from spark_repl.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["run", "--config", *sys.argv[1:]]))
